#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void each_reason_is_named_both_ways(void **state) {
  (void)state;
  static const struct {
    enum tkt_wire_error error;
    const char *text;
  } reasons[] = {
      {TKT_WIRE_ERROR_BAD_KEY, "bad_key"},
      {TKT_WIRE_ERROR_BAD_LEASE, "bad_lease"},
      {TKT_WIRE_ERROR_NOT_ACTIVE, "not_active"},
      {TKT_WIRE_ERROR_NO_LEADER, "no_leader"},
      {TKT_WIRE_ERROR_AUTH_FAILED, "auth_failed"},
      {TKT_WIRE_ERROR_BAD_OP, "bad_op"},
      {TKT_WIRE_ERROR_TOO_LONG, "too_long"},
      {TKT_WIRE_ERROR_BAD_KEY_SET, "bad_key_set"},
      {TKT_WIRE_ERROR_BAD_TOKEN, "bad_token"},
      {TKT_WIRE_ERROR_GROUP_MISMATCH, "group_mismatch"},
  };
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
    assert_string_equal(tkt_wire_error_reason(reasons[i].error), reasons[i].text);
    assert_int_equal(tkt_wire_error_named(tkt_span_str(reasons[i].text)), reasons[i].error);
  }
}

static void other_texts_are_unknown(void **state) {
  (void)state;
  assert_null(tkt_wire_error_reason(TKT_WIRE_ERROR_UNKNOWN));
  assert_null(tkt_wire_error_reason((enum tkt_wire_error)(TKT_WIRE_ERROR_BAD_TOKEN + 1)));
  static const char *const texts[] = {"", "no", "no_leader ", "NO_LEADER", "no_leades", "full"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_int_equal(tkt_wire_error_named(tkt_span_str(texts[i])), TKT_WIRE_ERROR_UNKNOWN);
  assert_int_equal(tkt_wire_error_named(tkt_span(NULL, 0)), TKT_WIRE_ERROR_UNKNOWN);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_reason_is_named_both_ways),
      cmocka_unit_test(other_texts_are_unknown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
