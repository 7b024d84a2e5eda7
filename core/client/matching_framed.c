/* Replies of wire 3 find what they answer by id, and must be of a kind that is allowed for it
 * (M2). */
#include "client/engine.h"

/* What an error says to the request it answers (M7, M8). */
enum judgement {
  NOT_ALLOWED,   /* not for a request of this kind: the session is over */
  NOT_PROCESSED, /* may be asked elsewhere */
  REFUSED,       /* definitively */
};

static enum judgement judge(enum tkt_wire_error error, bool release, bool set,
                            const char **reason_out) {
  switch (error) {
  case TKT_WIRE_ERROR_NO_LEADER:
  case TKT_WIRE_ERROR_NOT_ACTIVE:
    return NOT_PROCESSED;
  case TKT_WIRE_ERROR_BAD_KEY:
    *reason_out = "the server refuses a key";
    return REFUSED;
  case TKT_WIRE_ERROR_BAD_KEY_SET:
    *reason_out = "the server refuses the set of keys";
    return set ? REFUSED : NOT_ALLOWED;
  case TKT_WIRE_ERROR_BAD_LEASE:
    *reason_out = "the server refuses the lease";
    return release ? NOT_ALLOWED : REFUSED;
  case TKT_WIRE_ERROR_GROUP_MISMATCH:
    *reason_out = "the keys are not those of the grant";
    return release ? REFUSED : NOT_ALLOWED;
  case TKT_WIRE_ERROR_BAD_TOKEN:
    *reason_out = "the server refuses the token of the grant";
    return release ? REFUSED : NOT_ALLOWED;
  default:
    return NOT_ALLOWED;
  }
}

/* M and L name a slot. False: one that cannot be, and the session is over. */
static bool named(struct tkt_session *s, uint8_t slot, bool *changed_out) {
  if (tkt_hint_named_slot(s, slot, changed_out)) return true;
  tkt_session_poison(s, "the server named a slot that is not in the list of addresses", true);
  return false;
}

static void not_processed(struct tkt_session *s, struct tkt_frame *f) {
  if (f->release)
    tkt_release_lost(TKT_CONTAINER(f, struct tkt_attempt, frame));
  else
    tkt_answer_not_processed(s, TKT_CONTAINER(f, struct tkt_waiter, frame));
}

static void match_moved(struct tkt_session *s, struct tkt_frame *f, uint8_t slot) {
  bool changed;
  if (!named(s, slot, &changed)) return;
  tkt_count(s->client, TKT_COUNT_MOVED);
  not_processed(s, f);
  if (changed) tkt_hint_choose_again(s->client);
}

static void refuse(struct tkt_session *s, struct tkt_frame *f, const char *reason) {
  if (f->release)
    tkt_release_answered(s, TKT_CONTAINER(f, struct tkt_attempt, frame)->ticket,
                         TKT_INVALID_ARGUMENT, reason);
  else
    tkt_answer_final(s, TKT_CONTAINER(f, struct tkt_waiter, frame), TKT_INVALID_ARGUMENT, reason);
}

static void match_error(struct tkt_session *s, struct tkt_frame *f, bool set,
                        enum tkt_wire_error error) {
  const char *reason = NULL;
  switch (judge(error, f->release, set, &reason)) {
  case REFUSED:
    refuse(s, f, reason);
    break;
  case NOT_PROCESSED:
    if (error == TKT_WIRE_ERROR_NO_LEADER) tkt_hint_no_leader(s);
    not_processed(s, f);
    tkt_hint_choose_again(s->client);
    break;
  case NOT_ALLOWED:
    tkt_session_poison(s, "the server sent an error that its request cannot have", true);
    break;
  }
}

/* A grant that must not settle anything, but whose keys are known (M9). */
static void give_back(struct tkt_session *s, struct tkt_waiter *w, uint64_t token) {
  struct tkt_span keys[TKT_KEY_SET_MAX];
  uint8_t count = tkt_ticket_keys(w->ticket, keys);
  if (token != 0 && !tkt_ticket_find(s->client, token, keys, count))
    tkt_answer_give_back(s, w, token);
}

