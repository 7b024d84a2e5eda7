/* The lent ticket: who gets it, and when it goes back to the engine. */
#include "drive/broker.h"
#include "drive/op.h"
#include "net/clock.h"

struct tkt_op *tkt_lent_op(const struct tkt_lent *lent) {
  return TKT_CONTAINER((uintptr_t)lent, struct tkt_op, lent);
}

bool tkt_lent_claim(struct tkt_lent *lent, enum tkt_take_state as) {
  int ready = TKT_TAKE_READY;
  /* Looked at first: most ask in vain, and an exchange that fails costs as much as one that does
   * not. */
  if (atomic_load_explicit(&lent->state, memory_order_acquire) != ready) return false;
  return atomic_compare_exchange_strong(&lent->state, &ready, (int)as);
}

void tkt_lent_put(struct tkt_lent *lent) {
  struct tkt_op *op = tkt_lent_op(lent);
  /* The usual end: released before. */
  if (atomic_load_explicit(&lent->settled, memory_order_acquire)) {
    if (atomic_fetch_sub(&lent->holds, 1) == 1) tkt_op_unref(op);
    return;
  }
  struct tkt_broker *broker = op->broker;
  /* The op may go with the drop, and the broker with the op. */
  tkt_broker_ref(broker);
  if (atomic_fetch_sub(&lent->holds, 1) == 1) tkt_op_command(op, TKT_COMMAND_DROP);
  tkt_broker_unref(broker);
}

void tkt_lent_drop_locked(struct tkt_lent *lent, int64_t now) {
  struct tkt_op *op = tkt_lent_op(lent);
  struct tkt_broker *broker = op->broker;
  /* A dead broker sends nothing more; its tickets go with the engine. */
  if (lent->ticket && !atomic_load(&broker->dead)) {
    if (atomic_load(&lent->detached)) tkt_client_detach(broker->client, lent->ticket);
    tkt_client_drop(broker->client, lent->ticket, now);
  }
  lent->ticket = NULL;
  tkt_op_unref(op);
}

void tkt_lent_put_locked(struct tkt_lent *lent, int64_t now) {
  if (atomic_fetch_sub(&lent->holds, 1) == 1) tkt_lent_drop_locked(lent, now);
}

int tkt_op_take(struct tkt_op *op, struct tkt_lent **lent_out) {
  *lent_out = NULL;
  if (op->kind != TKT_OP_ACQUIRE) return TKT_DRIVE_STATE;
  int status = tkt_op_status(op);
  if (status != TKT_OK) return status;
  int64_t left = op->lent.valid_until - tkt_clock_now();
  if (left <= 0 || left < op->budget_ns) {
    if (tkt_lent_claim(&op->lent, TKT_TAKE_LATE)) {
      atomic_store(&op->lent.late_remaining_ns, left);
      atomic_store_explicit(&op->status, TKT_INSUFFICIENT_LEASE, memory_order_release);
      atomic_fetch_add(&op->broker->late_takes, 1);
      tkt_lent_put(&op->lent);
    }
  } else if (tkt_lent_claim(&op->lent, TKT_TAKE_TAKEN)) {
    *lent_out = &op->lent;
    return TKT_OK;
  }
  switch (atomic_load(&op->lent.state)) {
  case TKT_TAKE_CANCELLED:
    return TKT_CANCELLED;
  case TKT_TAKE_LATE:
    return TKT_INSUFFICIENT_LEASE;
  default:
    return TKT_DRIVE_STATE;
  }
}

void tkt_lent_detach(struct tkt_lent *lent) {
  atomic_store(&lent->detached, true);
}

void tkt_lent_free(struct tkt_lent *lent) {
  tkt_lent_put(lent);
}
