/* The leader hint, and which session the next request goes to (B2). The hint is an index into the
 * configured addresses, so nothing a server says can lead anywhere else (M10). */
#include "client/engine.h"

static bool carries(const struct tkt_session *s, bool set) {
  return !set || s->framed;
}

/* True where the address has a session for such a request. */
static bool address_usable(const struct tkt_client *c, unsigned address, bool set) {
  for (unsigned i = 0; i < c->place_count; i++) {
    const struct tkt_session *s = c->places[i].session;
    if (s && c->places[i].address == address && s->state == TKT_SESSION_USABLE && carries(s, set))
      return true;
  }
  return false;
}

static void follow(struct tkt_client *c, int named) {
  if (named != c->hint) tkt_log_say(c, TKT_LOG_INFO, named, "named as the leader", NULL, 0);
  c->hint = (int8_t)named;
}

/* A leader who is not configured is nobody to us (M10); said once, for the list may be wrong. */
static void foreign(struct tkt_client *c, struct tkt_address_state *address, int index) {
  tkt_count(c, TKT_COUNT_FOREIGN_LEADER);
  if (address->foreign_logged) return;
  address->foreign_logged = true;
  tkt_log_say(c, TKT_LOG_WARNING, index,
              "it named a leader that is not among the configured addresses (compared as text)",
              NULL, 0);
}

bool tkt_hint_named(struct tkt_session *s, const uint8_t *text, size_t len) {
  struct tkt_client *c = s->client;
  int named = -1;
  for (unsigned i = 0; i < c->address_count; i++)
    if (tkt_span_equal(tkt_span_str(c->addresses[i].text), tkt_span(text, len))) named = (int)i;
  bool names_other = named != s->address;
  bool changed = names_other != s->names_other || (named >= 0 && named != c->hint);
  s->names_other = names_other;
  if (named < 0)
    foreign(c, &c->addresses[s->address], s->address);
  else
    follow(c, named);
  return changed;
}

bool tkt_hint_named_slot(struct tkt_session *s, uint8_t slot, bool *changed_out) {
  struct tkt_client *c = s->client;
  int before = c->hint;
  *changed_out = false;
  if (slot != TKT_SLOT_NONE && (s->mode != TKT_WIRE_CLUSTER || slot >= c->address_count))
    return false;
  if (slot == TKT_SLOT_NONE)
    c->hint = -1;
  else
    follow(c, slot);
  *changed_out = c->hint != before;
  return true;
}

void tkt_hint_lost(struct tkt_client *c, unsigned address) {
  if (c->hint == (int)address && !address_usable(c, address, false)) c->hint = -1;
}

void tkt_hint_silent(struct tkt_session *s) {
  struct tkt_client *c = s->client;
  if (c->hint != (int)s->address) return;
  tkt_hint_lost(c, s->address);
  tkt_release_dispatch(c);
  tkt_line_dispatch(c);
}

void tkt_hint_no_leader(struct tkt_session *s) {
  if (s->client->hint == (int)s->address || s->requested) s->client->hint = -1;
}

/* The hint names an address whose session can carry such a request: all of them go there. */
static bool follows(const struct tkt_client *c, bool set) {
  return c->hint >= 0 && address_usable(c, (unsigned)c->hint, set);
}

static bool may_ask(const struct tkt_client *c, const struct tkt_session *s, bool follow) {
  return follow ? s->address == (unsigned)c->hint : c->hint < 0 || !s->names_other;
}

void tkt_hint_choose_again(struct tkt_client *c) {
  for (unsigned i = 0; i < c->place_count; i++) {
    struct tkt_session *s = c->places[i].session;
    if (s && s->state == TKT_SESSION_USABLE && !may_ask(c, s, follows(c, false)))
      tkt_line_return_all(c, s, false);
  }
  tkt_release_new_session(c);
  tkt_line_dispatch(c);
}

static struct tkt_session *pick(struct tkt_client *c, bool set, const struct tkt_ticket *ticket,
                                bool *passed_out) {
  bool follow = follows(c, set);
  for (unsigned i = 0; i < c->place_count; i++) {
    unsigned index = (c->turn + i) % c->place_count;
    struct tkt_session *s = c->places[index].session;
    if (!s || s->state != TKT_SESSION_USABLE) continue;
    if (!may_ask(c, s, follow)) continue;
    if (!carries(s, set) || (ticket && tkt_release_on(ticket, s))) {
      *passed_out = true;
      continue;
    }
    if (s->stalled || tkt_output_blocked(s)) continue;
    c->turn = (uint8_t)((index + 1) % c->place_count);
    return s;
  }
  return NULL;
}

struct tkt_session *tkt_hint_pick(struct tkt_client *c, bool set) {
  bool passed = false;
  return pick(c, set, NULL, &passed);
}

struct tkt_session *tkt_hint_pick_for(struct tkt_client *c, const struct tkt_ticket *ticket,
                                      bool *passed_out) {
  *passed_out = false;
  return pick(c, tkt_ticket_is_set(ticket), ticket, passed_out);
}
