#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* SipHash-1-3 of the bytes 0, 1, 2 ... : with the secret 0, 1 .. 15 (its authors' test key) and
 * with the zero secret, as an independent implementation gives them. */
static void vectors_of_siphash_1_3(void **state) {
  (void)state;
  const struct tkt_hash_secret secret = {UINT64_C(0x0706050403020100),
                                         UINT64_C(0x0f0e0d0c0b0a0908)};
  const struct tkt_hash_secret zero = {0, 0};
  uint8_t input[64];
  for (size_t i = 0; i < sizeof input; i++)
    input[i] = (uint8_t)i;
  assert_int_equal(tkt_hash_bytes(&secret, input, 0), UINT64_C(0xabac0158050fc4dc));
  assert_int_equal(tkt_hash_bytes(&secret, input, 7), UINT64_C(0xd3927d989bb11140));
  assert_int_equal(tkt_hash_bytes(&secret, input, 8), UINT64_C(0x369095118d299a8e));
  assert_int_equal(tkt_hash_bytes(&secret, input, 63), UINT64_C(0x9d199062b7bbb3a8));
  assert_int_equal(tkt_hash_bytes(&zero, input, 1), (uint64_t)INT64_C(7541581120933061747));
  assert_int_equal(tkt_hash_bytes(&zero, input, 8), (uint64_t)INT64_C(-1525574692105212182));
  assert_int_equal(tkt_hash_bytes(&zero, input, 23), (uint64_t)INT64_C(3977570258815460607));
}

/* Flipping any bit of input or secret flips about half of the output. */
static void every_bit_of_input_and_secret_matters(void **state) {
  (void)state;
  struct tkt_hash_secret secret = {UINT64_C(0x9a3c51e2077bd418), UINT64_C(0x41f2a6c85d0e93b7)};
  uint8_t input[21];
  for (size_t i = 0; i < sizeof input; i++)
    input[i] = (uint8_t)(i * 37);
  uint64_t base = tkt_hash_bytes(&secret, input, sizeof input);
  unsigned total = 0, flips = 0;
  for (size_t bit = 0; bit < sizeof input * 8 + 128; bit++, flips++) {
    struct tkt_hash_secret s = secret;
    uint8_t changed[sizeof input];
    memcpy(changed, input, sizeof input);
    if (bit < sizeof input * 8)
      changed[bit / 8] ^= (uint8_t)(1u << bit % 8);
    else if (bit < sizeof input * 8 + 64)
      s.k0 ^= UINT64_C(1) << (bit - sizeof input * 8);
    else
      s.k1 ^= UINT64_C(1) << (bit - sizeof input * 8 - 64);
    unsigned differ =
        (unsigned)__builtin_popcountll(base ^ tkt_hash_bytes(&s, changed, sizeof input));
    assert_in_range(differ, 10, 54);
    total += differ;
  }
  assert_in_range(total / flips, 29, 35);
}

static void length_is_part_of_the_hash(void **state) {
  (void)state;
  const struct tkt_hash_secret secret = {1, 2};
  const uint8_t zeros[40] = {0};
  uint64_t seen[sizeof zeros];
  for (size_t len = 0; len < sizeof zeros; len++) {
    seen[len] = tkt_hash_bytes(&secret, zeros, len);
    for (size_t i = 0; i < len; i++)
      assert_int_not_equal(seen[i], seen[len]);
  }
}

static void alignment_does_not_matter(void **state) {
  (void)state;
  const struct tkt_hash_secret secret = {3, 4};
  uint8_t bytes[48];
  for (size_t i = 0; i < 20; i++)
    bytes[i] = (uint8_t)(200 - i);
  uint64_t expected = tkt_hash_bytes(&secret, bytes, 20);
  for (size_t at = 1; at < 16; at++) {
    memmove(bytes + at, bytes + at - 1, 20);
    assert_int_equal(tkt_hash_bytes(&secret, bytes + at, 20), expected);
  }
}

/* The table takes low bits: consecutive integers must not crowd there. */
static void consecutive_integers_spread_over_low_bits(void **state) {
  (void)state;
  unsigned buckets[256] = {0};
  for (uint64_t i = 0; i < 256 * 64; i++)
    buckets[tkt_hash_u64(i) & 255]++;
  for (int b = 0; b < 256; b++)
    assert_in_range(buckets[b], 24, 120);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vectors_of_siphash_1_3),
      cmocka_unit_test(every_bit_of_input_and_secret_matters),
      cmocka_unit_test(length_is_part_of_the_hash),
      cmocka_unit_test(alignment_does_not_matter),
      cmocka_unit_test(consecutive_integers_spread_over_low_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
