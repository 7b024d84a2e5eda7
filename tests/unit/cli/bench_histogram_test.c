#include "cli/bench_histogram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

static struct tkt_histogram *fresh(void **state) {
  return *state;
}

static int setup(void **state) {
  *state = calloc(1, sizeof(struct tkt_histogram));
  return *state ? 0 : -1;
}

static int teardown(void **state) {
  free(*state);
  return 0;
}

static void an_empty_histogram_says_zero(void **state) {
  struct tkt_histogram *h = fresh(state);
  assert_int_equal(tkt_histogram_percentile(h, 50), 0);
  assert_int_equal(tkt_histogram_percentile(h, 100), 0);
}

static void small_values_are_exact(void **state) {
  struct tkt_histogram *h = fresh(state);
  for (int ns = 1; ns <= 100; ns++)
    tkt_histogram_add(h, ns);
  assert_int_equal(h->count, 100);
  assert_int_equal(tkt_histogram_percentile(h, 50), 50);
  assert_int_equal(tkt_histogram_percentile(h, 99), 99);
  assert_int_equal(tkt_histogram_percentile(h, 0), 1);
  assert_int_equal(tkt_histogram_percentile(h, 100), 100);
}

/* A single sample of any size comes back less than 1 % above itself, never below. */
static void every_power_of_two_and_its_neighbours_stay_within_one_percent(void **state) {
  struct tkt_histogram *h = fresh(state);
  for (int bit = 1; bit < TKT_HISTOGRAM_VALUE_BITS; bit++) {
    for (int64_t off = -1; off <= 1; off++) {
      int64_t ns = (INT64_C(1) << bit) + off;
      *h = (struct tkt_histogram){0};
      tkt_histogram_add(h, ns);
      /* A greater one behind it, so that the maximum does not hide the bucket's width. */
      tkt_histogram_add(h, INT64_C(1) << TKT_HISTOGRAM_VALUE_BITS);
      int64_t got = tkt_histogram_percentile(h, 50);
      assert_true(got >= ns);
      assert_true(got - ns <= ns / 100);
    }
  }
}

static void values_beyond_the_range_count_and_keep_their_maximum(void **state) {
  struct tkt_histogram *h = fresh(state);
  tkt_histogram_add(h, INT64_MAX);
  tkt_histogram_add(h, -5);
  assert_int_equal(h->count, 2);
  assert_int_equal(h->max, INT64_MAX);
  assert_int_equal(tkt_histogram_percentile(h, 50), 0);
}

static void merging_is_adding_all_samples(void **state) {
  struct tkt_histogram *h = fresh(state);
  struct tkt_histogram *other = calloc(1, sizeof *other);
  assert_non_null(other);
  for (int i = 0; i < 10; i++)
    tkt_histogram_add(h, 10);
  for (int i = 0; i < 90; i++)
    tkt_histogram_add(other, 200);
  tkt_histogram_merge(h, other);
  free(other);
  assert_int_equal(h->count, 100);
  assert_int_equal(h->max, 200);
  assert_int_equal(tkt_histogram_percentile(h, 10), 10);
  assert_int_equal(tkt_histogram_percentile(h, 11), 200);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(an_empty_histogram_says_zero, setup, teardown),
      cmocka_unit_test_setup_teardown(small_values_are_exact, setup, teardown),
      cmocka_unit_test_setup_teardown(every_power_of_two_and_its_neighbours_stay_within_one_percent,
                                      setup, teardown),
      cmocka_unit_test_setup_teardown(values_beyond_the_range_count_and_keep_their_maximum, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(merging_is_adding_all_samples, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
