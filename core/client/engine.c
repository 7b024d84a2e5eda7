/* The client as a whole: made, driven by time, freed. */
#include "client/engine.h"

#include <stdlib.h>
#include <string.h>

static void wipe(void *data, size_t len) {
  volatile uint8_t *p = data;
  while (len--)
    *p++ = 0;
}

static bool copy_config(struct tkt_client *c, const struct tkt_client_config *config) {
  c->max_in_flight = config->max_in_flight;
  c->max_unsent = config->max_unsent;
  c->cancel_keeps_session = config->cancel_keeps_session;
  c->wire = config->wire;
  c->has_identity = config->identity != NULL;
  if (c->has_identity) memcpy(c->identity, config->identity, sizeof c->identity);
  if (config->token.len) {
    c->token = malloc(config->token.len);
    if (!c->token) return false;
    memcpy(c->token, config->token.data, config->token.len);
    c->token_len = config->token.len;
  }
  for (size_t i = 0; i < config->address_count && i < TKT_ADDRESS_COUNT_MAX; i++) {
    c->addresses[i].text = strdup(config->addresses[i]);
    if (!c->addresses[i].text) return false;
    c->address_count++;
  }
  return true;
}

/* A table only fails on its first insert; done here, no later one can fail. */
static bool warm(struct tkt_table *table) {
  struct tkt_table_node node;
  if (!tkt_table_insert(table, &node, 0)) return false;
  tkt_table_remove(table, &node);
  return true;
}

struct tkt_client *tkt_client_new(const struct tkt_client_config *config, int64_t now) {
  struct tkt_client *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->now = now;
  c->hint = -1;
  c->failed = -1;
  tkt_random_init(&c->random, config->seed);
  c->token_secret = tkt_random_u64(&c->random);
  tkt_wheel_init(&c->wheel, now);
  struct tkt_list *lists[] = {&c->sessions,  &c->dirty,       &c->done,        &c->line,
                              &c->line_sets, &c->line_beyond, &c->line_paused, &c->all_tickets,
                              &c->lane,      &c->lane_stuck,  &c->ready_calls, &c->close_calls};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    tkt_list_init(lists[i]);
  tkt_pool_init(&c->waiters, sizeof(struct tkt_waiter), SIZE_MAX);
  tkt_pool_init(&c->tickets, sizeof(struct tkt_ticket), SIZE_MAX);
  tkt_pool_init(&c->more_keys, sizeof(struct tkt_more_key), SIZE_MAX);
  tkt_timer_init(&c->close_timer, TKT_TIMER_CLOSE);
  if (!copy_config(c, config) || !warm(&c->by_id) || !warm(&c->by_token)) {
    tkt_client_free(c);
    return NULL;
  }
  tkt_places_init(c);
  return c;
}

static void free_waiters(struct tkt_client *c, struct tkt_list *list) {
  for (struct tkt_list *node; (node = tkt_list_shift(list));) {
    struct tkt_frame *f = TKT_CONTAINER(node, struct tkt_frame, node);
    if (f->release) continue;
    struct tkt_waiter *w = TKT_CONTAINER(f, struct tkt_waiter, frame);
    tkt_wheel_cancel(&c->wheel, &w->timer); /* sessions freed later may stand beside it */
    tkt_pool_give(&c->waiters, w);
  }
}

void tkt_client_free(struct tkt_client *client) {
  if (!client) return;
  for (struct tkt_list *node; (node = tkt_list_first(&client->sessions));) {
    struct tkt_session *s = TKT_CONTAINER(node, struct tkt_session, all);
    free_waiters(client, &s->queue);
    free_waiters(client, &s->encoded);
    free_waiters(client, &s->sent);
    tkt_session_free(s);
  }
  free_waiters(client, &client->line);
  free_waiters(client, &client->line_sets);
  free_waiters(client, &client->line_beyond);
  free_waiters(client, &client->line_paused);
  for (struct tkt_list *node; (node = tkt_list_shift(&client->all_tickets));) {
    struct tkt_ticket *t = TKT_CONTAINER(node, struct tkt_ticket, all);
    tkt_ticket_free_keys(client, t);
    tkt_pool_give(&client->tickets, t);
  }
  tkt_table_release(&client->by_id);
  tkt_table_release(&client->by_token);
  tkt_pool_release(&client->waiters);
  tkt_pool_release(&client->tickets);
  tkt_pool_release(&client->more_keys);
  for (size_t i = 0; i < client->address_count; i++)
    free(client->addresses[i].text);
  if (client->token) wipe(client->token, client->token_len);
  free(client->token);
  wipe(client, sizeof *client);
  free(client);
}

static void fire(struct tkt_client *c, struct tkt_timer *timer) {
  switch ((enum tkt_timer_kind)timer->kind) {
  case TKT_TIMER_WAITER:
    tkt_waiter_timer(c, TKT_CONTAINER(timer, struct tkt_waiter, timer));
    break;
  case TKT_TIMER_TICKET:
    tkt_release_timer(c, TKT_CONTAINER(timer, struct tkt_ticket, timer));
    break;
  case TKT_TIMER_SESSION:
    tkt_session_timer(TKT_CONTAINER(timer, struct tkt_session, timer));
    break;
  case TKT_TIMER_WRITE:
    tkt_session_write_timer(TKT_CONTAINER(timer, struct tkt_session, write_timer));
    break;
  case TKT_TIMER_READ:
    tkt_session_read_timer(TKT_CONTAINER(timer, struct tkt_session, read_timer));
    break;
  case TKT_TIMER_READY:
    tkt_ready_timer(c, TKT_CONTAINER(timer, struct tkt_call, timer));
    break;
  case TKT_TIMER_WATCH:
    tkt_watch_timer(c, TKT_CONTAINER(timer, struct tkt_call, timer));
    break;
  case TKT_TIMER_CLOSE:
    tkt_close_timer(c);
    break;
  }
}

void tkt_client_tick(struct tkt_client *client, int64_t now) {
  tkt_set_now(client, now);
  for (struct tkt_timer *timer; (timer = tkt_wheel_pop(&client->wheel, client->now));)
    fire(client, timer);
  tkt_close_review(client);
  tkt_places_tick(client);
}

int64_t tkt_client_next_deadline(const struct tkt_client *client) {
  int64_t timers = tkt_wheel_next(&client->wheel);
  int64_t dials = tkt_places_next(client);
  return timers < dials ? timers : dials;
}

bool tkt_client_finished(const struct tkt_client *client) {
  return client->finished;
}

bool tkt_client_usable(const struct tkt_client *client) {
  return client->usable > 0;
}
