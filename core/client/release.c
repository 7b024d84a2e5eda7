/* The release lane (R1..R6): every release runs for at most 5 s, one attempt a session, and what
 * it leaves in flight is swallowed later. */
#include "client/engine.h"

static struct tkt_attempt *attempt_on(struct tkt_ticket *t, const struct tkt_session *s) {
  for (int i = 0; i < TKT_ATTEMPTS_MAX; i++)
    if (t->tries[i].state != TKT_ATTEMPT_NONE && t->tries[i].session == s) return &t->tries[i];
  return NULL;
}

bool tkt_release_on(const struct tkt_ticket *t, const struct tkt_session *s) {
  for (int i = 0; i < TKT_ATTEMPTS_MAX; i++)
    if (t->tries[i].state != TKT_ATTEMPT_NONE && t->tries[i].session == s) return true;
  return false;
}

static bool flying(const struct tkt_ticket *t) {
  for (int i = 0; i < TKT_ATTEMPTS_MAX; i++)
    if (t->tries[i].state == TKT_ATTEMPT_FLYING) return true;
  return false;
}

static void arm(struct tkt_client *c, struct tkt_ticket *t, int64_t due) {
  if (t->state == TKT_TICKET_RELEASING && due > t->deadline) due = t->deadline;
  t->check_at = due;
  tkt_wheel_set(&c->wheel, &t->timer, due);
}

static void forget_attempt(struct tkt_attempt *a) {
  tkt_id_take(a->session->client, &a->frame);
  if (a->tombstone) a->session->tombstones--;
  tkt_list_remove(&a->frame.node);
  a->tombstone = false;
  a->session = NULL;
  a->state = TKT_ATTEMPT_NONE;
}

/* Gives the release to a session; false where none can take it now. */
static bool assign(struct tkt_client *c, struct tkt_ticket *t, bool *passed_out) {
  int free_try = 0;
  while (free_try < TKT_ATTEMPTS_MAX && t->tries[free_try].state != TKT_ATTEMPT_NONE)
    free_try++;
  *passed_out = true;
  if (free_try == TKT_ATTEMPTS_MAX) return false;
  struct tkt_session *s = tkt_hint_pick_for(c, t, passed_out);
  if (!s) return false;
  struct tkt_attempt *a = &t->tries[free_try];
  tkt_list_init(&a->frame.node);
  a->frame.release = true;
  a->ticket = t;
  a->session = s;
  a->state = TKT_ATTEMPT_QUEUED;
  t->newest = (uint8_t)free_try;
  t->phase = TKT_RELEASE_TRYING;
  tkt_list_remove(&t->lane);
  tkt_list_append(&s->releases, &a->frame.node);
  tkt_session_touch(s, 0);
  return true;
}

static void try_now(struct tkt_client *c, struct tkt_ticket *t) {
  bool passed = false;
  if (assign(c, t, &passed)) return;
  t->phase = TKT_RELEASE_WANTS_SESSION;
  tkt_list_remove(&t->lane);
  tkt_list_append(passed ? &c->lane_stuck : &c->lane, &t->lane);
}

/* The newest attempt failed: another after a pause that grows. */
static void pause_release(struct tkt_client *c, struct tkt_ticket *t) {
  int64_t length = TKT_RELEASE_PAUSE_FIRST;
  for (unsigned i = 0; i < t->pauses && length < TKT_RELEASE_PAUSE_LONGEST; i++)
    length *= 2;
  if (length > TKT_RELEASE_PAUSE_LONGEST) length = TKT_RELEASE_PAUSE_LONGEST;
  if (t->pauses < UINT8_MAX) t->pauses++;
  tkt_list_remove(&t->lane);
  t->phase = TKT_RELEASE_PAUSED;
  t->pause_until = c->now + length;
  arm(c, t, t->pause_until);
}

void tkt_release_start(struct tkt_client *c, struct tkt_ticket *t, int64_t asked_at) {
  tkt_count(c, TKT_COUNT_RELEASES);
  c->releasing++;
  t->state = TKT_TICKET_RELEASING;
  t->deadline = asked_at + TKT_RELEASE_LIMIT;
  t->pauses = 0;
  t->sent_in_run = false;
  for (int i = 0; i < TKT_ATTEMPTS_MAX; i++) { /* adopts what an earlier run left in flight */
    struct tkt_attempt *a = &t->tries[i];
    if (a->state != TKT_ATTEMPT_FLYING) continue;
    t->sent_in_run = true;
    if (a->tombstone) a->session->tombstones--;
    a->tombstone = false;
  }
  arm(c, t, c->now + TKT_RELEASE_ATTEMPT);
  try_now(c, t);
}

/* The run is over: what is not sent is taken back, what is in flight becomes tombstones. */
static void end_run(struct tkt_client *c, struct tkt_ticket *t, enum tkt_ticket_state state) {
  c->releasing--;
  t->state = (uint8_t)state;
  tkt_list_remove(&t->lane);
  for (int i = 0; i < TKT_ATTEMPTS_MAX; i++) {
    struct tkt_attempt *a = &t->tries[i];
    if (a->state == TKT_ATTEMPT_ENCODED) tkt_output_pull_back(a->session);
    if (a->state == TKT_ATTEMPT_QUEUED) forget_attempt(a);
  }
  arm(c, t, flying(t) ? c->now + TKT_RELEASE_TOMBSTONE : TKT_NEVER);
  for (int i = 0; i < TKT_ATTEMPTS_MAX; i++) {
    struct tkt_attempt *a = &t->tries[i];
    if (a->state != TKT_ATTEMPT_FLYING || a->tombstone) continue;
    a->tombstone = true;
    tkt_session_bury(a->session);
  }
}

