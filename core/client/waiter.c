/* One acquire: how it ends, restarts, or becomes a tombstone. */
#include "client/engine.h"

int64_t tkt_waiter_unsent_deadline(const struct tkt_waiter *w) {
  return w->called_at + (w->wait_s ? w->wait_s * TKT_S : TKT_TRANSPORT_ALLOWANCE);
}

static int64_t sent_deadline(const struct tkt_waiter *w) {
  return w->called_at + w->wait_s * TKT_S + TKT_TRANSPORT_ALLOWANCE;
}

static enum tkt_count count_of(enum tkt_outcome outcome) {
  switch (outcome) {
  case TKT_OK:
    return TKT_COUNT_GRANTED;
  case TKT_TIMEOUT:
    return TKT_COUNT_TIMEOUT;
  case TKT_BUSY:
    return TKT_COUNT_BUSY;
  case TKT_CANCELLED:
    return TKT_COUNT_CANCELLED;
  case TKT_INSUFFICIENT_LEASE:
    return TKT_COUNT_INSUFFICIENT_LEASE;
  case TKT_NOT_CONNECTED:
    return TKT_COUNT_NOT_CONNECTED;
  case TKT_CLIENT_CAPACITY:
    return TKT_COUNT_CAPACITY;
  case TKT_AUTH:
    return TKT_COUNT_AUTH;
  case TKT_CLOSED:
    return TKT_COUNT_CLOSED;
  case TKT_UNSUPPORTED:
    return TKT_COUNT_UNSUPPORTED;
  case TKT_INVALID_ARGUMENT:
    return TKT_COUNT_REFUSED;
  default:
    return TKT_COUNT_INDETERMINATE;
  }
}

void tkt_waiter_settle(struct tkt_client *c, struct tkt_waiter *w, enum tkt_outcome outcome,
                       const char *reason) {
  struct tkt_call *call = w->call;
  if (call) {
    w->call = NULL;
    call->detail.attempts = w->attempts;
    if (w->state == TKT_WAITER_SENT) call->detail.queued_ns = c->now - w->sent_at;
    tkt_count(c, count_of(outcome));
    tkt_call_finish(c, call, outcome, reason);
  }
  tkt_line_free_slot(c, w);
}

void tkt_waiter_free(struct tkt_client *c, struct tkt_waiter *w) {
  tkt_wheel_cancel(&c->wheel, &w->timer);
  tkt_id_take(c, &w->frame);
  tkt_list_remove(&w->frame.node);
  if (w->tombstone) w->session->tombstones--;
  if (w->ticket) tkt_ticket_free(c, w->ticket);
  tkt_pool_give(&c->waiters, w);
}

/* Ends an acquire whose request is not out. */
static void end_unsent(struct tkt_client *c, struct tkt_waiter *w, enum tkt_outcome outcome,
                       const char *reason) {
  if (w->state == TKT_WAITER_ENCODED) tkt_output_pull_back(w->session);
  tkt_line_leave(c, w);
  tkt_waiter_settle(c, w, outcome, reason);
  tkt_waiter_free(c, w);
}

void tkt_waiter_expire_unsent(struct tkt_client *c, struct tkt_waiter *w) {
  bool set = tkt_ticket_is_set(w->ticket);
  enum tkt_outcome outcome = TKT_TIMEOUT;
  const char *reason = NULL;
  if (tkt_ups(c, set) == w->ups) {
    outcome = TKT_NOT_CONNECTED;
    if (c->usable) reason = "no server that speaks wire 3 could be reached, as several keys need";
  } else if (!w->slot) {
    outcome = TKT_CLIENT_CAPACITY;
    w->call->detail.limit = c->max_in_flight;
  } else if (w->wait_s == 0) {
    outcome = TKT_NOT_CONNECTED;
  }
  end_unsent(c, w, outcome, reason);
}

void tkt_waiter_abandon(struct tkt_client *c, struct tkt_waiter *w, enum tkt_outcome outcome,
                        const char *reason) {
  tkt_waiter_settle(c, w, outcome, reason);
  w->tombstone = true;
  tkt_session_bury(w->session);
}

void tkt_waiter_cancel(struct tkt_client *c, struct tkt_waiter *w) {
  if (w->state != TKT_WAITER_SENT) {
    end_unsent(c, w, TKT_CANCELLED, NULL);
    return;
  }
  tkt_waiter_abandon(c, w, TKT_INDETERMINATE, "it was cancelled after it was sent");
  if (!c->cancel_keeps_session)
    tkt_session_close_soft(w->session, TKT_LEAVE_BY_US, "an acquire was cancelled");
}

void tkt_waiter_restart(struct tkt_client *c, struct tkt_waiter *w) {
  tkt_id_take(c, &w->frame);
  tkt_line_return(c, w, true);
}

void tkt_waiter_timer(struct tkt_client *c, struct tkt_waiter *w) {
  if (w->state == TKT_WAITER_SENT) {
    if (c->now < sent_deadline(w)) {
      tkt_wheel_set(&c->wheel, &w->timer, sent_deadline(w));
      return;
    }
    struct tkt_session *s = w->session;
    if (w->call)
      tkt_waiter_abandon(c, w, TKT_INDETERMINATE, "no reply within its wait and 5 s more");
    tkt_session_close_soft(s, TKT_LEAVE_BY_US, "an acquire got no reply in time");
    tkt_hint_silent(s);
    return;
  }
  if (c->now >= tkt_waiter_unsent_deadline(w)) {
    tkt_waiter_expire_unsent(c, w);
    return;
  }
  tkt_wheel_set(&c->wheel, &w->timer, tkt_waiter_unsent_deadline(w));
  if (w->state == TKT_WAITER_PAUSED) tkt_line_resume(c, w);
}
