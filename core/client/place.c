/* Where sessions live, and when they are dialled again (B2, B4). */
#include "client/engine.h"

void tkt_places_init(struct tkt_client *c) {
  unsigned each = c->address_count == 1 ? TKT_PLACES_OF_ONLY_ADDRESS : 1;
  for (unsigned i = 0; i < c->address_count; i++) {
    tkt_list_init(&c->addresses[i].closing);
    for (unsigned j = 0; j < each; j++) {
      struct tkt_place *place = &c->places[c->place_count++];
      place->address = (uint8_t)i;
      place->dial_at = c->now;
    }
  }
}

bool tkt_places_alive(const struct tkt_client *c) {
  for (unsigned i = 0; i < c->place_count; i++)
    if (c->places[i].session) return true;
  return false;
}

/* While closing, a session is dialled for the release lane alone, and one is enough (B7). */
static bool wanted(const struct tkt_client *c) {
  return !c->closing || (!c->finished && c->releasing > 0 && !tkt_places_alive(c));
}

static void dial(struct tkt_client *c, struct tkt_place *place) {
  struct tkt_session *s = tkt_session_new(c, place);
  if (!s) {
    place->dial_at = c->now + TKT_BACKOFF_FIRST;
    return;
  }
  place->session = s;
  tkt_count(c, TKT_COUNT_DIALS);
  tkt_log_say(c, TKT_LOG_DEBUG, place->address, "connecting", NULL, 0);
  tkt_wheel_set(&c->wheel, &s->timer, c->now + TKT_HANDSHAKE_LIMIT);
  tkt_session_touch(s, TKT_WANT_CONNECT);
}

void tkt_places_tick(struct tkt_client *c) {
  for (unsigned i = 0; i < c->place_count; i++) {
    struct tkt_place *place = &c->places[i];
    if (!place->session && place->dial_at <= c->now && wanted(c)) dial(c, place);
  }
}

int64_t tkt_places_next(const struct tkt_client *c) {
  int64_t next = TKT_NEVER;
  if (!wanted(c)) return next;
  for (unsigned i = 0; i < c->place_count; i++)
    if (!c->places[i].session && c->places[i].dial_at < next) next = c->places[i].dial_at;
  return next;
}

/* Doubling from 100 ms to 3.2 s; the lower half of it fixed, the upper drawn, so that the clients
 * of a restarted server come back spread out. */
static int64_t backoff(struct tkt_client *c, unsigned failures) {
  int64_t whole = TKT_BACKOFF_FIRST;
  for (unsigned i = 1; i < failures && whole < TKT_BACKOFF_LONGEST; i++)
    whole *= 2;
  return whole / 2 + (int64_t)tkt_random_below(&c->random, (uint64_t)(whole / 2));
}

static int64_t next_dial(struct tkt_client *c, struct tkt_place *place, const struct tkt_session *s,
                         enum tkt_leave why) {
  struct tkt_address_state *address = &c->addresses[place->address];
  bool lived_well = s->usable_since != TKT_NEVER && c->now - s->usable_since >= TKT_LIVED_WELL;
  switch (why) {
  case TKT_LEAVE_CLOSING:
    return c->now;
  case TKT_LEAVE_BY_US:
  case TKT_LEAVE_REDIRECTED: {
    int64_t at = address->next_undelayed > c->now ? address->next_undelayed : c->now;
    address->next_undelayed = at + TKT_REDIAL_DISTANCE;
    return at;
  }
  case TKT_LEAVE_REFUSED:
    place->failures = UINT8_MAX;
    break;
  case TKT_LEAVE_ENDED:
  case TKT_LEAVE_NOT_SERVING:
    if (lived_well) place->failures = 0;
    if (place->failures < UINT8_MAX) place->failures++;
    break;
  }
  return c->now + backoff(c, place->failures);
}

void tkt_place_leave(struct tkt_session *s, enum tkt_leave why) {
  struct tkt_place *place = s->place;
  if (!place) return;
  struct tkt_client *c = s->client;
  s->place = NULL;
  place->session = NULL;
  place->dial_at = next_dial(c, place, s, why);
  /* A leader whom we left is a leader still: with its hint gone, requests would go to followers
   * that named it. Whatever else ends a session drops the hint, a redial that fails included. */
  if (why != TKT_LEAVE_BY_US) tkt_hint_lost(c, place->address);
  if (place->dial_at <= c->now && wanted(c)) dial(c, place);
}
