/* A lock of one word with a total order.
 *
 * Its operations and those of the inbox are sequentially consistent, which pthread mutexes do not
 * promise: "append, then try the lock" against "unlock, then look at the inbox" loses no call only
 * under one total order. Zeroed memory is a free lock. */
#ifndef TKT_DRIVE_LOCK_H
#define TKT_DRIVE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tkt_lock {
  _Atomic uint32_t state; /* 0 free, 1 held, 2 held and somebody may sleep */
};

static inline bool tkt_lock_try(struct tkt_lock *lock) {
  uint32_t free_state = 0;
  return atomic_compare_exchange_strong(&lock->state, &free_state, 1);
}

/* Sleeps while another thread holds it. */
void tkt_lock_take(struct tkt_lock *lock);
void tkt_lock_give(struct tkt_lock *lock);

#endif
