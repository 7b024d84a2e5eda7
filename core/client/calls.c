/* Calls: their end, their cancellation, and the caller going away. */
#include "client/engine.h"

void tkt_call_begin(struct tkt_call *call, enum tkt_call_kind kind) {
  call->kind = kind;
  call->outcome = TKT_PENDING;
  tkt_list_init(&call->node);
  tkt_timer_init(&call->timer, kind == TKT_CALL_WATCH ? TKT_TIMER_WATCH : TKT_TIMER_READY);
}

static bool lacked_session(const struct tkt_call *call, enum tkt_outcome outcome) {
  return outcome == TKT_NOT_CONNECTED || outcome == TKT_AUTH || outcome == TKT_UNSUPPORTED ||
         (outcome == TKT_TIMEOUT && call->kind == TKT_CALL_WAIT_READY);
}

void tkt_call_finish(struct tkt_client *c, struct tkt_call *call, enum tkt_outcome outcome,
                     const char *reason) {
  tkt_wheel_cancel(&c->wheel, &call->timer);
  tkt_list_remove(&call->node);
  call->outcome = outcome;
  if (!reason && lacked_session(call, outcome)) reason = tkt_ready_why_not(c, &call->where);
  call->reason = reason;
  call->half = NULL;
  tkt_list_append(&c->done, &call->node);
}

struct tkt_call *tkt_client_next_done(struct tkt_client *client) {
  struct tkt_list *node = tkt_list_shift(&client->done);
  return node ? TKT_CONTAINER(node, struct tkt_call, node) : NULL;
}

/* A granted ticket nobody took goes back. */
static void give_back(struct tkt_client *c, struct tkt_call *call) {
  struct tkt_ticket *ticket = call->ticket;
  if (call->kind != TKT_CALL_ACQUIRE || call->outcome != TKT_OK || !ticket) return;
  call->ticket = NULL;
  call->given_back = true;
  tkt_ticket_give_back(c, ticket);
}

void tkt_client_cancel(struct tkt_client *client, struct tkt_call *call, int64_t now) {
  tkt_set_now(client, now);
  if (call->kind == 0) return;
  if (call->outcome != TKT_PENDING) {
    give_back(client, call);
    return;
  }
  if (call->kind == TKT_CALL_ACQUIRE)
    tkt_waiter_cancel(client, call->half);
  else
    tkt_call_finish(client, call, TKT_CANCELLED, NULL);
}

void tkt_client_forget(struct tkt_client *client, struct tkt_call *call, int64_t now) {
  if (call->kind == 0) return;
  tkt_client_cancel(client, call, now);
  tkt_wheel_cancel(&client->wheel, &call->timer);
  tkt_list_remove(&call->node);
}
