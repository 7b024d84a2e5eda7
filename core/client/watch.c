/* Watches of tickets (G2). */
#include "client/engine.h"

void tkt_client_watch(struct tkt_client *client, struct tkt_call *call, struct tkt_ticket *ticket,
                      int64_t lead_ns, int64_t now) {
  tkt_set_now(client, now);
  tkt_call_begin(call, TKT_CALL_WATCH);
  call->ticket = ticket;
  if (client->closing) {
    tkt_call_finish(client, call, TKT_CLOSED, NULL);
    return;
  }
  if (ticket->state == TKT_TICKET_RELEASED) {
    tkt_call_finish(client, call, TKT_NOT_CURRENT, NULL);
    return;
  }
  int64_t left = ticket->valid_until - client->now;
  if (left <= lead_ns) {
    tkt_call_finish(client, call, TKT_OK, NULL);
    return;
  }
  tkt_list_append(&ticket->watches, &call->node);
  tkt_wheel_set(&client->wheel, &call->timer, ticket->valid_until - lead_ns);
}

static void end_all(struct tkt_client *c, struct tkt_ticket *t, enum tkt_outcome outcome) {
  for (struct tkt_list *node; (node = tkt_list_first(&t->watches));)
    tkt_call_finish(c, TKT_CONTAINER(node, struct tkt_call, node), outcome, NULL);
}

void tkt_watch_over(struct tkt_client *c, struct tkt_ticket *t) {
  end_all(c, t, TKT_NOT_CURRENT);
}

void tkt_watch_close_all(struct tkt_client *c) {
  TKT_LIST_EACH(node, next, &c->all_tickets) {
    end_all(c, TKT_CONTAINER(node, struct tkt_ticket, all), TKT_CLOSED);
  }
}

void tkt_watch_timer(struct tkt_client *c, struct tkt_call *call) {
  tkt_call_finish(c, call, TKT_OK, NULL);
}
