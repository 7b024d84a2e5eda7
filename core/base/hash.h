/* SipHash-1-3: a keyed hash of short byte strings, so that a peer who chooses keys cannot choose
 * collisions. The 16-byte secret is random per process. */
#ifndef TKT_BASE_HASH_H
#define TKT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct tkt_hash_secret {
  uint64_t k0;
  uint64_t k1;
};

uint64_t tkt_hash_bytes(const struct tkt_hash_secret *secret, const void *data, size_t len);

/* Mixes an integer whose values we drew ourselves (owners, tokens): no secret needed. */
static inline uint64_t tkt_hash_u64(uint64_t x) {
  x ^= x >> 30;
  x *= UINT64_C(0xbf58476d1ce4e5b9);
  x ^= x >> 27;
  x *= UINT64_C(0x94d049bb133111eb);
  x ^= x >> 31;
  return x;
}

#endif
