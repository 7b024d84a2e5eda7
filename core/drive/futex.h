/* Sleeping on a word of memory. Condition variables hide EINTR, which callers here must see. */
#ifndef TKT_DRIVE_FUTEX_H
#define TKT_DRIVE_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleeps while `*word` is `expected`, at most `timeout_ns` (TKT_NEVER: an hour; callers loop).
 * 0: woken or the word differs; -ETIMEDOUT; -EINTR after a signal handler ran, whatever its
 * SA_RESTART says. */
int tkt_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);

/* Sleeps while `*word` is `expected`; signal handlers run and it sleeps on. May return without a
 * wake. Cheaper than a sleep with a limit, which arms a timer of the kernel's. */
void tkt_futex_sleep(_Atomic uint32_t *word, uint32_t expected);

/* Wakes up to `count` sleepers. Async-signal-safe. */
void tkt_futex_wake(_Atomic uint32_t *word, int count);

#endif
