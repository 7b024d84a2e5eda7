/* Waiting for one op, and being woken. */
#include "drive/broker.h"
#include "drive/futex.h"
#include "drive/op.h"
#include "drive/time_limit.h"

#include <errno.h>
#include <limits.h>

static bool take_wake(struct tkt_op *op) {
  if (!(atomic_load(&op->word) & TKT_WORD_WOKEN)) return false;
  return atomic_fetch_and(&op->word, ~(uint32_t)TKT_WORD_WOKEN) & TKT_WORD_WOKEN;
}

/* One sleep: TKT_OK where it is worth looking again. `heedless`: without limit, signals do not
 * matter. */
static int sleep_on(struct tkt_op *op, int64_t left, bool heedless) {
  if (op->broker->mode == TKT_IO_CALLER) {
    int rc = tkt_dispatch(op->broker, left);
    if (rc >= 0) return TKT_OK;
    /* Whoever made the broker dead may still have this op to report. */
    if (rc != TKT_CLOSED) return rc;
  }
  uint32_t word = atomic_fetch_or(&op->word, TKT_WORD_WAITING) | TKT_WORD_WAITING;
  if (word & (TKT_WORD_ENDED | TKT_WORD_WOKEN)) return TKT_OK;
  atomic_fetch_add_explicit(&op->broker->waiting, 1, memory_order_relaxed);
  int rc = 0;
  if (heedless)
    tkt_futex_sleep(&op->word, word);
  else
    rc = tkt_futex_wait(&op->word, word, left);
  atomic_fetch_sub_explicit(&op->broker->waiting, 1, memory_order_relaxed);
  return rc == -EINTR ? TKT_DRIVE_INTERRUPTED : TKT_OK;
}

int tkt_op_wait(struct tkt_op *op, int64_t timeout_ns) {
  int64_t deadline = tkt_deadline_of(timeout_ns);
  for (bool looked = false;; looked = true) {
    if (tkt_op_status(op) != TKT_PENDING) return TKT_OK;
    if (take_wake(op)) return TKT_DRIVE_INTERRUPTED;
    int64_t left = tkt_left_until(deadline);
    /* A limit of zero still dispatches once in CALLER mode. */
    if (left == 0 && (looked || op->broker->mode == TKT_IO_THREAD)) return TKT_PENDING;
    int rc = sleep_on(op, left, false);
    if (rc != TKT_OK && tkt_op_status(op) == TKT_PENDING) return rc;
  }
}

int tkt_op_wait_to_end(struct tkt_op *op) {
  int rc = TKT_OK;
  while (tkt_op_status(op) == TKT_PENDING && rc != TKT_DRIVE_STATE) {
    take_wake(op);
    rc = sleep_on(op, TKT_NEVER, true);
  }
  return tkt_op_status(op) == TKT_PENDING ? rc : TKT_OK;
}

void tkt_op_wake(struct tkt_op *op) {
  atomic_fetch_or(&op->word, TKT_WORD_WOKEN);
  if (op->broker->mode == TKT_IO_CALLER) tkt_poller_wake(&op->broker->poller);
  tkt_futex_wake(&op->word, INT_MAX);
}