static void finish_calls(struct tkt_client *c, struct tkt_ticket *t, enum tkt_outcome outcome) {
  for (struct tkt_list *node; (node = tkt_list_first(&t->calls));) {
    struct tkt_call *call = TKT_CONTAINER(node, struct tkt_call, node);
    call->detail.attempts = t->attempts;
    tkt_call_finish(c, call, outcome, t->reason);
  }
}

void tkt_release_give_up(struct tkt_client *c, struct tkt_ticket *t) {
  tkt_count(c, TKT_COUNT_RELEASES_UNANSWERED);
  tkt_log_say(c, TKT_LOG_WARNING, -1, "a release got no answer within 5 s", NULL, 0);
  end_run(c, t, TKT_TICKET_HELD);
  finish_calls(c, t, t->sent_in_run ? TKT_INDETERMINATE : TKT_NOT_CONNECTED);
  tkt_ticket_reap(c, t);
}

bool tkt_release_answered(struct tkt_session *s, struct tkt_ticket *t, enum tkt_outcome outcome,
                          const char *reason) {
  struct tkt_client *c = s->client;
  struct tkt_attempt *a = attempt_on(t, s);
  if (!a || a->state != TKT_ATTEMPT_FLYING) return false;
  forget_attempt(a);
  if (t->state == TKT_TICKET_RELEASED) {
    if (outcome == TKT_OK) t->outcome = TKT_OK; /* the N was the echo of this success */
    tkt_ticket_reap(c, t);
    return true;
  }
  tkt_count(c, outcome == TKT_OK            ? TKT_COUNT_RELEASED
               : outcome == TKT_NOT_CURRENT ? TKT_COUNT_NOT_CURRENT
                                            : TKT_COUNT_RELEASES_REFUSED);
  t->outcome = outcome;
  t->reason = reason;
  if (t->state == TKT_TICKET_RELEASING) {
    end_run(c, t, TKT_TICKET_RELEASED);
    finish_calls(c, t, outcome);
  } else { /* it had given up: the late answer still tells */
    t->state = TKT_TICKET_RELEASED;
  }
  tkt_watch_over(c, t);
  tkt_ticket_reap(c, t);
  return true;
}

void tkt_release_sent(struct tkt_attempt *attempt) {
  struct tkt_ticket *t = attempt->ticket;
  struct tkt_client *c = attempt->session->client;
  attempt->state = TKT_ATTEMPT_FLYING;
  attempt->sent_at = c->now;
  t->attempts++;
  t->sent_in_run = true;
  tkt_count(c, TKT_COUNT_RELEASE_ATTEMPTS);
  tkt_list_append(&attempt->session->flying, &attempt->frame.node);
  if (t->check_at > c->now + TKT_RELEASE_ATTEMPT) arm(c, t, c->now + TKT_RELEASE_ATTEMPT);
}

void tkt_release_unsent(struct tkt_attempt *attempt) {
  struct tkt_ticket *t = attempt->ticket;
  struct tkt_client *c = attempt->session->client;
  forget_attempt(attempt);
  try_now(c, t);
}

void tkt_release_lost(struct tkt_attempt *attempt) {
  struct tkt_ticket *t = attempt->ticket;
  struct tkt_client *c = attempt->session->client;
  bool newest = attempt == &t->tries[t->newest];
  forget_attempt(attempt);
  if (t->state != TKT_TICKET_RELEASING) {
    tkt_ticket_reap(c, t);
  } else if (t->phase == TKT_RELEASE_TRYING && newest) {
    pause_release(c, t);
  }
}

void tkt_release_dispatch(struct tkt_client *c) {
  for (struct tkt_list *node; (node = tkt_list_first(&c->lane));) {
    struct tkt_ticket *t = TKT_CONTAINER(node, struct tkt_ticket, lane);
    bool passed = false;
    if (assign(c, t, &passed)) continue;
    if (!passed) return;
    tkt_list_remove(node);
    tkt_list_append(&c->lane_stuck, node);
  }
}

void tkt_release_new_session(struct tkt_client *c) {
  tkt_list_splice(&c->lane, &c->lane_stuck);
  tkt_release_dispatch(c);
}

void tkt_release_timer(struct tkt_client *c, struct tkt_ticket *t) {
  if (t->state != TKT_TICKET_RELEASING) {
    for (int i = 0; i < TKT_ATTEMPTS_MAX; i++)
      if (t->tries[i].state == TKT_ATTEMPT_FLYING)
        tkt_session_close_soft(t->tries[i].session, TKT_LEAVE_BY_US,
                               "a release got no reply in time");
    return;
  }
  if (c->now >= t->deadline) {
    tkt_release_give_up(c, t);
    return;
  }
  if (t->phase == TKT_RELEASE_PAUSED && c->now >= t->pause_until) {
    arm(c, t, t->deadline);
    try_now(c, t);
    return;
  }
  const struct tkt_attempt *a = &t->tries[t->newest];
  if (t->phase != TKT_RELEASE_TRYING || a->state != TKT_ATTEMPT_FLYING)
    arm(c, t, t->phase == TKT_RELEASE_PAUSED ? t->pause_until : t->deadline);
  else if (c->now < a->sent_at + TKT_RELEASE_ATTEMPT)
    arm(c, t, a->sent_at + TKT_RELEASE_ATTEMPT);
  else
    pause_release(c, t);
}
