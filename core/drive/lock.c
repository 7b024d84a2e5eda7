#include "drive/lock.h"

#include "drive/futex.h"

void tkt_lock_take(struct tkt_lock *lock) {
  if (tkt_lock_try(lock)) return;
  while (atomic_exchange(&lock->state, 2) != 0)
    tkt_futex_sleep(&lock->state, 2);
}

void tkt_lock_give(struct tkt_lock *lock) {
  if (atomic_exchange(&lock->state, 0) == 2) tkt_futex_wake(&lock->state, 1);
}
