#include "base/bytes.h"
#include "base/random.h"
#include "unit/no_memory.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void spans_compare_bytewise_and_prefix_first(void **state) {
  (void)state;
  struct tkt_span empty = tkt_span(NULL, 0);
  assert_int_equal(tkt_span_compare(empty, empty), 0);
  assert_true(tkt_span_compare(empty, tkt_span_str("a")) < 0);
  assert_true(tkt_span_compare(tkt_span_str("ab"), tkt_span_str("a")) > 0);
  assert_true(tkt_span_compare(tkt_span_str("a\xff"), tkt_span_str("b")) < 0);
  assert_true(tkt_span_compare(tkt_span_str("\xff"), tkt_span_str("a")) > 0); /* unsigned */
  assert_true(tkt_span_equal(empty, tkt_span("x", 0)));
  assert_false(tkt_span_equal(tkt_span_str("ab"), tkt_span_str("a")));
  assert_true(tkt_span_equal(tkt_span("a\0b", 3), tkt_span("a\0b", 3)));
}

static void integers_are_big_endian_at_any_alignment(void **state) {
  (void)state;
  uint8_t bytes[17];
  for (size_t at = 0; at < 8; at++) {
    memset(bytes, 0, sizeof bytes);
    tkt_store64(bytes + at, UINT64_C(0x0102030405060708));
    for (size_t i = 0; i < 8; i++)
      assert_int_equal(bytes[at + i], i + 1);
    assert_int_equal(tkt_load64(bytes + at), UINT64_C(0x0102030405060708));
    tkt_store16(bytes + at, 0xfe0a);
    assert_int_equal(bytes[at], 0xfe);
    assert_int_equal(bytes[at + 1], 0x0a);
    assert_int_equal(tkt_load16(bytes + at), 0xfe0a);
  }
}

static void append(struct tkt_buf *b, const void *data, size_t n) {
  uint8_t *room = tkt_buf_reserve(b, n, SIZE_MAX / 8);
  assert_non_null(room);
  memcpy(room, data, n);
  tkt_buf_commit(b, n);
}

static void buffer_bound_counts_content_not_memory(void **state) {
  (void)state;
  struct tkt_buf b = {0};
  assert_null(tkt_buf_reserve(&b, 11, 10));
  assert_null(b.data);
  uint8_t *room = tkt_buf_reserve(&b, 10, 10);
  assert_non_null(room);
  memset(room, 'x', 10);
  tkt_buf_commit(&b, 10);
  assert_null(tkt_buf_reserve(&b, 1, 10));
  tkt_buf_consume(&b, 1);
  assert_non_null(tkt_buf_reserve(&b, 1, 10));
  assert_null(tkt_buf_reserve(&b, 2, 10));
  tkt_buf_release(&b);
  assert_null(b.data);
  assert_int_equal(tkt_buf_len(&b), 0);
}

static void buffer_without_memory_keeps_its_content(void **state) {
  (void)state;
  struct tkt_buf b = {0};
  append(&b, "held", 4);
  assert_null(tkt_buf_reserve(&b, SIZE_MAX / 8, SIZE_MAX)); /* no machine has that */
  assert_null(tkt_buf_reserve(&b, SIZE_MAX - 4, SIZE_MAX)); /* would wrap around */
  assert_true(tkt_span_equal(tkt_buf_span(&b), tkt_span_str("held")));
  tkt_buf_release(&b);
}

static void buffer_truncate_drops_the_end(void **state) {
  (void)state;
  struct tkt_buf b = {0};
  append(&b, "abcdef", 6);
  tkt_buf_consume(&b, 2);
  tkt_buf_truncate(&b, 3);
  assert_true(tkt_span_equal(tkt_buf_span(&b), tkt_span_str("cde")));
  tkt_buf_truncate(&b, 0);
  assert_int_equal(tkt_buf_len(&b), 0);
  append(&b, "g", 1);
  assert_true(tkt_span_equal(tkt_buf_span(&b), tkt_span_str("g")));
  tkt_buf_release(&b);
}

/* Compared with two counters: byte number n is a function of n alone. */
static void buffer_is_a_queue_over_random_operations(void **state) {
  (void)state;
  struct tkt_random random;
  tkt_random_init(&random, (const uint64_t[4]){7, 0, 0, 0});
  struct tkt_buf b = {0};
  size_t written = 0, read = 0;
  for (int round = 0; round < 50000; round++) {
    size_t n = (size_t)tkt_random_below(&random, 300) + 1;
    if (tkt_random_below(&random, 2) && written - read + n <= 4096) {
      uint8_t *room = tkt_buf_reserve(&b, n, 4096);
      assert_non_null(room);
      for (size_t i = 0; i < n; i++)
        room[i] = (uint8_t)((written + i) * 167 >> 3);
      tkt_buf_commit(&b, n);
      written += n;
    } else {
      struct tkt_span content = tkt_buf_span(&b);
      assert_int_equal(content.len, written - read);
      if (n > content.len) n = content.len;
      for (size_t i = 0; i < n; i++)
        if (content.data[i] != (uint8_t)((read + i) * 167 >> 3)) fail();
      tkt_buf_consume(&b, n);
      read += n;
    }
  }
  assert_in_range(b.cap, 1, 4 * 4096);
  tkt_buf_release(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spans_compare_bytewise_and_prefix_first),
      cmocka_unit_test(integers_are_big_endian_at_any_alignment),
      cmocka_unit_test(buffer_bound_counts_content_not_memory),
      cmocka_unit_test(buffer_without_memory_keeps_its_content),
      cmocka_unit_test(buffer_truncate_drops_the_end),
      cmocka_unit_test(buffer_is_a_queue_over_random_operations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
