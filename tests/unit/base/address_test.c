#include "base/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static enum tkt_address_fault parse(const char *text, struct tkt_address *out) {
  return tkt_address_parse(tkt_span_str(text), false, out);
}

static void assert_parses(const char *text, const char *host, unsigned port, bool v6) {
  struct tkt_address a;
  assert_int_equal(parse(text, &a), TKT_ADDRESS_OK);
  assert_string_equal(a.host, host);
  assert_int_equal(a.port, port);
  assert_int_equal(a.v6_literal, v6);
}

static void a6_names_and_literals(void **state) {
  (void)state;
  assert_parses("localhost:5225", "localhost", 5225, false);
  assert_parses("127.0.0.1:1", "127.0.0.1", 1, false);
  assert_parses("lock-1.example_zone.org:65535", "lock-1.example_zone.org", 65535, false);
  assert_parses("lock.example.:80", "lock.example.", 80, false);
  assert_parses("1a.2b:80", "1a.2b", 80, false);
  assert_parses("[::1]:5225", "::1", 5225, true);
  assert_parses("[2001:db8::10]:80", "2001:db8::10", 80, true);
  assert_parses("[::ffff:127.0.0.1]:80", "::ffff:127.0.0.1", 80, true);
  assert_parses("[fe80::1%eth0.7]:80", "fe80::1%eth0.7", 80, true);
}

static void assert_fault(const char *text, enum tkt_address_fault fault) {
  struct tkt_address a;
  enum tkt_address_fault got = parse(text, &a);
  if (got != fault) fail_msg("'%s': %d instead of %d", text, (int)got, (int)fault);
}

static void a6_there_is_no_default_port(void **state) {
  (void)state;
  static const char *const texts[] = {
      "", "localhost", "localhost:", "127.0.0.1", "[::1]", "[::1]:"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_fault(texts[i], TKT_ADDRESS_NO_PORT);
}

static void a6_ports_are_1_to_65535(void **state) {
  (void)state;
  static const char *const ports[] = {
      "0",  "65536", "99999", "100000", "4294972521", "-1",     "+1",
      " 1", "1 ",    "0x10",  "80a",    "\xd9\xa1",   "000080", "18446744073709551617"};
  for (size_t i = 0; i < sizeof ports / sizeof *ports; i++) {
    char text[64];
    snprintf(text, sizeof text, "host:%s", ports[i]);
    assert_fault(text, TKT_ADDRESS_BAD_PORT);
    snprintf(text, sizeof text, "[::1]:%s", ports[i]);
    assert_fault(text, TKT_ADDRESS_BAD_PORT);
  }
}

static void a6_port_zero_only_where_it_is_allowed(void **state) {
  (void)state;
  struct tkt_address a;
  assert_int_equal(tkt_address_parse(tkt_span_str("127.0.0.1:0"), true, &a), TKT_ADDRESS_OK);
  assert_int_equal(a.port, 0);
  assert_int_equal(tkt_address_parse(tkt_span_str("127.0.0.1:65536"), true, &a),
                   TKT_ADDRESS_BAD_PORT);
}

static void a6_hosts_nobody_can_mean(void **state) {
  (void)state;
  static const char *const texts[] = {
      ":80",
      "a b:80",
      "a\tb:80",
      "a/b:80",
      "http://a:80",
      "user@a:80",
      "::1:80",
      "2001:db8::1:80",
      "::1",
      "a:b:80",
      "*:80",
      "a..b:80",
      ".a:80",
      ".:80",
      "a..:80",
      "1.2.3:80",
      "1.2.3.4.5:80",
      "256.1.1.1:80",
      "1.2.3.4.:80",
      "5225:80",
      "a.5:80",
      "\xc3\xa9:80",
      "[]:80",
      "[::1:80",
      "::1]:80",
      "[::1]80",
      "[::1]x:80",
      "[127.0.0.1]:80",
      "[host]:80",
      "[::1::2]:80",
      "[[::1]]:80",
      "[::1%]:80",
      "[::1%a b]:80",
      "[::1%eth0123456789abc]:80",
      "[%eth0]:80",
      "[1:2:3:4:5:6:7:8:9]:80",
      "[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb]:80"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_fault(texts[i], TKT_ADDRESS_BAD_HOST);
}

static void a6_bytes_are_not_a_c_string(void **state) {
  (void)state;
  struct tkt_address a;
  assert_int_equal(tkt_address_parse(tkt_span("a\0b:80", 6), false, &a), TKT_ADDRESS_BAD_HOST);
  assert_int_equal(tkt_address_parse(tkt_span("[::1\0]:80", 9), false, &a), TKT_ADDRESS_BAD_HOST);
  assert_int_equal(tkt_address_parse(tkt_span("a:8\0", 4), false, &a), TKT_ADDRESS_BAD_PORT);
  assert_int_equal(tkt_address_parse(tkt_span("a:8099", 4), false, &a), TKT_ADDRESS_OK);
  assert_int_equal(a.port, 80); /* nothing behind the span is read */
  assert_int_equal(tkt_address_parse(tkt_span(NULL, 0), false, &a), TKT_ADDRESS_NO_PORT);
}

static void a6_names_have_at_most_253_bytes_in_labels_of_63(void **state) {
  (void)state;
  char text[300];
  struct tkt_address a;
  for (size_t len = 250; len <= 260; len++) {
    memset(text, 'n', len);
    for (size_t at = 49; at < len; at += 50)
      text[at] = '.';
    text[len - 1] = 'n';
    memcpy(text + len, ":80", 4);
    assert_int_equal(parse(text, &a), len <= 253 ? TKT_ADDRESS_OK : TKT_ADDRESS_BAD_HOST);
  }
  for (size_t label = 62; label <= 65; label++) {
    memset(text, 'n', label);
    memcpy(text + label, ".a:80", 6);
    assert_int_equal(parse(text, &a), label <= 63 ? TKT_ADDRESS_OK : TKT_ADDRESS_BAD_HOST);
  }
}

static void every_fault_has_its_sentence(void **state) {
  (void)state;
  assert_string_equal(tkt_address_fault_text(TKT_ADDRESS_OK), "");
  assert_non_null(strstr(tkt_address_fault_text(TKT_ADDRESS_NO_PORT), "host:port"));
  assert_non_null(strstr(tkt_address_fault_text(TKT_ADDRESS_BAD_PORT), "65535"));
  assert_non_null(strstr(tkt_address_fault_text(TKT_ADDRESS_BAD_HOST), "brackets"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a6_names_and_literals),
      cmocka_unit_test(a6_there_is_no_default_port),
      cmocka_unit_test(a6_ports_are_1_to_65535),
      cmocka_unit_test(a6_port_zero_only_where_it_is_allowed),
      cmocka_unit_test(a6_hosts_nobody_can_mean),
      cmocka_unit_test(a6_bytes_are_not_a_c_string),
      cmocka_unit_test(a6_names_have_at_most_253_bytes_in_labels_of_63),
      cmocka_unit_test(every_fault_has_its_sentence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
