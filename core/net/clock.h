/* The clocks and the randomness of the system. */
#ifndef TKT_NET_CLOCK_H
#define TKT_NET_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds on CLOCK_BOOTTIME: counts suspend, never goes back. */
int64_t tkt_clock_now(void);

/* Microseconds since 1970 on the wall clock: only for the first token of a server start. */
int64_t tkt_clock_unix_us(void);

/* Unpredictable bytes. False where the kernel has none to give (never once booted). */
bool tkt_entropy(void *out, size_t len);

#endif
