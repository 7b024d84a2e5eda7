/* Counts the memory in use by everything linked into the simulator (malloc and friends are wrapped
 * at link time), so that growth and leaks show without a sanitizer. */
#ifndef TKT_SIM_HEAP_H
#define TKT_SIM_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From here on one allocation in `of` fails, by a generator seeded with `seed`; 0: none. */
void heap_fail_one_in(unsigned of, uint64_t seed);
/* How many were refused so far. */
uint64_t heap_refused(void);
/* The simulator's own allocations in between do not fail. */
void heap_spare(bool on);

/* Bytes allocated and not freed. */
size_t heap_in_use(void);

#endif
