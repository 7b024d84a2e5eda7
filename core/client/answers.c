/* What an answer does to the acquire it was found for, on either wire. */
#include "client/engine.h"

/* The waiter's ticket becomes a grant and stands on its own. */
static struct tkt_ticket *grant(struct tkt_client *c, struct tkt_waiter *w, uint64_t token) {
  struct tkt_ticket *t = w->ticket;
  w->ticket = NULL;
  tkt_ticket_grant(c, t, token);
  t->valid_until = w->sent_at + w->lease_s * TKT_S;
  return t;
}

void tkt_answer_granted(struct tkt_session *s, struct tkt_waiter *w, uint64_t token) {
  struct tkt_client *c = s->client;
  struct tkt_call *call = w->call;
  struct tkt_ticket *t = grant(c, w, token);
  if (!call) { /* a tombstone (S5) */
    tkt_waiter_free(c, w);
    tkt_ticket_give_back(c, t);
    return;
  }
  int64_t remaining = t->valid_until - c->now;
  if (remaining <= 0 || remaining < w->budget_ns) {
    call->detail.remaining_ns = remaining;
    tkt_waiter_settle(c, w, TKT_INSUFFICIENT_LEASE, NULL);
    tkt_waiter_free(c, w);
    tkt_ticket_give_back(c, t);
    return;
  }
  t->loaned = true;
  call->ticket = t;
  tkt_waiter_settle(c, w, TKT_OK, NULL);
  tkt_waiter_free(c, w);
}

void tkt_answer_give_back(struct tkt_session *s, struct tkt_waiter *w, uint64_t token) {
  struct tkt_client *c = s->client;
  tkt_waiter_settle(c, w, TKT_INDETERMINATE, "the server broke the protocol");
  struct tkt_ticket *t = grant(c, w, token);
  tkt_waiter_free(c, w);
  tkt_ticket_give_back(c, t);
}

void tkt_answer_timed_out(struct tkt_session *s, struct tkt_waiter *w) {
  struct tkt_client *c = s->client;
  int64_t wait_ends = w->sent_at + w->sent_wait_s * TKT_S;
  if (w->call && c->now + TKT_WITHDRAWN_MARGIN < wait_ends &&
      c->now < tkt_waiter_unsent_deadline(w)) {
    tkt_count(c, TKT_COUNT_WITHDRAWN);
    tkt_waiter_restart(c, w);
    return;
  }
  tkt_answer_final(s, w, TKT_TIMEOUT, NULL);
}

void tkt_answer_final(struct tkt_session *s, struct tkt_waiter *w, enum tkt_outcome outcome,
                      const char *reason) {
  tkt_waiter_settle(s->client, w, outcome, reason);
  tkt_waiter_free(s->client, w);
}

void tkt_answer_not_processed(struct tkt_session *s, struct tkt_waiter *w) {
  struct tkt_client *c = s->client;
  if (w->call && c->now < tkt_waiter_unsent_deadline(w)) {
    tkt_waiter_restart(c, w);
    return;
  }
  tkt_answer_final(s, w, w->wait_s ? TKT_TIMEOUT : TKT_NOT_CONNECTED,
                   "no server that was asked could serve it");
}
