/* Tickets: records, loans, and the index by token. */
#include "client/engine.h"

static bool copy_more_keys(struct tkt_client *c, struct tkt_ticket *t, const struct tkt_span *keys,
                           size_t count) {
  struct tkt_more_key **end = &t->more;
  for (size_t i = 1; i < count; i++) {
    struct tkt_more_key *k = tkt_pool_take(&c->more_keys);
    if (!k) return false;
    k->len = (uint8_t)keys[i].len;
    memcpy(k->bytes, keys[i].data, keys[i].len);
    *end = k;
    end = &k->next;
  }
  return true;
}

void tkt_ticket_free_keys(struct tkt_client *c, struct tkt_ticket *t) {
  for (struct tkt_more_key *k = t->more, *next; k; k = next) {
    next = k->next;
    tkt_pool_give(&c->more_keys, k);
  }
  t->more = NULL;
}

struct tkt_ticket *tkt_ticket_new(struct tkt_client *c, const struct tkt_span *keys, size_t count) {
  struct tkt_ticket *t = tkt_pool_take(&c->tickets);
  if (!t) return NULL;
  if (!copy_more_keys(c, t, keys, count)) {
    tkt_ticket_free_keys(c, t);
    tkt_pool_give(&c->tickets, t);
    return NULL;
  }
  tkt_timer_init(&t->timer, TKT_TIMER_TICKET);
  tkt_list_init(&t->calls);
  tkt_list_init(&t->watches);
  tkt_list_init(&t->lane);
  tkt_list_append(&c->all_tickets, &t->all);
  t->key_count = (uint8_t)count;
  t->key_len = (uint8_t)keys[0].len;
  memcpy(t->key, keys[0].data, keys[0].len);
  return t;
}

void tkt_ticket_free(struct tkt_client *c, struct tkt_ticket *t) {
  if (t->state != TKT_TICKET_WAITED) tkt_table_remove(&c->by_token, &t->by_token);
  if (t->unreserved) c->lane_unreserved--;
  tkt_wheel_cancel(&c->wheel, &t->timer);
  tkt_list_remove(&t->lane);
  tkt_list_remove(&t->all);
  tkt_ticket_free_keys(c, t);
  tkt_pool_give(&c->tickets, t);
}

uint8_t tkt_ticket_keys(const struct tkt_ticket *t, struct tkt_span *keys_out) {
  *keys_out++ = tkt_ticket_first_key(t);
  for (const struct tkt_more_key *k = t->more; k; k = k->next)
    *keys_out++ = tkt_span(k->bytes, k->len);
  return t->key_count;
}

static bool has_keys(const struct tkt_ticket *t, const struct tkt_span *keys, size_t count) {
  if (t->key_count != count || !tkt_span_equal(tkt_ticket_first_key(t), *keys)) return false;
  for (const struct tkt_more_key *k = t->more; k; k = k->next)
    if (!tkt_span_equal(tkt_span(k->bytes, k->len), *++keys)) return false;
  return true;
}

static uint64_t token_hash(const struct tkt_client *c, uint64_t token) {
  return tkt_hash_u64(token ^ c->token_secret);
}

struct tkt_ticket *tkt_ticket_find(const struct tkt_client *c, uint64_t token,
                                   const struct tkt_span *keys, size_t count) {
  uint64_t hash = token_hash(c, token);
  for (struct tkt_table_node *n = tkt_table_bucket(&c->by_token, hash); n; n = n->next) {
    struct tkt_ticket *t = TKT_CONTAINER(n, struct tkt_ticket, by_token);
    if (n->hash == hash && t->token == token && has_keys(t, keys, count)) return t;
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
  return ticket->key_count;
}

struct tkt_span tkt_ticket_key(const struct tkt_ticket *ticket, size_t index) {
  if (index == 0) return tkt_ticket_first_key(ticket);
  const struct tkt_more_key *k = ticket->more;
  while (k && --index > 0)
    k = k->next;
  return k ? tkt_span(k->bytes, k->len) : tkt_span(NULL, 0);
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
