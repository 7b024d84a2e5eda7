/* Releases as callers ask for them, and grants that nobody asked for. */
#include "client/engine.h"

static void join(struct tkt_client *c, struct tkt_call *call, struct tkt_ticket *t) {
  if (t->state == TKT_TICKET_RELEASED) {
    call->detail.attempts = t->attempts;
    tkt_call_finish(c, call, t->outcome, t->reason);
    return;
  }
  if (t->state == TKT_TICKET_HELD) {
    if (c->closing) {
      tkt_call_finish(c, call, TKT_CLOSED, NULL);
      return;
    }
    tkt_release_start(c, t, tkt_call_asked_at(c, call));
  }
  tkt_list_append(&t->calls, &call->node);
}

void tkt_client_release(struct tkt_client *client, struct tkt_call *call, struct tkt_ticket *ticket,
                        int64_t now) {
  tkt_set_now(client, now);
  tkt_call_begin(call, TKT_CALL_RELEASE);
  call->ticket = ticket;
  join(client, call, ticket);
}

/* A record for a grant without a ticket; NULL: no memory, or the unreserved part is full. */
static struct tkt_ticket *unreserved(struct tkt_client *c, uint64_t token,
                                     const struct tkt_span *keys, size_t count) {
  if (c->lane_unreserved >= TKT_LANE_UNRESERVED) return NULL;
  struct tkt_ticket *t = tkt_ticket_new(c, keys, count);
  if (!t) return NULL;
  t->unreserved = true;
  c->lane_unreserved++;
  tkt_ticket_grant(c, t, token);
  return t;
}

void tkt_client_release_exact(struct tkt_client *client, struct tkt_call *call,
                              const struct tkt_span *keys, size_t key_count, uint64_t token,
                              int64_t now) {
  tkt_set_now(client, now);
  tkt_call_begin(call, TKT_CALL_RELEASE);
  if (client->closing) {
    tkt_call_finish(client, call, TKT_CLOSED, NULL);
    return;
  }
  if (key_count > 1 && tkt_ready_no_sets(client)) {
    tkt_call_finish(client, call, TKT_UNSUPPORTED, tkt_no_sets_text);
    return;
  }
  struct tkt_ticket *t = tkt_ticket_find(client, token, keys, key_count);
  if (!t) t = unreserved(client, token, keys, key_count);
  if (t) {
    join(client, call, t);
    return;
  }
  bool full = client->lane_unreserved >= TKT_LANE_UNRESERVED;
  if (full) call->detail.limit = TKT_LANE_UNRESERVED;
  tkt_call_finish(client, call, full ? TKT_CLIENT_CAPACITY : TKT_NO_MEMORY, NULL);
}

void tkt_release_unknown(struct tkt_client *c, uint64_t token, struct tkt_span key) {
  if (token == 0 || tkt_key_check(key) != TKT_KEY_OK || c->lane_shut ||
      tkt_ticket_find(c, token, &key, 1))
    return;
  struct tkt_ticket *t = unreserved(c, token, &key, 1);
  if (!t) {
    tkt_grant_lost(c);
    return;
  }
  tkt_count(c, TKT_COUNT_GRANTS_GIVEN_BACK);
  tkt_release_start(c, t, c->now);
}
