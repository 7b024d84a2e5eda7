/* Requests by their ids. The table is the client's, for a table only fails on its first insert:
 * the serial of a session makes its ids different from those of others. */
#include "client/engine.h"

enum { SERIAL_SHIFT = 32 };

static uint64_t hash_of(const struct tkt_session *s, uint64_t id) {
  return tkt_hash_u64(id ^ (uint64_t)s->serial << SERIAL_SHIFT);
}

static const struct tkt_session *session_of(struct tkt_frame *f) {
  return f->release ? TKT_CONTAINER(f, struct tkt_attempt, frame)->session
                    : TKT_CONTAINER(f, struct tkt_waiter, frame)->session;
}

uint64_t tkt_id_next(struct tkt_session *s) {
  if (s->framed) return s->next_id;
  uint64_t owner;
  do {
    owner = tkt_random_u64(&s->client->random);
  } while (owner == 0 || tkt_id_find(s, owner));
  return owner;
}

void tkt_id_give(struct tkt_session *s, struct tkt_frame *f, uint64_t id) {
  f->id = id;
  tkt_table_insert(&s->client->by_id, &f->by_id, hash_of(s, id));
  if (s->framed) s->next_id = id + 1;
}

void tkt_id_take(struct tkt_client *c, struct tkt_frame *f) {
  if (f->id == 0) return;
  tkt_table_remove(&c->by_id, &f->by_id);
  f->id = 0;
}

void tkt_id_take_back(struct tkt_session *s, struct tkt_frame *f) {
  if (s->framed) s->next_id = f->id;
  tkt_id_take(s->client, f);
}

struct tkt_frame *tkt_id_find(const struct tkt_session *s, uint64_t id) {
  uint64_t hash = hash_of(s, id);
  for (struct tkt_table_node *n = tkt_table_bucket(&s->client->by_id, hash); n; n = n->next) {
    struct tkt_frame *f = TKT_CONTAINER(n, struct tkt_frame, by_id);
    if (n->hash == hash && f->id == id && session_of(f) == s) return f;
  }
  return NULL;
}
