#include "drive/turn.h"

#include "drive/futex.h"
#include "drive/link.h"
#include "drive/queue.h"
#include "net/clock.h"

#include <limits.h>

/* Beyond the limit of a close (rule B7). */
#define CLOSE_OVER (6 * TKT_S)

/* Publishes how an op ended and puts it on the list of this turn, which takes over the driver's
 * reference. */
static void end_op(struct tkt_op *op, int status, struct tkt_ended *ended) {
  op->in_engine = false;
  tkt_list_remove(&op->live);
  op->next = NULL;
  if (ended->last)
    ended->last->next = op;
  else
    ended->first = op;
  ended->last = op;
  ended->count++;
  atomic_store_explicit(&op->status, status, memory_order_release);
}

/* Takes the ticket of a granted acquire for whoever will want it. */
static int take_early(struct tkt_broker *broker, struct tkt_op *op, int64_t now) {
  struct tkt_ticket *ticket = NULL;
  int status = tkt_client_take(broker->client, &op->call, now, &ticket);
  if (status != TKT_OK) return status;
  op->lent.ticket = ticket;
  op->lent.valid_until = tkt_ticket_valid_until(ticket);
  op->lent.token = tkt_ticket_token(ticket);
  atomic_store_explicit(&op->lent.holds, 1, memory_order_relaxed);
  tkt_op_ref(op); /* the ticket's, until the drop */
  atomic_store_explicit(&op->lent.state, TKT_TAKE_READY, memory_order_release);
  return TKT_OK;
}

/* A ticket whose release was answered is nothing to the engine any more. With further attempts the
 * engine keeps it, for it may learn more (R2). */
static void note_release(struct tkt_broker *broker, struct tkt_op *op, int status, int64_t now) {
  if (op->kind != TKT_OP_RELEASE || !op->ticket_of) return;
  if (status != TKT_OK && status != TKT_NOT_CURRENT) return;
  struct tkt_lent *lent = &op->ticket_of->lent;
  atomic_store_explicit(&lent->released, status, memory_order_release);
  if (!lent->ticket || op->call.detail.attempts != 1 || op->call.reason) return;
  tkt_client_drop(broker->client, lent->ticket, now);
  lent->ticket = NULL;
  atomic_store_explicit(&lent->settled, true, memory_order_release);
}

/* True where any call had ended. */
static bool collect(struct tkt_broker *broker, struct tkt_ended *ended, int64_t now) {
  bool any = false;
  struct tkt_call *call;
  while ((call = tkt_client_next_done(broker->client))) {
    any = true;
    if (call == &broker->background_close) continue;
    struct tkt_op *op = TKT_CONTAINER(call, struct tkt_op, call);
    int status = call->outcome;
    if (op->kind == TKT_OP_ACQUIRE && status == TKT_OK) status = take_early(broker, op, now);
    note_release(broker, op, status, now);
    end_op(op, status, ended);
  }
  return any;
}

/* --- commands -------------------------------------------------------------------------------- */

static void start_acquire(struct tkt_broker *broker, struct tkt_op *op, int64_t now) {
  struct tkt_acquire_plan plan;
  plan.key_count = (uint8_t)tkt_op_keys(op, plan.keys);
  plan.wait_s = op->wait_s;
  plan.lease_s = op->lease_s;
  plan.budget_ns = op->budget_ns;
  tkt_client_acquire(broker->client, &op->call, &plan, now);
}

/* Of a ticket the engine has dropped: a release ends as the one before it, a watch has nothing left
 * to watch. */
static void start_settled(struct tkt_op *op, struct tkt_ended *ended) {
  int status =
      op->kind == TKT_OP_RELEASE ? atomic_load(&op->ticket_of->lent.released) : TKT_NOT_CURRENT;
  op->call.kind = (enum tkt_call_kind)op->kind;
  op->call.outcome = (enum tkt_outcome)status;
  op->call.detail.attempts = op->kind == TKT_OP_RELEASE;
  end_op(op, status, ended);
}

