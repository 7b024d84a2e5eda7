/* The line of unsent acquires (B6): those with a slot go to the next session that can take them,
 * those beyond wait for a slot, lost ones pause first (M11). */
#include "client/engine.h"

/* The list that such an unsent acquire waits in for a session. */
static struct tkt_list *list_for(struct tkt_client *c, const struct tkt_waiter *w) {
  return tkt_ticket_is_set(w->ticket) ? &c->line_sets : &c->line;
}

bool tkt_line_admit(struct tkt_client *c, struct tkt_waiter *w, uint64_t *limit_out) {
  if (c->slots_used < c->max_in_flight) {
    c->slots_used++;
    w->slot = true;
    w->state = TKT_WAITER_LINE;
    tkt_list_append(list_for(c, w), &w->frame.node);
    return true;
  }
  if (c->beyond < c->max_unsent) {
    c->beyond++;
    w->state = TKT_WAITER_BEYOND;
    tkt_list_append(&c->line_beyond, &w->frame.node);
    return true;
  }
  *limit_out = (uint64_t)c->max_in_flight + c->max_unsent;
  return false;
}

void tkt_line_free_slot(struct tkt_client *c, struct tkt_waiter *w) {
  if (!w->slot) return;
  w->slot = false;
  c->slots_used--;
  struct tkt_list *node = tkt_list_shift(&c->line_beyond);
  if (!node) return;
  struct tkt_waiter *next = TKT_CONTAINER(node, struct tkt_waiter, frame.node);
  c->beyond--;
  c->slots_used++;
  next->slot = true;
  next->state = TKT_WAITER_LINE;
  tkt_list_append(list_for(c, next), &next->frame.node);
  tkt_line_dispatch(c);
}

void tkt_line_return(struct tkt_client *c, struct tkt_waiter *w, bool pause) {
  tkt_list_remove(&w->frame.node);
  w->session = NULL;
  if (!pause) {
    w->state = TKT_WAITER_LINE;
    tkt_list_prepend(list_for(c, w), &w->frame.node);
    return;
  }
  int64_t length = TKT_RETRY_FIRST;
  for (unsigned i = 0; i < w->retries && length < TKT_RETRY_LONGEST; i++)
    length *= 2;
  if (length > TKT_RETRY_LONGEST) length = TKT_RETRY_LONGEST;
  if (w->retries < UINT8_MAX) w->retries++;
  w->state = TKT_WAITER_PAUSED;
  tkt_list_append(&c->line_paused, &w->frame.node);
  int64_t end = c->now + length, deadline = tkt_waiter_unsent_deadline(w);
  tkt_wheel_set(&c->wheel, &w->timer, end < deadline ? end : deadline);
}

void tkt_line_return_all(struct tkt_client *c, struct tkt_session *s, bool pause) {
  tkt_output_pull_back(s);
  while (!tkt_list_empty(&s->queue)) { /* from the end, so that the order stays in the line */
    struct tkt_waiter *w = TKT_CONTAINER(s->queue.prev, struct tkt_waiter, frame.node);
    tkt_count(c, TKT_COUNT_REQUESTS_MOVED);
    tkt_line_return(c, w, pause);
  }
  struct tkt_list given; /* apart: some may come back to this very session */
  tkt_list_init(&given);
  tkt_list_splice(&given, &s->releases);
  for (struct tkt_list *node; (node = tkt_list_first(&given));)
    tkt_release_unsent(TKT_CONTAINER(node, struct tkt_attempt, frame.node));
}

void tkt_line_leave(struct tkt_client *c, struct tkt_waiter *w) {
  if (w->state == TKT_WAITER_BEYOND) c->beyond--;
  tkt_list_remove(&w->frame.node);
}

static void dispatch(struct tkt_client *c, struct tkt_list *list, bool set) {
  for (struct tkt_list *node; (node = tkt_list_first(list));) {
    struct tkt_session *s = tkt_hint_pick(c, set);
    if (!s) return;
    struct tkt_waiter *w = TKT_CONTAINER(node, struct tkt_waiter, frame.node);
    tkt_list_remove(node);
    w->session = s;
    w->state = TKT_WAITER_ASSIGNED;
    tkt_list_append(&s->queue, node);
    tkt_session_touch(s, 0);
  }
}

/* Sessions take all that waits or nothing, so neither list can starve the other. */
void tkt_line_dispatch(struct tkt_client *c) {
  dispatch(c, &c->line_sets, true);
  dispatch(c, &c->line, false);
}

void tkt_line_resume(struct tkt_client *c, struct tkt_waiter *w) {
  tkt_list_remove(&w->frame.node);
  w->state = TKT_WAITER_LINE;
  tkt_list_append(list_for(c, w), &w->frame.node);
  tkt_line_dispatch(c);
}

static void end_list(struct tkt_client *c, struct tkt_list *list, enum tkt_outcome outcome,
                     const char *reason) {
  for (struct tkt_list *node; (node = tkt_list_first(list));) {
    struct tkt_waiter *w = TKT_CONTAINER(node, struct tkt_waiter, frame.node);
    tkt_line_leave(c, w);
    tkt_waiter_settle(c, w, outcome, reason);
    tkt_waiter_free(c, w);
  }
}

/* Those of `list` that are sets, onto `sets`. */
static void pick_sets(struct tkt_list *list, struct tkt_list *sets) {
  TKT_LIST_EACH(node, next, list) {
    struct tkt_waiter *w = TKT_CONTAINER(node, struct tkt_waiter, frame.node);
    if (!tkt_ticket_is_set(w->ticket)) continue;
    tkt_list_remove(node);
    tkt_list_append(sets, node);
  }
}

void tkt_line_end_sets(struct tkt_client *c, enum tkt_outcome outcome, const char *reason) {
  struct tkt_list sets; /* first apart from the line: free slots let others move up */
  tkt_list_init(&sets);
  tkt_list_splice(&sets, &c->line_sets);
  pick_sets(&c->line_paused, &sets);
  pick_sets(&c->line_beyond, &sets);
  end_list(c, &sets, outcome, reason);
}

void tkt_line_end_all(struct tkt_client *c, enum tkt_outcome outcome, const char *reason) {
  end_list(c, &c->line_beyond, outcome, reason); /* first: nothing moves up while slots get free */
  end_list(c, &c->line_paused, outcome, reason);
  end_list(c, &c->line, outcome, reason);
  end_list(c, &c->line_sets, outcome, reason);
  TKT_LIST_EACH(node, next, &c->sessions) {
    struct tkt_session *s = TKT_CONTAINER(node, struct tkt_session, all);
    tkt_output_pull_back(s);
    end_list(c, &s->queue, outcome, reason);
  }
}
