/* The line of unsent acquires (B6): those with a slot go to the next session that can take them,
 * those beyond wait for a slot, lost ones pause first (M11). */
#include "client/engine.h"

bool tkt_line_admit(struct tkt_client *c, struct tkt_waiter *w, uint64_t *limit_out) {
  if (c->slots_used < c->max_in_flight) {
    c->slots_used++;
    w->slot = true;
    w->state = TKT_WAITER_LINE;
    tkt_list_append(&c->line, &w->frame.node);
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
  tkt_list_append(&c->line, &next->frame.node);
  tkt_line_dispatch(c);
}

void tkt_line_return(struct tkt_client *c, struct tkt_waiter *w, bool pause) {
  tkt_list_remove(&w->frame.node);
  w->session = NULL;
  if (!pause) {
    w->state = TKT_WAITER_LINE;
    tkt_list_prepend(&c->line, &w->frame.node);
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
  for (struct tkt_list *node; (node = tkt_list_first(&s->releases));)
    tkt_release_unsent(TKT_CONTAINER(node, struct tkt_attempt, frame.node));
}

void tkt_line_leave(struct tkt_client *c, struct tkt_waiter *w) {
  if (w->state == TKT_WAITER_BEYOND) c->beyond--;
  tkt_list_remove(&w->frame.node);
}

void tkt_line_dispatch(struct tkt_client *c) {
  for (struct tkt_list *node; (node = tkt_list_first(&c->line));) {
    struct tkt_session *s = tkt_hint_pick(c, NULL, NULL);
    if (!s) return;
    struct tkt_waiter *w = TKT_CONTAINER(node, struct tkt_waiter, frame.node);
    tkt_list_remove(node);
    w->session = s;
    w->state = TKT_WAITER_ASSIGNED;
    tkt_list_append(&s->queue, node);
    tkt_session_touch(s, 0);
  }
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

void tkt_line_end_all(struct tkt_client *c, enum tkt_outcome outcome, const char *reason) {
  end_list(c, &c->line_beyond, outcome, reason); /* first: nothing moves up while slots get free */
  end_list(c, &c->line_paused, outcome, reason);
  end_list(c, &c->line, outcome, reason);
  TKT_LIST_EACH(node, next, &c->sessions) {
    struct tkt_session *s = TKT_CONTAINER(node, struct tkt_session, all);
    tkt_output_pull_back(s);
    end_list(c, &s->queue, outcome, reason);
  }
}
