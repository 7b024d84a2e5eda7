#include "base/random.h"

#include "base/hash.h"

static inline uint64_t rotl(uint64_t x, int b) {
  return x << b | x >> (64 - b);
}

void tkt_random_init(struct tkt_random *r, const uint64_t seed[4]) {
  uint64_t any = 0, x = 0;
  for (int i = 0; i < 4; i++) { /* mixed, or a state of few bits would need rounds to spread them */
    x += seed[i] + UINT64_C(0x9e3779b97f4a7c15);
    any |= r->s[i] = tkt_hash_u64(x);
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
