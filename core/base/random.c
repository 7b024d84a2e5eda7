#include "base/random.h"

#include "base/hash.h"

static inline uint64_t rotl(uint64_t x, int b) {
  return x << b | x >> (64 - b);
}

void tkt_random_init(struct tkt_random *r, const uint64_t seed[4]) {
  const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
  uint64_t any = 0, x = 0;
  /* Every word of the state depends on every word of the seed, so that seeds that differ little
   * differ from the first number on. */
  for (int i = 0; i < 4; i++)
    x = tkt_hash_u64(x + seed[i] + golden);
  for (int i = 0; i < 4; i++) {
    x += golden;
    any |= r->s[i] = tkt_hash_u64(x ^ seed[i]);
  }
  if (!any) r->s[0] = UINT64_C(0x9e3779b97f4a7c15);
}

uint64_t tkt_random_u64(struct tkt_random *r) {
  uint64_t *s = r->s;
  uint64_t result = rotl(s[1] * 5, 7) * 9;
  uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = rotl(s[3], 45);
  return result;
}

uint64_t tkt_random_below(struct tkt_random *r, uint64_t bound) {
  return bound ? tkt_random_u64(r) % bound : 0;
}
