#include "daemon/first_token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_later_start_begins_with_a_greater_token(void **state) {
  (void)state;
  bool ignored = true;
  assert_int_equal(tkt_first_token(INT64_C(1767268800000000), &ignored),
                   UINT64_C(1767268800000000));
  assert_false(ignored);
}

static void a_clock_beyond_belief_is_ignored(void **state) {
  (void)state;
  bool ignored = false;
  const int64_t end = INT64_C(4503599627370496);
  assert_int_equal(tkt_first_token(end - 1, &ignored), (uint64_t)end - 1);
  assert_false(ignored);
  assert_int_equal(tkt_first_token(end, &ignored), 1);
  assert_true(ignored);
  assert_int_equal(tkt_first_token(INT64_MAX, &ignored), 1);
  assert_true(ignored);
}

static void a_clock_before_1970_is_ignored(void **state) {
  (void)state;
  bool ignored = false;
  assert_int_equal(tkt_first_token(0, &ignored), 1);
  assert_true(ignored);
  ignored = false;
  assert_int_equal(tkt_first_token(-5, &ignored), 1);
  assert_true(ignored);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_later_start_begins_with_a_greater_token),
      cmocka_unit_test(a_clock_beyond_belief_is_ignored),
      cmocka_unit_test(a_clock_before_1970_is_ignored),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
