#include "wire/proof.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void assert_proof(struct tkt_span token, struct tkt_span nonce, const char *expected) {
  char out[TKT_WIRE2_PROOF_LEN + 1];
  memset(out, '!', sizeof out);
  assert_true(tkt_wire2_proof(token, nonce, out));
  assert_int_equal(out[TKT_WIRE2_PROOF_LEN], '!'); /* nothing behind it is written */
  out[TKT_WIRE2_PROOF_LEN] = '\0';
  assert_string_equal(out, expected);
}

static void vector_of_the_protocol(void **state) {
  (void)state;
  assert_proof(tkt_span_str("secret"), tkt_span_str("aB3dEf_g"),
               "WvDLEd0VIA9cVatiwxXYXRGMDSXw0ibHllLgAMBffdg");
}

/* SHA-256 of "" and "abc" as FIPS 180-4 gives them, in base64url. */
static void the_digest_is_sha_256_of_token_then_nonce(void **state) {
  (void)state;
  assert_proof(tkt_span(NULL, 0), tkt_span(NULL, 0), "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU");
  static const char abc[] = "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0";
  assert_proof(tkt_span_str("abc"), tkt_span(NULL, 0), abc);
  assert_proof(tkt_span_str("a"), tkt_span_str("bc"), abc);
  assert_proof(tkt_span(NULL, 0), tkt_span_str("abc"), abc);
}

static void t2_tokens_of_any_length_and_bytes(void **state) {
  (void)state;
  static uint8_t token[100000];
  memset(token, 0xff, sizeof token);
  token[7] = 0;
  char first[TKT_WIRE2_PROOF_LEN], second[TKT_WIRE2_PROOF_LEN];
  assert_true(tkt_wire2_proof(tkt_span(token, sizeof token), tkt_span_str("n"), first));
  token[sizeof token - 1] = 0xfe;
  assert_true(tkt_wire2_proof(tkt_span(token, sizeof token), tkt_span_str("n"), second));
  assert_memory_not_equal(first, second, sizeof first);
  for (size_t i = 0; i < sizeof first; i++)
    assert_non_null(
        strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", first[i]));
}

static void equal_means_every_byte(void **state) {
  (void)state;
  char a[TKT_WIRE2_PROOF_LEN], b[TKT_WIRE2_PROOF_LEN];
  memset(a, 'x', sizeof a);
  memset(b, 'x', sizeof b);
  assert_true(tkt_proof_equal(tkt_span(a, sizeof a), tkt_span(b, sizeof b)));
  assert_false(tkt_proof_equal(tkt_span(a, sizeof a), tkt_span(b, sizeof b - 1)));
  assert_false(tkt_proof_equal(tkt_span(a, sizeof a), tkt_span(NULL, 0)));
  assert_true(tkt_proof_equal(tkt_span(NULL, 0), tkt_span(NULL, 0)));
  for (size_t i = 0; i < sizeof b; i++) {
    b[i] ^= 1;
    assert_false(tkt_proof_equal(tkt_span(a, sizeof a), tkt_span(b, sizeof b)));
    b[i] ^= 1;
  }
}

/* Toy values; HMAC-SHA-256 computed elsewhere over the bytes written out. */
static void the_answer_is_an_hmac_over_what_the_server_said(void **state) {
  (void)state;
  uint8_t counted[16];
  for (uint8_t i = 0; i < sizeof counted; i++)
    counted[i] = i;
  const struct tkt_span nonce = tkt_span(counted, sizeof counted);
  uint8_t cluster[32], out[32];
  memset(cluster, 0x5a, sizeof cluster);
  static const struct {
    const char *token;
    uint8_t mode, slot;
    const char *hex;
  } vectors[] = {
      {"secret", 0, 255, "7d8bfec4bab623730860f370c4d7d2e693c80300270b39cdf87037f15f8853f2"},
      {"secret", 1, 2, "3db9198c12de1d6402a0d93f613c76a31b92288a95cef9ee106ac0bd8923a76d"},
      {"123", 0, 255, "aa58820c33f42bf5a752a1e2cb55bf9c21845af2fe263ca8222a71cb0e8f4523"},
      {"", 0, 255, "636eb4b3ac6eb63f37f3be250f96035c04409ebf6ae3a7a22d516679500543ac"},
  };
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
    char hex[65];
    const uint8_t *identity = vectors[i].mode ? cluster : tkt_wire3_single_identity;
    assert_true(tkt_wire3_proof(tkt_span_str(vectors[i].token), vectors[i].mode, identity,
                                vectors[i].slot, nonce, out));
    for (size_t b = 0; b < sizeof out; b++)
      snprintf(hex + 2 * b, 3, "%02x", out[b]);
    assert_string_equal(hex, vectors[i].hex);
  }
  assert_true(tkt_wire3_proof(tkt_span(NULL, 0), 0, tkt_wire3_single_identity, 255, nonce, out));
  assert_false(tkt_wire3_proof(tkt_span_str("t"), 0, tkt_wire3_single_identity, 255,
                               tkt_span(nonce.data, 15), out));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vector_of_the_protocol),
      cmocka_unit_test(the_digest_is_sha_256_of_token_then_nonce),
      cmocka_unit_test(t2_tokens_of_any_length_and_bytes),
      cmocka_unit_test(equal_means_every_byte),
      cmocka_unit_test(the_answer_is_an_hmac_over_what_the_server_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
