/* The ways a session ends (S3, S4, M8, M9). */
#include "client/engine.h"

/* The first reason is the one that counts. */
static void note_end(struct tkt_session *s, enum tkt_leave why, const char *reason) {
  struct tkt_client *c = s->client;
  enum tkt_log_level level = TKT_LOG_INFO;
  s->reason = reason;
  if (why == TKT_LEAVE_ENDED || why == TKT_LEAVE_NOT_SERVING || why == TKT_LEAVE_REFUSED) {
    level = s->poisoned || why == TKT_LEAVE_REFUSED ? TKT_LOG_ERROR : TKT_LOG_WARNING;
    c->addresses[s->address].fault = reason;
    c->failed = (int8_t)s->address;
  }
  tkt_log_say(c, level, s->address,
              s->usable_since == TKT_NEVER ? "no session came up" : "the session ended", reason, 0);
}

/* It takes no more requests; what is unsent goes elsewhere, after a pause where the cause may last
 * (M11). */
static void retire(struct tkt_session *s, enum tkt_session_state state, enum tkt_leave why,
                   const char *reason) {
  struct tkt_client *c = s->client;
  bool was_usable = s->state == TKT_SESSION_USABLE;
  s->state = state;
  if (!s->reason) note_end(s, why, reason);
  tkt_wheel_cancel(&c->wheel, &s->timer);
  if (state >= TKT_SESSION_LAST) {
    tkt_wheel_cancel(&c->wheel, &s->write_timer);
    tkt_wheel_cancel(&c->wheel, &s->read_timer);
    if (tkt_list_linked(&s->closing)) {
      tkt_list_remove(&s->closing);
      c->addresses[s->address].closing_count--;
    }
  }
  if (was_usable) {
    c->usable--;
    if (s->framed) c->usable_framed--;
    tkt_line_return_all(c, s, why != TKT_LEAVE_BY_US);
  }
  if (s->usable_since == TKT_NEVER && why != TKT_LEAVE_REFUSED)
    c->addresses[s->address].verdict = TKT_VERDICT_NONE;
  tkt_place_leave(s, why);
  tkt_release_dispatch(c); /* also because the hint may have gone with it */
  tkt_line_dispatch(c);
  if (state >= TKT_SESSION_LAST) tkt_session_touch(s, 0);
}

static bool expects_replies(const struct tkt_session *s) {
  return !tkt_list_empty(&s->sent) || !tkt_list_empty(&s->flying);
}

void tkt_session_settle(struct tkt_session *s) {
  struct tkt_client *c = s->client;
  for (struct tkt_list *node; (node = tkt_list_first(&s->sent));) {
    struct tkt_waiter *w = TKT_CONTAINER(node, struct tkt_waiter, frame.node);
    tkt_waiter_settle(c, w, TKT_INDETERMINATE, s->reason);
    tkt_waiter_free(c, w);
  }
  for (struct tkt_list *node; (node = tkt_list_first(&s->flying));)
    tkt_release_lost(TKT_CONTAINER(node, struct tkt_attempt, frame.node));
}

/* On wire 3 a grant names no keys: those asked for stay known as long as one may still be read. */
static void settle_but_keep_keys(struct tkt_session *s) {
  TKT_LIST_EACH(node, next, &s->sent) {
    struct tkt_waiter *w = TKT_CONTAINER(node, struct tkt_waiter, frame.node);
    if (!w->call) continue;
    tkt_waiter_settle(s->client, w, TKT_INDETERMINATE, s->reason);
    w->tombstone = true;
    s->tombstones++; /* the session is over: its bound does not matter any more */
  }
  for (struct tkt_list *node; (node = tkt_list_first(&s->flying));)
    tkt_release_lost(TKT_CONTAINER(node, struct tkt_attempt, frame.node));
}

void tkt_session_end(struct tkt_session *s, enum tkt_leave why, const char *reason) {
  if (s->state >= TKT_SESSION_LAST) return;
  retire(s, TKT_SESSION_ENDED, why, reason);
  tkt_session_settle(s);
}

void tkt_session_close_hard(struct tkt_session *s, enum tkt_leave why, const char *reason) {
  if (s->state >= TKT_SESSION_LAST) return;
  retire(s, expects_replies(s) ? TKT_SESSION_LAST : TKT_SESSION_ENDED, why, reason);
}

void tkt_session_close_soft(struct tkt_session *s, enum tkt_leave why, const char *reason) {
  if (s->state > TKT_SESSION_USABLE) return;
  struct tkt_client *c = s->client;
  tkt_output_pull_back(s);
  if (s->state < TKT_SESSION_USABLE || (!expects_replies(s) && !tkt_output_blocked(s))) {
    tkt_session_close_hard(s, why, reason);
    return;
  }
  tkt_count(c, TKT_COUNT_SESSIONS_CLOSED_BY_US);
  struct tkt_address_state *address = &c->addresses[s->address];
  tkt_list_append(&address->closing, &s->closing);
  if (++address->closing_count > TKT_CLOSING_MAX)
    tkt_session_close_hard(
        TKT_CONTAINER(tkt_list_first(&address->closing), struct tkt_session, closing),
        TKT_LEAVE_BY_US, "too many sessions of this address were closing");
  retire(s, TKT_SESSION_FINISHING, why, reason);
  if (tkt_output_blocked(s)) {
    tkt_wheel_set(&c->wheel, &s->timer, c->now + TKT_PROGRESS_LIMIT);
    tkt_session_touch(s, 0);
  } else {
    tkt_session_finished_writing(s);
  }
}

void tkt_session_finished_writing(struct tkt_session *s) {
  struct tkt_client *c = s->client;
  s->state = TKT_SESSION_HALF;
  tkt_wheel_set(&c->wheel, &s->timer, c->now + TKT_HALF_CLOSED_LIMIT);
  tkt_session_touch(s, TKT_WANT_SHUT);
}

void tkt_session_poison(struct tkt_session *s, const char *reason, bool readable) {
  if (s->poisoned) { /* settled already; now its bytes cannot be read either */
    if (!readable && s->state == TKT_SESSION_LAST) {
      s->state = TKT_SESSION_ENDED;
      tkt_session_touch(s, 0);
    }
    return;
  }
  s->poisoned = true;
  tkt_count(s->client, TKT_COUNT_PROTOCOL_FAULTS);
  enum tkt_session_state state = readable ? TKT_SESSION_LAST : TKT_SESSION_ENDED;
  if (s->state < TKT_SESSION_LAST) {
    retire(s, state, TKT_LEAVE_ENDED, reason);
  } else {
    s->state = state;
    tkt_session_touch(s, 0);
  }
  s->reason = reason;
  if (readable && s->framed)
    settle_but_keep_keys(s);
  else
    tkt_session_settle(s);
}

void tkt_session_bury(struct tkt_session *s) {
  if (++s->tombstones >= TKT_TOMBSTONES_MAX)
    tkt_session_close_soft(s, TKT_LEAVE_BY_US, "too many requests were given up on it");
}
