#include "base/hash.h"

#include <string.h>

static inline uint64_t rotl(uint64_t x, int b) {
  return x << b | x >> (64 - b);
}

struct state {
  uint64_t v0, v1, v2, v3;
};

static inline void round_once(struct state *s) {
  s->v0 += s->v1;
  s->v1 = rotl(s->v1, 13) ^ s->v0;
  s->v0 = rotl(s->v0, 32);
  s->v2 += s->v3;
  s->v3 = rotl(s->v3, 16) ^ s->v2;
  s->v0 += s->v3;
  s->v3 = rotl(s->v3, 21) ^ s->v0;
  s->v2 += s->v1;
  s->v1 = rotl(s->v1, 17) ^ s->v2;
  s->v2 = rotl(s->v2, 32);
}

static inline uint64_t little_endian32(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The last 0..7 bytes as a little-endian number, without a loop: the reads overlap, and bytes read
 * twice fall on themselves. */
static inline uint64_t tail_of(const uint8_t *p, size_t left) {
  if (left >= 4) return little_endian32(p) | little_endian32(p + left - 4) << (8 * (left - 4));
  if (left == 0) return 0;
  return p[0] | (uint64_t)p[left / 2] << (8 * (left / 2)) |
         (uint64_t)p[left - 1] << (8 * (left - 1));
}

/* The words are read in host order: hashes never leave the process. */
uint64_t tkt_hash_bytes(const struct tkt_hash_secret *secret, const void *data, size_t len) {
  const uint8_t *p = data;
  struct state s = {
      secret->k0 ^ UINT64_C(0x736f6d6570736575), secret->k1 ^ UINT64_C(0x646f72616e646f6d),
      secret->k0 ^ UINT64_C(0x6c7967656e657261), secret->k1 ^ UINT64_C(0x7465646279746573)};
  size_t left = len;
  for (; left >= 8; p += 8, left -= 8) {
    uint64_t m;
    memcpy(&m, p, 8);
    s.v3 ^= m;
    round_once(&s);
    s.v0 ^= m;
  }
  uint64_t last = (uint64_t)len << 56 | tail_of(p, left);
  s.v3 ^= last;
  round_once(&s);
  s.v0 ^= last;
  s.v2 ^= 0xff;
  round_once(&s);
  round_once(&s);
  round_once(&s);
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
