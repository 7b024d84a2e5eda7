#include "peek.h"

#include "client/engine.h"

int peek_hint(const struct tkt_client *client) {
  return client->hint;
}

bool peek_can_take(const struct tkt_client *client, unsigned address) {
  for (unsigned i = 0; i < client->place_count; i++) {
    const struct tkt_session *s = client->places[i].session;
    if (s && s->address == address && s->state == TKT_SESSION_USABLE && !s->stalled &&
        !tkt_output_blocked(s))
      return true;
  }
  return false;
}

bool peek_in_place(const struct tkt_session *session) {
  return session->place != NULL;
}

void peek_hurry_dials(struct tkt_client *client) {
  for (unsigned i = 0; i < client->place_count; i++)
    if (client->places[i].dial_at > client->now + TKT_MS)
      client->places[i].dial_at = client->now + TKT_MS;
}

void peek_forget_closings(struct tkt_client *client) {
  for (unsigned i = 0; i < client->address_count; i++)
    if (client->addresses[i].closing_count > TKT_CLOSING_MAX / 2)
      client->addresses[i].closing_count = TKT_CLOSING_MAX / 2;
}
