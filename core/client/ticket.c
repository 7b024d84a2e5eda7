/* Tickets: records, loans, and the index by token. */
#include "client/engine.h"

struct tkt_ticket *tkt_ticket_new(struct tkt_client *c, struct tkt_span key) {
  struct tkt_ticket *t = tkt_pool_take(&c->tickets);
  if (!t) return NULL;
  tkt_timer_init(&t->timer, TKT_TIMER_TICKET);
  tkt_list_init(&t->calls);
  tkt_list_init(&t->watches);
  tkt_list_init(&t->lane);
  tkt_list_append(&c->all_tickets, &t->all);
  t->key_len = (uint8_t)key.len;
  memcpy(t->key, key.data, key.len);
  return t;
}

void tkt_ticket_free(struct tkt_client *c, struct tkt_ticket *t) {
  if (t->state != TKT_TICKET_WAITED) tkt_table_remove(&c->by_token, &t->by_token);
  if (t->unreserved) c->lane_unreserved--;
  tkt_wheel_cancel(&c->wheel, &t->timer);
  tkt_list_remove(&t->lane);
  tkt_list_remove(&t->all);
  tkt_pool_give(&c->tickets, t);
}

static uint64_t token_hash(const struct tkt_client *c, uint64_t token) {
  return tkt_hash_u64(token ^ c->token_secret);
}

struct tkt_ticket *tkt_ticket_find(const struct tkt_client *c, uint64_t token,
                                   struct tkt_span key) {
  uint64_t hash = token_hash(c, token);
  for (struct tkt_table_node *n = tkt_table_bucket(&c->by_token, hash); n; n = n->next) {
    struct tkt_ticket *t = TKT_CONTAINER(n, struct tkt_ticket, by_token);
    if (n->hash == hash && t->token == token && tkt_span_equal(tkt_ticket_only_key(t), key))
      return t;
  }
  return NULL;
}

void tkt_ticket_grant(struct tkt_client *c, struct tkt_ticket *t, uint64_t token) {
  t->token = token;
  t->state = TKT_TICKET_HELD;
  tkt_table_insert(&c->by_token, &t->by_token, token_hash(c, token));
}

void tkt_grant_lost(struct tkt_client *c) {
  tkt_count(c, TKT_COUNT_GRANTS_LOST);
  tkt_log_say(c, TKT_LOG_WARNING, -1, "a grant nobody took is left to its lease", NULL, 0);
}

void tkt_ticket_give_back(struct tkt_client *c, struct tkt_ticket *t) {
  t->loaned = false;
  tkt_watch_over(c, t);
  if (t->state == TKT_TICKET_HELD && !t->detached) {
    if (c->lane_shut) {
      tkt_grant_lost(c);
    } else {
      tkt_count(c, TKT_COUNT_GRANTS_GIVEN_BACK);
      tkt_release_start(c, t, c->now);
    }
  }
  tkt_ticket_reap(c, t);
}

void tkt_ticket_reap(struct tkt_client *c, struct tkt_ticket *t) {
  if (t->loaned || t->state == TKT_TICKET_RELEASING) return;
  for (int i = 0; i < TKT_ATTEMPTS_MAX; i++)
    if (t->tries[i].state != TKT_ATTEMPT_NONE) return;
  tkt_ticket_free(c, t);
}

uint64_t tkt_ticket_token(const struct tkt_ticket *ticket) {
  return ticket->token;
}

size_t tkt_ticket_key_count(const struct tkt_ticket *ticket) {
  (void)ticket;
  return 1;
}

struct tkt_span tkt_ticket_key(const struct tkt_ticket *ticket, size_t index) {
  return index == 0 ? tkt_ticket_only_key(ticket) : tkt_span(NULL, 0);
}

int64_t tkt_ticket_valid_until(const struct tkt_ticket *ticket) {
  return ticket->valid_until;
}

void tkt_client_detach(struct tkt_client *client, struct tkt_ticket *ticket) {
  (void)client;
  ticket->detached = true;
}

void tkt_client_drop(struct tkt_client *client, struct tkt_ticket *ticket, int64_t now) {
  tkt_set_now(client, now);
  if (client->closing) ticket->detached = true; /* B7: held tickets outlive the client */
  tkt_ticket_give_back(client, ticket);
}
