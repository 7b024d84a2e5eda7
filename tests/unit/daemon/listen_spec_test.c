#include "daemon/listen_spec.h"
#include "daemon/why.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_loopback(const char *text, bool expected) {
  struct tkt_listen_spec spec;
  char why[TKT_DAEMON_WHY_SIZE];
  if (!tkt_listen_spec_parse(text, &spec, why)) fail_msg("'%s': %s", text, why);
  if (tkt_listen_spec_loopback(&spec) != expected) fail_msg("'%s'", text);
}

static void only_this_machine_reaches_loopback(void **state) {
  (void)state;
  assert_loopback("127.0.0.1:5225", true);
  assert_loopback("127.255.0.9:1", true);
  assert_loopback("localhost:1", true);
  assert_loopback("[::1]:1", true);
  assert_loopback("0.0.0.0:1", false);
  assert_loopback("[::]:1", false);
  assert_loopback("128.0.0.1:1", false);
  assert_loopback("10.0.0.1:1", false);
  assert_loopback("[::ffff:10.0.0.1]:1", false);
  assert_loopback("localhost.example:1", false);
}

static void an_address_with_options_is_read(void **state) {
  (void)state;
  struct tkt_listen_spec spec;
  char why[TKT_DAEMON_WHY_SIZE], text[TKT_ADDRESS_TEXT_MAX + 1];
  assert_true(tkt_listen_spec_parse("127.0.0.1:0,tls,wire=3", &spec, why));
  assert_int_equal(spec.wire->version, 3);
  assert_true(tkt_listen_spec_parse("127.0.0.1:0,wire=3,wire=2", &spec, why));
  assert_int_equal(spec.wire->version, 2);
  assert_true(tkt_listen_spec_parse("127.0.0.1:0,wire=2", &spec, why));
  assert_int_equal(spec.address.port, 0);
  assert_int_equal(spec.wire->version, 2);
  tkt_listen_spec_text(&spec, 40123, text);
  assert_string_equal(text, "127.0.0.1:40123");
  assert_false(spec.tls);
  assert_true(tkt_listen_spec_parse("127.0.0.1:5225,tls,wire=2", &spec, why));
  assert_true(spec.tls);
  assert_true(tkt_listen_spec_parse("[::1]:5225", &spec, why));
  assert_false(spec.tls);
  assert_int_equal(spec.wire->version, 2);
  tkt_listen_spec_text(&spec, 5225, text);
  assert_string_equal(text, "[::1]:5225");
}

static void assert_refused(const char *text, const char *sentence_part) {
  struct tkt_listen_spec spec;
  char why[TKT_DAEMON_WHY_SIZE] = "";
  if (tkt_listen_spec_parse(text, &spec, why)) fail_msg("'%s' was accepted", text);
  /* Every refusal names the option with the value as it was given. */
  char named[TKT_DAEMON_WHY_SIZE];
  snprintf(named, sizeof named, "--listen is '%s'", text);
  if (!strstr(why, named) || !strstr(why, sentence_part)) fail_msg("'%s': %s", text, why);
}

static void what_cannot_stand_there_is_refused_by_name(void **state) {
  (void)state;
  assert_refused("127.0.0.1", "port");
  assert_refused("", "port");
  assert_refused("127.0.0.1:70000", "65535");
  assert_refused("127.0.0.1:http", "65535");
  assert_refused(":5225", "127.0.0.1:5225");
  assert_refused("::1:5225", "brackets");
  assert_refused("127.0.0.1:1,wire=4", "'wire=4' is no option");
  assert_refused("127.0.0.1:1,wire=", "'wire=' is no option");
  assert_refused("127.0.0.1:1,tls=yes", "'tls=yes' is no option");
  assert_refused("127.0.0.1:1,wire=2,advertise=a:1", "'advertise=a:1' is not there yet");
  assert_refused("127.0.0.1:1,wire=2x", "'wire=2x' is no option");
  assert_refused("127.0.0.1:1,", "'' is no option");
  assert_refused("127.0.0.1:1,colour=red", "'colour=red' is no option");
}

static void an_endless_value_does_not_overflow_the_sentence(void **state) {
  (void)state;
  static char text[4096];
  char why[TKT_DAEMON_WHY_SIZE];
  struct tkt_listen_spec spec;
  memset(text, 'x', sizeof text - 1);
  assert_false(tkt_listen_spec_parse(text, &spec, why));
  assert_true(strlen(why) < sizeof why);
  memcpy(text, "127.0.0.1:1,", 12);
  assert_false(tkt_listen_spec_parse(text, &spec, why));
  assert_true(strlen(why) < sizeof why);
  assert_non_null(strstr(why, "may stand"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_this_machine_reaches_loopback),
      cmocka_unit_test(an_address_with_options_is_read),
      cmocka_unit_test(what_cannot_stand_there_is_refused_by_name),
      cmocka_unit_test(an_endless_value_does_not_overflow_the_sentence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
