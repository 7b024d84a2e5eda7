#include "drive/op.h"

#include "client/explain.h"
#include "drive/broker.h"
#include "drive/op_store.h"
#include "drive/queue.h"
#include "net/clock.h"

#include <stdlib.h>
#include <string.h>

/* Makes an op of two references: the handle's, and the inbox's, which becomes the driver's when the
 * start is carried out. */
static struct tkt_op *make(struct tkt_broker *broker, enum tkt_op_kind kind,
                           struct tkt_queue *queue, void *user) {
  struct tkt_op *op = tkt_op_store_take(&broker->ops);
  if (!op) return NULL;
  memset(op, 0, offsetof(struct tkt_op, inline_keys));
  op->broker = broker;
  op->kind = kind;
  op->user = user;
  op->queue = queue;
  op->keys = op->inline_keys;
  atomic_init(&op->refs, 2);
  atomic_init(&op->status, TKT_PENDING);
  atomic_init(&op->lent.released, TKT_PENDING);
  tkt_list_init(&op->queued);
  tkt_list_init(&op->live);
  if (queue)
    tkt_queue_ref(queue); /* which holds the broker */
  else
    tkt_broker_ref(broker);
  return op;
}

static void unmake(struct tkt_op *op) {
  struct tkt_broker *broker = op->broker;
  struct tkt_queue *queue = op->queue;
  struct tkt_op *ticket_of = op->ticket_of;
  if (op->keys != op->inline_keys) free(op->keys);
  tkt_op_store_give(&broker->ops, op);
  if (ticket_of) tkt_op_unref(ticket_of);
  if (queue)
    tkt_queue_unref(queue);
  else
    tkt_broker_unref(broker);
}

void tkt_op_unref(struct tkt_op *op) {
  if (atomic_fetch_sub_explicit(&op->refs, 1, memory_order_acq_rel) == 1) unmake(op);
}

/* The inbox holds a reference while the node is in it. */
void tkt_op_command(struct tkt_op *op, unsigned commands) {
  struct tkt_broker *broker = op->broker;
  tkt_op_ref(op);
  enum tkt_pushed pushed = tkt_inbox_push(&broker->inbox, &op->node, commands);
  if (pushed == TKT_PUSH_JOINED) tkt_op_unref(op);
  tkt_broker_kick(broker, pushed);
}

static bool copy_keys(struct tkt_op *op, const struct tkt_span *keys, size_t count) {
  size_t size = 0;
  for (size_t i = 0; i < count; i++)
    size += 1 + keys[i].len;
  if (size > sizeof op->inline_keys) {
    op->keys = malloc(size);
    if (!op->keys) {
      op->keys = op->inline_keys;
      return false;
    }
  }
  uint8_t *at = op->keys;
  for (size_t i = 0; i < count; i++) {
    *at++ = (uint8_t)keys[i].len;
    memcpy(at, keys[i].data, keys[i].len);
    at += keys[i].len;
  }
  op->key_count = (uint8_t)count;
  return true;
}

size_t tkt_op_keys(const struct tkt_op *op, struct tkt_span *keys) {
  const uint8_t *at = op->keys;
  for (size_t i = 0; i < op->key_count; i++) {
    keys[i] = tkt_span(at + 1, *at);
    at += 1 + *at;
  }
  return op->key_count;
}

static int start(struct tkt_op *op, struct tkt_op **op_out) {
  struct tkt_broker *broker = op->broker;
  op->call.asked_at = tkt_clock_now(); /* in CALLER mode the engine hears of it later */
  *op_out = op;
  tkt_broker_kick(broker, tkt_inbox_push_new(&broker->inbox, &op->node, TKT_COMMAND_START));
  return TKT_OK;
}

int tkt_op_acquire(struct tkt_broker *broker, const struct tkt_acquire_plan *plan,
                   struct tkt_queue *queue, void *user, struct tkt_op **op_out) {
  struct tkt_op *op = make(broker, TKT_OP_ACQUIRE, queue, user);
  if (!op) return TKT_NO_MEMORY;
  if (!copy_keys(op, plan->keys, plan->key_count)) {
    unmake(op);
    return TKT_NO_MEMORY;
  }
  op->wait_s = plan->wait_s;
  op->lease_s = plan->lease_s;
  op->budget_ns = plan->budget_ns;
  return start(op, op_out);
}

