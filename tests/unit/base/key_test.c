#include "base/key.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static enum tkt_key_fault check(const void *bytes, size_t len) {
  return tkt_key_check(tkt_span(bytes, len));
}

static void a5_length_is_1_to_128(void **state) {
  (void)state;
  char key[129];
  memset(key, 'k', sizeof key);
  assert_int_equal(check(key, 0), TKT_KEY_EMPTY);
  assert_int_equal(tkt_key_check(tkt_span(NULL, 0)), TKT_KEY_EMPTY);
  assert_int_equal(check(key, 1), TKT_KEY_OK);
  assert_int_equal(check(key, 127), TKT_KEY_OK);
  assert_int_equal(check(key, 128), TKT_KEY_OK);
  assert_int_equal(check(key, 129), TKT_KEY_TOO_LONG);
}

static void a5_space_cr_lf_are_forbidden_anywhere(void **state) {
  (void)state;
  for (size_t at = 0; at < 5; at++)
    for (int byte = 0; byte < 128; byte++) {
      char key[5] = "abcde";
      key[at] = (char)byte;
      bool forbidden = byte == ' ' || byte == '\r' || byte == '\n';
      assert_int_equal(check(key, sizeof key), forbidden ? TKT_KEY_FORBIDDEN_BYTE : TKT_KEY_OK);
    }
}

/* Keys are looked at in words where that can be: any byte counts at any place of any length. */
static void a5_every_byte_counts_at_every_place(void **state) {
  (void)state;
  for (size_t len = 1; len <= 40; len++)
    for (size_t at = 0; at < len; at++)
      for (int byte = 0; byte < 256; byte++) {
        uint8_t key[40];
        memset(key, 'k', sizeof key);
        key[at] = (uint8_t)byte;
        bool forbidden = byte == ' ' || byte == '\r' || byte == '\n';
        enum tkt_key_fault expected = byte >= 0x80 ? TKT_KEY_NOT_UTF8
                                      : forbidden  ? TKT_KEY_FORBIDDEN_BYTE
                                                   : TKT_KEY_OK;
        assert_int_equal(check(key, len), expected);
        if (at + 1 == len) continue;
        key[at] = 0xc3; /* a sequence of two, over the end of a word too */
        key[at + 1] = 0xa9;
        assert_int_equal(check(key, len), TKT_KEY_OK);
      }
}

/* Writes the code point as a sequence of `len` bytes, overlong where it would fit in fewer. */
static void encode(uint32_t point, size_t len, uint8_t *out) {
  static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0, 0xf8};
  for (size_t i = len; i-- > 1; point >>= 6)
    out[i] = (uint8_t)(0x80 | (point & 0x3f));
  out[0] = (uint8_t)(lead[len] | point);
}

static void a5_every_code_point_in_its_shortest_form_alone(void **state) {
  (void)state;
  uint8_t bytes[5];
  for (uint32_t point = 0x80; point < 0x200000; point++) {
    size_t shortest = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    bool exists = point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff);
    encode(point, shortest, bytes);
    if (check(bytes, shortest) != (exists ? TKT_KEY_OK : TKT_KEY_NOT_UTF8))
      fail_msg("U+%X", (unsigned)point);
  }
  for (uint32_t point = 0; point < 0x10000; point++) { /* overlong forms */
    for (size_t len = point < 0x80 ? 2 : point < 0x800 ? 3 : 4; len <= 4; len++) {
      encode(point, len, bytes);
      if (check(bytes, len) != TKT_KEY_NOT_UTF8) fail_msg("U+%X in %zu", (unsigned)point, len);
    }
  }
  encode(0x200000, 5, bytes);
  assert_int_equal(check(bytes, 5), TKT_KEY_NOT_UTF8);
}

static void a5_truncated_and_broken_sequences(void **state) {
  (void)state;
  static const char *const whole[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x94\x92"};
  for (size_t i = 0; i < 3; i++) {
    size_t len = strlen(whole[i]);
    assert_int_equal(check(whole[i], len), TKT_KEY_OK);
    for (size_t cut = 1; cut < len; cut++) {
      /* cut short at the end of the key, followed by ASCII, by a new lead byte */
      uint8_t bytes[8];
      memcpy(bytes, whole[i], cut);
      assert_int_equal(check(bytes, cut), TKT_KEY_NOT_UTF8);
      memcpy(bytes + cut, "abcd", 4);
      assert_int_equal(check(bytes, cut + 4), TKT_KEY_NOT_UTF8);
      memcpy(bytes + cut, "\xc3\xa9", 2);
      assert_int_equal(check(bytes, cut + 2), TKT_KEY_NOT_UTF8);
      /* the rest alone */
      assert_int_equal(check(whole[i] + cut, len - cut), TKT_KEY_NOT_UTF8);
    }
  }
  for (int byte = 0x80; byte < 0x100; byte++) { /* no byte above ASCII stands alone */
    uint8_t b = (uint8_t)byte;
    assert_int_equal(check(&b, 1), TKT_KEY_NOT_UTF8);
  }
}

static void a5_a_sequence_may_not_pass_the_end_of_128_bytes(void **state) {
  (void)state;
  char key[130];
  memset(key, 'k', sizeof key);
  memcpy(key + 126, "\xc3\xa9", 2);
  assert_int_equal(check(key, 128), TKT_KEY_OK);
  assert_int_equal(check(key, 127), TKT_KEY_NOT_UTF8);
}

static void a5_a_set_is_sorted_bytewise_without_repeats(void **state) {
  (void)state;
  struct tkt_span keys[] = {tkt_span_str("b"),  tkt_span_str("\xc3\xa9"), tkt_span_str("a"),
                            tkt_span_str("ab"), tkt_span_str("b"),        tkt_span_str("a"),
                            tkt_span_str("B"),  tkt_span_str("a")};
  static const char *const expected[] = {"B", "a", "ab", "b", "\xc3\xa9"};
  assert_int_equal(tkt_key_set_normalize(keys, 8), 5);
  for (size_t i = 0; i < 5; i++)
    assert_true(tkt_span_equal(keys[i], tkt_span_str(expected[i])));
  assert_int_equal(tkt_key_set_normalize(keys, 5), 5);
  assert_int_equal(tkt_key_set_normalize(keys, 1), 1);
  assert_int_equal(tkt_key_set_normalize(keys, 0), 0);
  for (int i = 0; i < 8; i++)
    keys[i] = tkt_span_str("same");
  assert_int_equal(tkt_key_set_normalize(keys, 8), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a5_length_is_1_to_128),
      cmocka_unit_test(a5_space_cr_lf_are_forbidden_anywhere),
      cmocka_unit_test(a5_every_byte_counts_at_every_place),
      cmocka_unit_test(a5_every_code_point_in_its_shortest_form_alone),
      cmocka_unit_test(a5_truncated_and_broken_sequences),
      cmocka_unit_test(a5_a_sequence_may_not_pass_the_end_of_128_bytes),
      cmocka_unit_test(a5_a_set_is_sorted_bytewise_without_repeats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