static void match_granted(struct tkt_session *s, struct tkt_waiter *w, const struct tkt_msg *msg) {
  struct tkt_span keys[TKT_KEY_SET_MAX];
  uint8_t count = tkt_ticket_keys(w->ticket, keys);
  if (msg->set == tkt_ticket_is_set(w->ticket) && msg->token != 0 &&
      !tkt_ticket_find(s->client, msg->token, keys, count)) {
    tkt_answer_granted(s, w, msg->token);
    return;
  }
  give_back(s, w, msg->token);
  tkt_match_nothing(s);
}

static void match_acquire(struct tkt_session *s, struct tkt_waiter *w, const struct tkt_msg *msg) {
  switch (msg->kind) {
  case TKT_MSG_GRANTED:
    match_granted(s, w, msg);
    break;
  case TKT_MSG_TIMED_OUT:
    tkt_answer_timed_out(s, w);
    break;
  case TKT_MSG_BUSY:
    tkt_answer_final(s, w, TKT_BUSY, NULL);
    break;
  case TKT_MSG_MOVED:
    match_moved(s, &w->frame, msg->slot);
    break;
  case TKT_MSG_UNCERTAIN: /* M12 */
    tkt_answer_final(s, w, TKT_INDETERMINATE, "the server itself cannot say");
    break;
  case TKT_MSG_ERROR:
    match_error(s, &w->frame, tkt_ticket_is_set(w->ticket), msg->error);
    break;
  default:
    tkt_match_nothing(s);
    break;
  }
}

static void match_release(struct tkt_session *s, struct tkt_attempt *a, const struct tkt_msg *msg) {
  bool set = tkt_ticket_is_set(a->ticket);
  switch (msg->kind) {
  case TKT_MSG_RELEASED:
    if (msg->set == set)
      tkt_release_answered(s, a->ticket, TKT_OK, NULL);
    else
      tkt_match_nothing(s);
    break;
  case TKT_MSG_NOT_CURRENT:
    tkt_release_answered(s, a->ticket, TKT_NOT_CURRENT, NULL);
    break;
  case TKT_MSG_MOVED:
    match_moved(s, &a->frame, msg->slot);
    break;
  case TKT_MSG_UNCERTAIN: /* M12: harmless to ask again (R1) */
    tkt_release_lost(a);
    break;
  case TKT_MSG_ERROR:
    match_error(s, &a->frame, set, msg->error);
    break;
  default:
    tkt_match_nothing(s);
    break;
  }
}

static void match_leader(struct tkt_session *s, uint8_t slot) {
  bool changed;
  tkt_count(s->client, TKT_COUNT_LEADER);
  if (named(s, slot, &changed) && changed) tkt_hint_choose_again(s->client);
}

void tkt_match_framed(struct tkt_session *s, const struct tkt_msg *msg) {
  bool leader = msg->kind == TKT_MSG_LEADER;
  struct tkt_frame *f = leader ? NULL : tkt_id_find(s, msg->id);
  struct tkt_attempt *a = f && f->release ? TKT_CONTAINER(f, struct tkt_attempt, frame) : NULL;
  struct tkt_waiter *w = f && !f->release ? TKT_CONTAINER(f, struct tkt_waiter, frame) : NULL;
  if (w && w->state != TKT_WAITER_SENT) w = NULL;
  if (a && a->state != TKT_ATTEMPT_FLYING) a = NULL;
  if (s->poisoned) { /* nothing settles any more, but a grant told here must not be left */
    if (w && msg->kind == TKT_MSG_GRANTED) give_back(s, w, msg->token);
  } else if (leader) {
    match_leader(s, msg->slot);
  } else if (w) {
    match_acquire(s, w, msg);
  } else if (a) {
    match_release(s, a, msg);
  } else {
    tkt_match_nothing(s);
  }
}