static void start_of_ticket(struct tkt_broker *broker, struct tkt_op *op, struct tkt_ended *ended,
                            int64_t now) {
  struct tkt_lent *lent = &op->ticket_of->lent;
  if (!lent->ticket)
    start_settled(op, ended);
  else if (op->kind == TKT_OP_RELEASE)
    tkt_client_release(broker->client, &op->call, lent->ticket, now);
  else
    tkt_client_watch(broker->client, &op->call, lent->ticket, op->timeout_ns, now);
  tkt_lent_put_locked(lent, now);
}

static void start_release_exact(struct tkt_broker *broker, struct tkt_op *op, int64_t now) {
  struct tkt_span keys[TKT_KEY_SET_MAX];
  size_t count = tkt_op_keys(op, keys);
  tkt_client_release_exact(broker->client, &op->call, keys, count, op->token, now);
}

/* A dead broker answers by itself: what was settled stays so, a close is done, the rest is
 * closed. */
static void start_dead(struct tkt_op *op, struct tkt_ended *ended, int64_t now) {
  int status = op->kind == TKT_OP_CLOSE ? TKT_OK : TKT_CLOSED;
  op->call.kind = (enum tkt_call_kind)op->kind;
  if (op->ticket_of) {
    int before = atomic_load(&op->ticket_of->lent.released);
    if (op->kind == TKT_OP_RELEASE && before != TKT_PENDING) status = before;
    tkt_lent_put_locked(&op->ticket_of->lent, now);
  }
  op->call.outcome = (enum tkt_outcome)status;
  end_op(op, status, ended);
}

static void start(struct tkt_broker *broker, struct tkt_op *op, struct tkt_ended *ended,
                  int64_t now) {
  if (atomic_load(&broker->dead)) {
    start_dead(op, ended, now);
    return;
  }
  op->in_engine = true;
  tkt_list_append(&broker->live, &op->live);
  switch (op->kind) {
  case TKT_OP_ACQUIRE:
    start_acquire(broker, op, now);
    break;
  case TKT_OP_RELEASE:
    if (op->ticket_of)
      start_of_ticket(broker, op, ended, now);
    else
      start_release_exact(broker, op, now);
    break;
  case TKT_OP_WAIT_READY:
    tkt_client_wait_ready(broker->client, &op->call, op->timeout_ns, now);
    break;
  case TKT_OP_WATCH:
    start_of_ticket(broker, op, ended, now);
    break;
  case TKT_OP_CLOSE:
    tkt_client_close(broker->client, &op->call, now);
    break;
  }
}

/* The handle was freed while the op was pending, as far as its owner saw. */
static void forget(struct tkt_broker *broker, struct tkt_op *op, int64_t now) {
  if (op->in_engine) {
    op->in_engine = false;
    tkt_list_remove(&op->live);
    tkt_client_forget(broker->client, &op->call, now);
    tkt_op_unref(op);
  } else if (tkt_lent_claim(&op->lent, TKT_TAKE_CANCELLED)) {
    tkt_lent_put_locked(&op->lent, now);
  }
}

static void cancel(struct tkt_broker *broker, struct tkt_op *op, int64_t now) {
  if (op->in_engine)
    tkt_client_cancel(broker->client, &op->call, now);
  else if (tkt_lent_claim(&op->lent, TKT_TAKE_CANCELLED))
    tkt_lent_put_locked(&op->lent, now);
}

static void carry_out(struct tkt_broker *broker, struct tkt_op *op, unsigned commands,
                      struct tkt_ended *ended, int64_t now) {
  if (commands & TKT_COMMAND_START) start(broker, op, ended, now);
  if (commands & TKT_COMMAND_CANCEL) cancel(broker, op, now);
  if (commands & TKT_COMMAND_FORGET) forget(broker, op, now);
  if (commands & TKT_COMMAND_DROP) tkt_lent_drop_locked(&op->lent, now);
  if (!(commands & TKT_COMMAND_START)) tkt_op_unref(op); /* the inbox's */
}

static void close_in_background(struct tkt_broker *broker, int64_t now) {
  if (atomic_load(&broker->dead)) return;
  tkt_client_close(broker->client, &broker->background_close, now);
}

