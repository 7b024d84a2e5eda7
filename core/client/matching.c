/* Replies of wire 2 find what they answer: by identifier, operation and key together, never by
 * order (M2). */
#include "client/engine.h"

static bool same_key(const struct tkt_msg *msg, const struct tkt_ticket *t) {
  return msg->key_count == 1 && !tkt_ticket_is_set(t) &&
         tkt_span_equal(msg->keys[0], tkt_ticket_first_key(t));
}

/* The waiter that this A, T or B answers, NULL: none (M9). */
static struct tkt_waiter *answered(struct tkt_session *s, const struct tkt_msg *msg) {
  struct tkt_frame *f = tkt_id_find(s, msg->id);
  struct tkt_waiter *w = f ? TKT_CONTAINER(f, struct tkt_waiter, frame) : NULL;
  return w && w->state == TKT_WAITER_SENT && same_key(msg, w->ticket) ? w : NULL;
}

void tkt_match_nothing(struct tkt_session *s) {
  tkt_session_poison(s, "the server sent a reply to nothing that was asked", true);
}

static void match_granted(struct tkt_session *s, const struct tkt_msg *msg) {
  struct tkt_client *c = s->client;
  struct tkt_waiter *w = answered(s, msg);
  /* A token that one of our tickets has already: released, it would take that ticket away. */
  if (!w || msg->token == 0 || tkt_ticket_find(c, msg->token, msg->keys, 1)) {
    if (msg->key_count == 1) tkt_release_unknown(c, msg->token, msg->keys[0]);
    tkt_match_nothing(s);
    return;
  }
  tkt_answer_granted(s, w, msg->token);
}

static void match_refused(struct tkt_session *s, const struct tkt_msg *msg) {
  struct tkt_waiter *w = answered(s, msg);
  if (!w)
    tkt_match_nothing(s);
  else if (msg->kind == TKT_MSG_TIMED_OUT)
    tkt_answer_timed_out(s, w);
  else
    tkt_answer_final(s, w, TKT_BUSY, NULL);
}

static void match_release(struct tkt_session *s, const struct tkt_msg *msg,
                          enum tkt_outcome outcome) {
  struct tkt_ticket *t =
      msg->key_count == 1 ? tkt_ticket_find(s->client, msg->token, msg->keys, 1) : NULL;
  if (!t || !tkt_release_answered(s, t, outcome, NULL)) tkt_match_nothing(s);
}

/* M5: on this wire it answers nothing; neighbours get what still arrives. */
static void moved(struct tkt_session *s, const struct tkt_msg *msg) {
  tkt_count(s->client, TKT_COUNT_MOVED);
  bool changed = tkt_hint_named(s, msg->text.data, msg->text.len);
  tkt_session_close_soft(s, s->requested ? TKT_LEAVE_REDIRECTED : TKT_LEAVE_ENDED,
                         "the server is not the leader");
  if (changed) tkt_hint_choose_again(s->client);
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
  case TKT_MSG_BUSY:
    match_refused(s, msg);
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
    if (tkt_hint_named(s, msg->text.data, msg->text.len)) tkt_hint_choose_again(s->client);
    break;
  case TKT_MSG_ERROR:
    error(s, msg);
    break;
  case TKT_MSG_KEEPALIVE:
    break;
  default:
    tkt_match_nothing(s);
    break;
  }
}
