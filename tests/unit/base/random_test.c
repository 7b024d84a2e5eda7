#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void same_seed_same_numbers(void **state) {
  (void)state;
  struct tkt_random a, b, c;
  tkt_random_init(&a, (const uint64_t[4]){1, 2, 3, 4});
  tkt_random_init(&b, (const uint64_t[4]){1, 2, 3, 4});
  tkt_random_init(&c, (const uint64_t[4]){1, 2, 3, 5});
  unsigned differing = 0;
  for (int i = 0; i < 1000; i++) {
    uint64_t x = tkt_random_u64(&a);
    assert_int_equal(x, tkt_random_u64(&b));
    differing += x != tkt_random_u64(&c);
  }
  assert_int_equal(differing, 1000);
}

/* Simulations count seeds from 0: such states must be as good as any from their first number on. */
static void small_seeds_give_no_small_or_equal_numbers(void **state) {
  (void)state;
  uint64_t first[64];
  for (uint64_t seed = 0; seed < 64; seed++) {
    struct tkt_random r;
    tkt_random_init(&r, (const uint64_t[4]){seed, 0, 0, 0});
    unsigned bits = 0;
    for (int i = 0; i < 16; i++) {
      uint64_t x = tkt_random_u64(&r);
      if (i == 0) first[seed] = x;
      assert_int_not_equal(x, 0);
      bits += (unsigned)__builtin_popcountll(x);
    }
    assert_in_range(bits / 16, 25, 39);
    for (uint64_t other = 0; other < seed; other++)
      assert_int_not_equal(first[other], first[seed]);
  }
}

static void below_stays_below_and_reaches_everything(void **state) {
  (void)state;
  struct tkt_random r;
  tkt_random_init(&r, (const uint64_t[4]){9, 9, 9, 9});
  assert_int_equal(tkt_random_below(&r, 0), 0);
  assert_int_equal(tkt_random_below(&r, 1), 0);
  unsigned hits[10] = {0};
  for (int i = 0; i < 10000; i++) {
    uint64_t x = tkt_random_below(&r, 10);
    assert_in_range(x, 0, 9);
    hits[x]++;
  }
  for (int i = 0; i < 10; i++)
    assert_in_range(hits[i], 800, 1200);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_seed_same_numbers),
      cmocka_unit_test(small_seeds_give_no_small_or_equal_numbers),
      cmocka_unit_test(below_stays_below_and_reaches_everything),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
