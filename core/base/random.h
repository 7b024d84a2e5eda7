/* Deterministic generator (xoshiro256**) seeded from outside: engines draw owners and jitter here,
 * so a simulated run repeats exactly from its seed. Not for secrets: nonces come from the system.
 */
#ifndef TKT_BASE_RANDOM_H
#define TKT_BASE_RANDOM_H

#include <stdint.h>

struct tkt_random {
  uint64_t s[4];
};

/* Any four words will do, small numbers and zeros too. */
void tkt_random_init(struct tkt_random *r, const uint64_t seed[4]);

uint64_t tkt_random_u64(struct tkt_random *r);

/* Uniform enough in 0..bound-1 for jitter and simulations; 0 for bound 0. */
uint64_t tkt_random_below(struct tkt_random *r, uint64_t bound);

#endif
