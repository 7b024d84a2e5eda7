/* The end of the client (B7). */
#include "client/engine.h"

static const char reason_closed[] = "the broker was closed";

static void abandon_sent(struct tkt_client *c, struct tkt_session *s) {
  TKT_LIST_EACH(node, next, &s->sent) {
    struct tkt_waiter *w = TKT_CONTAINER(node, struct tkt_waiter, frame.node);
    if (!w->call) continue;
    tkt_waiter_settle(c, w, TKT_INDETERMINATE, reason_closed);
    w->tombstone = true;
    s->tombstones++; /* the session is closed below: its bound does not matter any more */
  }
}

static void begin(struct tkt_client *c) {
  c->closing = true;
  tkt_wheel_set(&c->wheel, &c->close_timer, c->now + TKT_CLOSE_LIMIT);
  tkt_line_end_all(c, TKT_CLOSED, NULL);
  tkt_watch_close_all(c);
  for (struct tkt_list *node; (node = tkt_list_first(&c->ready_calls));)
    tkt_call_finish(c, TKT_CONTAINER(node, struct tkt_call, node), TKT_CLOSED, NULL);
  TKT_LIST_EACH(node, next, &c->sessions) {
    struct tkt_session *s = TKT_CONTAINER(node, struct tkt_session, all);
    abandon_sent(c, s);
    if (!tkt_list_empty(&s->sent)) tkt_session_close_soft(s, TKT_LEAVE_CLOSING, reason_closed);
  }
}

void tkt_close_review(struct tkt_client *c) {
  if (!c->closing || c->finished) return;
  if (c->releasing == 0)
    for (unsigned i = 0; i < c->place_count; i++)
      if (c->places[i].session)
        tkt_session_close_soft(c->places[i].session, TKT_LEAVE_CLOSING, reason_closed);
  if (c->releasing > 0 || !tkt_list_empty(&c->sessions)) return;
  c->finished = c->lane_shut = true;
  tkt_wheel_cancel(&c->wheel, &c->close_timer);
  for (struct tkt_list *node; (node = tkt_list_first(&c->close_calls));)
    tkt_call_finish(c, TKT_CONTAINER(node, struct tkt_call, node), TKT_OK, NULL);
}

void tkt_close_timer(struct tkt_client *c) {
  c->lane_shut = true;
  TKT_LIST_EACH(node, next, &c->all_tickets) {
    struct tkt_ticket *t = TKT_CONTAINER(node, struct tkt_ticket, all);
    if (t->state == TKT_TICKET_RELEASING) tkt_release_give_up(c, t);
  }
  TKT_LIST_EACH(node, next, &c->sessions) {
    tkt_session_close_hard(TKT_CONTAINER(node, struct tkt_session, all), TKT_LEAVE_CLOSING,
                           reason_closed);
  }
}

void tkt_client_close(struct tkt_client *client, struct tkt_call *call, int64_t now) {
  tkt_set_now(client, now);
  tkt_call_begin(call, TKT_CALL_CLOSE);
  if (client->finished) {
    tkt_call_finish(client, call, TKT_OK, NULL);
    return;
  }
  tkt_list_append(&client->close_calls, &call->node);
  if (client->closing) return;
  begin(client);
  tkt_close_review(client);
}
