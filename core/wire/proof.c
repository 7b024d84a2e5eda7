#include "wire/proof.h"

#include "wire/wire3.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

enum { SHA256_LEN = 32 };

/* RFC 4648 section 5. The last two bytes of a digest make three characters, no padding. */
static void base64url_digest(const uint8_t *digest, char *out) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  uint32_t bits = 0;
  unsigned held = 0;
  for (size_t i = 0; i < SHA256_LEN; i++) {
    bits = bits << 8 | digest[i];
    for (held += 8; held >= 6; held -= 6)
      *out++ = alphabet[bits >> (held - 6) & 63];
  }
  *out = alphabet[bits << (6 - held) & 63];
}

bool tkt_wire2_proof(struct tkt_span token, struct tkt_span nonce, char *out) {
  uint8_t digest[EVP_MAX_MD_SIZE];
  unsigned len = 0;
  EVP_MD_CTX *hash = EVP_MD_CTX_new();
  bool ok = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1 &&
            EVP_DigestUpdate(hash, token.data, token.len) == 1 &&
            EVP_DigestUpdate(hash, nonce.data, nonce.len) == 1 &&
            EVP_DigestFinal_ex(hash, digest, &len) == 1 && len == SHA256_LEN;
  EVP_MD_CTX_free(hash); /* wipes what it saw of the token */
  if (ok) base64url_digest(digest, out);
  return ok;
}

const uint8_t tkt_wire3_single_identity[TKT_WIRE3_IDENTITY_LEN] = {
    0xff, 0x4d, 0x46, 0x98, 0xae, 0x53, 0xed, 0xe3, 0x82, 0xf9, 0x68, 0x85, 0xda, 0xde, 0xba, 0x24,
    0x3d, 0x2d, 0x12, 0x4d, 0xed, 0x96, 0x7b, 0x33, 0x69, 0x08, 0xd0, 0x03, 0x99, 0xc8, 0x7b, 0x97};

bool tkt_wire3_proof(struct tkt_span token, uint8_t mode, const uint8_t *identity, uint8_t slot,
                     struct tkt_span nonce, uint8_t *out) {
  static const char label[] = "TCK/CLIENT/AUTH3";
  enum { LABEL = sizeof label - 1 };
  uint8_t said[LABEL + 2 + 1 + TKT_WIRE3_IDENTITY_LEN + 1 + TKT_WIRE3_NONCE_LEN];
  uint8_t *p = said;
  if (nonce.len != TKT_WIRE3_NONCE_LEN) return false;
  memcpy(p, label, LABEL);
  tkt_store16(p += LABEL, TKT_WIRE3_VERSION);
  *(p += 2) = mode;
  memcpy(p += 1, identity, TKT_WIRE3_IDENTITY_LEN);
  *(p += TKT_WIRE3_IDENTITY_LEN) = slot;
  memcpy(p + 1, nonce.data, TKT_WIRE3_NONCE_LEN);
  size_t len = 0;
  const void *key = token.len ? (const void *)token.data : "";
  return EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, key, token.len, said, sizeof said, out,
                   TKT_WIRE3_PROOF_LEN, &len) &&
         len == TKT_WIRE3_PROOF_LEN;
}

bool tkt_proof_equal(struct tkt_span a, struct tkt_span b) {
  return a.len == b.len && (a.len == 0 || CRYPTO_memcmp(a.data, b.data, a.len) == 0);
}