/* An op about a ticket, which has a hold on it. */
static struct tkt_op *make_of_ticket(struct tkt_lent *lent, enum tkt_op_kind kind,
                                     struct tkt_queue *queue, void *user) {
  struct tkt_op *of = tkt_lent_op(lent);
  struct tkt_op *op = make(of->broker, kind, queue, user);
  if (!op) return NULL;
  atomic_fetch_add(&lent->holds, 1);
  tkt_op_ref(of);
  op->ticket_of = of;
  return op;
}

int tkt_op_release(struct tkt_lent *lent, struct tkt_queue *queue, void *user,
                   struct tkt_op **op_out) {
  struct tkt_op *op = make_of_ticket(lent, TKT_OP_RELEASE, queue, user);
  return op ? start(op, op_out) : TKT_NO_MEMORY;
}

int tkt_op_watch(struct tkt_lent *lent, int64_t lead_ns, struct tkt_queue *queue, void *user,
                 struct tkt_op **op_out) {
  struct tkt_op *op = make_of_ticket(lent, TKT_OP_WATCH, queue, user);
  if (!op) return TKT_NO_MEMORY;
  op->timeout_ns = lead_ns;
  return start(op, op_out);
}

int tkt_op_release_exact(struct tkt_broker *broker, const struct tkt_span *keys, size_t key_count,
                         uint64_t token, struct tkt_queue *queue, void *user,
                         struct tkt_op **op_out) {
  struct tkt_op *op = make(broker, TKT_OP_RELEASE, queue, user);
  if (!op) return TKT_NO_MEMORY;
  if (!copy_keys(op, keys, key_count)) {
    unmake(op);
    return TKT_NO_MEMORY;
  }
  op->token = token;
  return start(op, op_out);
}

int tkt_op_wait_ready(struct tkt_broker *broker, int64_t timeout_ns, struct tkt_queue *queue,
                      void *user, struct tkt_op **op_out) {
  struct tkt_op *op = make(broker, TKT_OP_WAIT_READY, queue, user);
  if (!op) return TKT_NO_MEMORY;
  op->timeout_ns = timeout_ns;
  return start(op, op_out);
}

int tkt_op_close(struct tkt_broker *broker, struct tkt_queue *queue, void *user,
                 struct tkt_op **op_out) {
  struct tkt_op *op = make(broker, TKT_OP_CLOSE, queue, user);
  if (!op) return TKT_NO_MEMORY;
  return start(op, op_out);
}

/* --- cancel, free ---------------------------------------------------------------------------- */

void tkt_op_cancel(struct tkt_op *op) {
  if (tkt_op_status(op) == TKT_PENDING) {
    tkt_op_command(op, TKT_COMMAND_CANCEL);
  } else if (tkt_lent_claim(&op->lent, TKT_TAKE_CANCELLED)) {
    tkt_lent_put(&op->lent);
  }
}

void tkt_op_free(struct tkt_op *op) {
  if (op->queue) tkt_queue_abandon(op->queue, op);
  if (tkt_op_status(op) == TKT_PENDING) {
    tkt_op_command(op, TKT_COMMAND_FORGET);
  } else if (tkt_lent_claim(&op->lent, TKT_TAKE_CANCELLED)) {
    tkt_lent_put(&op->lent);
  }
  tkt_op_unref(op);
}

/* --- looking
 * --------------------------------------------------------------------------------------- */

size_t tkt_op_message(const struct tkt_op *op, char *out, size_t size) {
  /* The engine writes to the call until the status says otherwise. */
  int status = tkt_op_status(op);
  if (status == TKT_PENDING) {
    static const char text[] = "still under way";
    if (size > 0) {
      size_t n = sizeof text - 1 < size - 1 ? sizeof text - 1 : size - 1;
      memcpy(out, text, n);
      out[n] = 0;
    }
    return sizeof text - 1;
  }
  struct tkt_call call = op->call;
  call.outcome = (enum tkt_outcome)status;
  int state = atomic_load(&op->lent.state);
  if (state == TKT_TAKE_LATE) call.detail.remaining_ns = atomic_load(&op->lent.late_remaining_ns);
  call.given_back = state == TKT_TAKE_CANCELLED;
  return tkt_call_explain(&call, out, size);
}

uint32_t tkt_op_attempts(const struct tkt_op *op) {
  return tkt_op_status(op) == TKT_PENDING ? 0 : op->call.detail.attempts;
}
