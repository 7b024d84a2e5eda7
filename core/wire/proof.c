#include "wire/proof.h"

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

bool tkt_proof_equal(struct tkt_span a, struct tkt_span b) {
  return a.len == b.len && (a.len == 0 || CRYPTO_memcmp(a.data, b.data, a.len) == 0);
}
