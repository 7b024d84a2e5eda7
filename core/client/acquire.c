/* The start of an acquire, and the taking of its ticket. */
#include "client/engine.h"

static void refuse(struct tkt_client *c, struct tkt_call *call, enum tkt_outcome outcome,
                   enum tkt_count count, const char *reason) {
  tkt_count(c, count);
  tkt_call_finish(c, call, outcome, reason);
}

void tkt_client_acquire(struct tkt_client *client, struct tkt_call *call,
                        const struct tkt_acquire_plan *plan, int64_t now) {
  struct tkt_client *c = client;
  tkt_set_now(c, now);
  tkt_call_begin(call, TKT_CALL_ACQUIRE);
  call->detail.wait_ns = plan->wait_s * TKT_S;
  call->detail.lease_ns = plan->lease_s * TKT_S;
  call->detail.budget_ns = plan->budget_ns;
  tkt_count(c, TKT_COUNT_ACQUIRES);
  if (c->closing) {
    refuse(c, call, TKT_CLOSED, TKT_COUNT_CLOSED, NULL);
    return;
  }
  bool set = plan->key_count > 1;
  if (set && tkt_ready_no_sets(c)) {
    refuse(c, call, TKT_UNSUPPORTED, TKT_COUNT_UNSUPPORTED, tkt_no_sets_text);
    return;
  }
  enum tkt_outcome refusal = tkt_ready_refusal(c);
  if (refusal != TKT_OK) {
    refuse(c, call, refusal, refusal == TKT_AUTH ? TKT_COUNT_AUTH : TKT_COUNT_UNSUPPORTED, NULL);
    return;
  }
  struct tkt_waiter *w = tkt_pool_take(&c->waiters);
  struct tkt_ticket *t = w ? tkt_ticket_new(c, plan->keys, plan->key_count) : NULL;
  if (!t) {
    tkt_pool_give(&c->waiters, w);
    tkt_call_finish(c, call, TKT_NO_MEMORY, NULL);
    return;
  }
  tkt_list_init(&w->frame.node);
  tkt_timer_init(&w->timer, TKT_TIMER_WAITER);
  w->ticket = t;
  if (!tkt_line_admit(c, w, &call->detail.limit)) {
    tkt_ticket_free(c, t);
    tkt_pool_give(&c->waiters, w);
    refuse(c, call, TKT_CLIENT_CAPACITY, TKT_COUNT_CAPACITY, NULL);
    return;
  }
  w->call = call;
  w->called_at = tkt_call_asked_at(c, call);
  w->budget_ns = plan->budget_ns;
  w->wait_s = plan->wait_s;
  w->lease_s = plan->lease_s;
  w->ups = tkt_ups(c, set) - (tkt_usable(c, set) > 0);
  t->budget_ns = plan->budget_ns;
  call->half = w;
  tkt_wheel_set(&c->wheel, &w->timer, tkt_waiter_unsent_deadline(w));
  tkt_line_dispatch(c);
}

enum tkt_outcome tkt_client_take(struct tkt_client *client, struct tkt_call *call, int64_t now,
                                 struct tkt_ticket **ticket_out) {
  tkt_set_now(client, now);
  *ticket_out = NULL;
  if (call->kind != TKT_CALL_ACQUIRE) return TKT_INVALID_ARGUMENT;
  if (call->outcome != TKT_OK) return call->outcome;
  if (call->given_back) return TKT_CANCELLED;
  struct tkt_ticket *t = call->ticket;
  if (!t) return TKT_INVALID_ARGUMENT;
  call->ticket = NULL;
  int64_t remaining = t->valid_until - client->now;
  if (remaining <= 0 || remaining < t->budget_ns) {
    call->outcome = TKT_INSUFFICIENT_LEASE;
    call->reason = "it was taken too late";
    call->detail.remaining_ns = remaining;
    tkt_count(client, TKT_COUNT_INSUFFICIENT_LEASE);
    tkt_ticket_give_back(client, t);
    return TKT_INSUFFICIENT_LEASE;
  }
  *ticket_out = t;
  return TKT_OK;
}