static void drain(struct tkt_broker *broker, struct tkt_ended *ended, int64_t now) {
  if (tkt_inbox_empty(&broker->inbox)) return;
  struct tkt_inbox_node *node = tkt_inbox_take_all(&broker->inbox);
  while (node) {
    struct tkt_inbox_node *next = node->next;
    unsigned commands = tkt_inbox_commands(node);
    if (node == &broker->node)
      close_in_background(broker, now);
    else
      carry_out(broker, TKT_CONTAINER(node, struct tkt_op, node), commands, ended, now);
    node = next;
  }
}

/* --- the turn
 * ------------------------------------------------------------------------------------- */

static bool serve(struct tkt_broker *broker, int64_t now) {
  bool any = false;
  struct tkt_session *session;
  while ((session = tkt_client_next_dirty(broker->client))) {
    any = true;
    tkt_link_serve(broker, session, now);
  }
  return any;
}

static void work_off(struct tkt_broker *broker, struct tkt_ended *ended, int64_t now) {
  bool more;
  do {
    more = serve(broker, now);
    more = collect(broker, ended, now) || more;
  } while (more);
}

/* Streams closed; ops the engine still holds, none where its close has finished, ended. */
static void die(struct tkt_broker *broker, struct tkt_ended *ended, int64_t now) {
  atomic_store(&broker->dead, true);
  tkt_links_abandon(broker);
  struct tkt_list *node;
  while ((node = tkt_list_first(&broker->live))) {
    struct tkt_op *op = TKT_CONTAINER(node, struct tkt_op, live);
    tkt_client_forget(broker->client, &op->call, now);
    int status = op->kind == TKT_OP_CLOSE     ? TKT_OK
                 : op->kind == TKT_OP_RELEASE ? TKT_INDETERMINATE
                                              : TKT_CLOSED;
    op->call.outcome = (enum tkt_outcome)status;
    end_op(op, status, ended);
  }
  /* The I/O thread sees it and ends. The one dispatcher is who runs this. */
  if (broker->mode == TKT_IO_THREAD) tkt_poller_wake(&broker->poller);
}

void tkt_turn_end(struct tkt_broker *broker, struct tkt_ended *ended) {
  if (atomic_load(&broker->dead)) return;
  int64_t now = tkt_clock_now();
  close_in_background(broker, now);
  work_off(broker, ended, now);
  /* The engine's own rules say how each call ends when the time for closing is over. */
  now += CLOSE_OVER;
  tkt_client_tick(broker->client, now);
  work_off(broker, ended, now);
  die(broker, ended, now);
  tkt_links_bury(broker);
}

void tkt_turn(struct tkt_broker *broker, const struct tkt_poll_event *events, int count,
              bool polled, struct tkt_ended *ended) {
  int64_t now = tkt_clock_now();
  if (!atomic_load(&broker->dead))
    for (int i = 0; i < count; i++)
      tkt_link_event(broker, events[i].source, events[i].events, now);
  drain(broker, ended, now);
  if (atomic_load(&broker->dead)) return;
  if (polled) tkt_client_tick(broker->client, now);
  work_off(broker, ended, now);
  if (polled) tkt_links_bury(broker);
  if (tkt_client_finished(broker->client))
    die(broker, ended, now);
  else
    tkt_poller_arm(&broker->poller, tkt_client_next_deadline(broker->client));
}

void tkt_deliver(struct tkt_ended *ended) {
  if (ended->count == 0) return;
  for (struct tkt_op *op = ended->first; op;)
    op = op->queue ? tkt_queue_deliver(op->queue, op) : op->next;
  for (struct tkt_op *op = ended->first, *next; op; op = next) {
    next = op->next;
    if (atomic_fetch_or(&op->word, TKT_WORD_ENDED) & TKT_WORD_WAITING)
      tkt_futex_wake(&op->word, INT_MAX);
    tkt_op_unref(op);
  }
  ended->first = ended->last = NULL;
  ended->count = 0;
}
