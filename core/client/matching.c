/* Replies find what they answer: by identifier, operation and key together, never by order (M2). */
#include "client/engine.h"

static bool same_key(const struct tkt_msg *msg, const struct tkt_ticket *t) {
  return msg->key_count == 1 && tkt_span_equal(msg->keys[0], tkt_ticket_only_key(t));
}

/* The waiter that this A, T or B answers, NULL: none (M9). */
static struct tkt_waiter *answered(struct tkt_session *s, const struct tkt_msg *msg) {
  struct tkt_waiter *w = tkt_waiter_find(s->client, msg->id);
  if (!w || w->state != TKT_WAITER_SENT || w->session != s || !same_key(msg, w->ticket))
    return NULL;
  return w;
}

static void mismatch(struct tkt_session *s) {
  tkt_session_poison(s, "the server sent a reply to nothing that was asked", true);
}

/* The waiter's ticket becomes a grant and stands on its own. */
static struct tkt_ticket *grant(struct tkt_client *c, struct tkt_waiter *w, uint64_t token) {
  struct tkt_ticket *t = w->ticket;
  w->ticket = NULL;
  tkt_ticket_grant(c, t, token);
  t->valid_until = w->sent_at + w->lease_s * TKT_S;
  return t;
}

static void match_granted(struct tkt_session *s, const struct tkt_msg *msg) {
  struct tkt_client *c = s->client;
  struct tkt_waiter *w = answered(s, msg);
  /* A token that one of our tickets has already: released, it would take that ticket away. */
  if (!w || msg->token == 0 || tkt_ticket_find(c, msg->token, msg->keys[0])) {
    if (msg->key_count == 1) tkt_release_unknown(c, msg->token, msg->keys[0]);
    mismatch(s);
    return;
  }
  struct tkt_ticket *t = grant(c, w, msg->token);
  struct tkt_call *call = w->call;
  int64_t remaining = t->valid_until - c->now;
  if (!call) { /* a tombstone (S5) */
    tkt_waiter_free(c, w);
    tkt_ticket_give_back(c, t);
    return;
  }
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

static void match_timed_out(struct tkt_session *s, const struct tkt_msg *msg) {
  struct tkt_client *c = s->client;
  struct tkt_waiter *w = answered(s, msg);
  if (!w) {
    mismatch(s);
    return;
  }
  int64_t wait_ends = w->sent_at + w->sent_wait_s * TKT_S;
  if (w->call && c->now + TKT_WITHDRAWN_MARGIN < wait_ends &&
      c->now < tkt_waiter_unsent_deadline(w)) {
    tkt_count(c, TKT_COUNT_WITHDRAWN);
    tkt_waiter_restart(c, w);
    return;
  }
  tkt_waiter_settle(c, w, TKT_TIMEOUT, NULL);
  tkt_waiter_free(c, w);
}

static void match_busy(struct tkt_session *s, const struct tkt_msg *msg) {
  struct tkt_waiter *w = answered(s, msg);
  if (!w) {
    mismatch(s);
    return;
  }
  tkt_waiter_settle(s->client, w, TKT_BUSY, NULL);
  tkt_waiter_free(s->client, w);
}

static void match_release(struct tkt_session *s, const struct tkt_msg *msg,
                          enum tkt_outcome outcome) {
  struct tkt_ticket *t =
      msg->key_count == 1 ? tkt_ticket_find(s->client, msg->token, msg->keys[0]) : NULL;
  if (!t || !tkt_release_answered(s, t, outcome)) mismatch(s);
}

/* M5: on this wire it answers nothing; neighbours get what still arrives. */
static void moved(struct tkt_session *s, const struct tkt_msg *msg) {
  tkt_count(s->client, TKT_COUNT_MOVED);
  tkt_hint_named(s, msg->text.data, msg->text.len);
  tkt_session_close_soft(s, s->requested ? TKT_LEAVE_REDIRECTED : TKT_LEAVE_ENDED,
                         "the server is not the leader");
}

static void error(struct tkt_session *s, const struct tkt_msg *msg) {
  switch (msg->error) {
  case TKT_WIRE_ERROR_NO_LEADER:
    tkt_hint_no_leader(s);
    tkt_session_close_soft(s, TKT_LEAVE_NOT_SERVING, "the server knows no leader");
    break;
  case TKT_WIRE_ERROR_NOT_ACTIVE:
    tkt_session_close_soft(s, TKT_LEAVE_NOT_SERVING, "the server is not active");
    break;
  default:
    tkt_session_poison(s, "the server reported an error of the session", true);
    break;
  }
}

void tkt_match(struct tkt_session *s, const struct tkt_msg *msg) {
  if (s->poisoned) { /* nothing settles any more, but a grant named here must not be left */
    if (msg->kind == TKT_MSG_GRANTED && msg->key_count == 1)
      tkt_release_unknown(s->client, msg->token, msg->keys[0]);
    return;
  }
  switch (msg->kind) {
  case TKT_MSG_GRANTED:
    match_granted(s, msg);
    break;
  case TKT_MSG_TIMED_OUT:
    match_timed_out(s, msg);
    break;
  case TKT_MSG_BUSY:
    match_busy(s, msg);
    break;
  case TKT_MSG_RELEASED:
    match_release(s, msg, TKT_OK);
    break;
  case TKT_MSG_NOT_CURRENT:
    match_release(s, msg, TKT_NOT_CURRENT);
    break;
  case TKT_MSG_MOVED:
    moved(s, msg);
    break;
  case TKT_MSG_LEADER:
    tkt_count(s->client, TKT_COUNT_LEADER);
    if (tkt_hint_named(s, msg->text.data, msg->text.len)) {
      tkt_release_new_session(s->client);
      tkt_line_dispatch(s->client);
    }
    break;
  case TKT_MSG_ERROR:
    error(s, msg);
    break;
  case TKT_MSG_KEEPALIVE:
    break;
  default:
    mismatch(s);
    break;
  }
}
