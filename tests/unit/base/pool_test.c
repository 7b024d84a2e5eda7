#include "base/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 5000 };

static void assert_zero(const void *object, size_t size) {
  for (size_t i = 0; i < size; i++)
    assert_int_equal(((const unsigned char *)object)[i], 0);
}

static void objects_are_zeroed_aligned_and_apart(void **state) {
  (void)state;
  static void *objects[MANY];
  struct tkt_pool pool;
  tkt_pool_init(&pool, 37, SIZE_MAX);
  for (int round = 0; round < 2; round++) { /* the second round gets used memory */
    for (int i = 0; i < MANY; i++) {
      objects[i] = tkt_pool_take(&pool);
      assert_non_null(objects[i]);
      assert_int_equal((uintptr_t)objects[i] % _Alignof(max_align_t), 0);
      assert_zero(objects[i], 37);
      memset(objects[i], i & 255, 37);
    }
    assert_int_equal(pool.used, MANY);
    for (int i = 0; i < MANY; i++) { /* nobody wrote over a neighbour */
      const unsigned char *bytes = objects[i];
      for (int at = 0; at < 37; at++)
        if (bytes[at] != (i & 255)) fail();
      tkt_pool_give(&pool, objects[i]);
    }
    assert_int_equal(pool.used, 0);
  }
  tkt_pool_release(&pool);
}

static void limit_counts_objects_in_use(void **state) {
  (void)state;
  struct tkt_pool pool;
  tkt_pool_init(&pool, 8, 3);
  void *a = tkt_pool_take(&pool), *b = tkt_pool_take(&pool), *c = tkt_pool_take(&pool);
  assert_non_null(a);
  assert_non_null(b);
  assert_non_null(c);
  assert_null(tkt_pool_take(&pool));
  tkt_pool_give(&pool, b);
  b = tkt_pool_take(&pool);
  assert_non_null(b);
  assert_null(tkt_pool_take(&pool));
  tkt_pool_give(&pool, NULL);
  assert_int_equal(pool.used, 3);
  tkt_pool_give(&pool, a);
  tkt_pool_give(&pool, b);
  tkt_pool_give(&pool, c);
  tkt_pool_release(&pool);
}

static void a_released_pool_can_be_used_again(void **state) {
  (void)state;
  struct tkt_pool pool;
  tkt_pool_init(&pool, 64, 100);
  for (int round = 0; round < 3; round++) {
    void *objects[100];
    for (int i = 0; i < 100; i++)
      assert_non_null(objects[i] = tkt_pool_take(&pool));
    assert_null(tkt_pool_take(&pool));
    for (int i = 0; i < 100; i++)
      tkt_pool_give(&pool, objects[i]);
    tkt_pool_release(&pool);
    assert_int_equal(pool.used, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(objects_are_zeroed_aligned_and_apart),
      cmocka_unit_test(limit_counts_objects_in_use),
      cmocka_unit_test(a_released_pool_can_be_used_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
