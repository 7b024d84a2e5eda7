#include "server/in_flight.h"

/* Ids are chosen by clients: the secret keeps them from choosing collisions. */
static uint64_t id_hash(const struct tkt_server *server, const struct tkt_peer *peer, uint64_t id) {
  return tkt_hash_u64(tkt_hash_u64(id ^ server->secret.k0) ^ (uint64_t)(uintptr_t)peer ^
                      server->secret.k1);
}

bool tkt_in_flight_add(struct tkt_server *server, struct tkt_waiter *waiter) {
  waiter->listed =
      tkt_table_insert(&server->ids, &waiter->by_name, id_hash(server, waiter->peer, waiter->id));
  return waiter->listed;
}

bool tkt_in_flight_add_release(struct tkt_server *server, struct tkt_release *release) {
  release->listed = tkt_table_insert(&server->release_ids, &release->by_id,
                                     id_hash(server, release->peer, release->id));
  return release->listed;
}

void tkt_in_flight_remove(struct tkt_server *server, struct tkt_waiter *waiter) {
  tkt_table_remove(&server->ids, &waiter->by_name);
  waiter->listed = false;
}

void tkt_in_flight_remove_release(struct tkt_server *server, struct tkt_release *release) {
  tkt_table_remove(&server->release_ids, &release->by_id);
  release->listed = false;
}

static bool list_waiters(struct tkt_server *server, struct tkt_list *head) {
  TKT_LIST_EACH(node, next, head) {
    struct tkt_waiter *waiter = TKT_CONTAINER(node, struct tkt_waiter, of_peer);
    if (!waiter->listed && !tkt_in_flight_add(server, waiter)) return false;
  }
  return true;
}

static bool list_all(struct tkt_server *server, struct tkt_peer *peer) {
  if (!list_waiters(server, &peer->queued) || !list_waiters(server, &peer->committing))
    return false;
  TKT_LIST_EACH(node, next, &peer->releasing) {
    struct tkt_release *release = TKT_CONTAINER(node, struct tkt_release, of_peer);
    if (!release->listed && !tkt_in_flight_add_release(server, release)) return false;
  }
  return peer->ids_listed = true;
}

static bool is_listed(const struct tkt_server *server, const struct tkt_peer *peer, uint64_t id) {
  uint64_t hash = id_hash(server, peer, id);
  struct tkt_table_node *node = tkt_table_bucket(&server->ids, hash);
  for (; node; node = node->next) {
    const struct tkt_waiter *waiter = TKT_CONTAINER(node, struct tkt_waiter, by_name);
    if (node->hash == hash && waiter->id == id && waiter->peer == peer) return true;
  }
  node = tkt_table_bucket(&server->release_ids, hash);
  for (; node; node = node->next) {
    const struct tkt_release *release = TKT_CONTAINER(node, struct tkt_release, by_id);
    if (node->hash == hash && release->id == id && release->peer == peer) return true;
  }
  return false;
}

bool tkt_in_flight_admits(struct tkt_server *server, struct tkt_peer *peer, uint64_t id) {
  if (id > peer->last_id) { /* which 0 never is */
    peer->last_id = id;
    return true;
  }
  if (id == 0 || (!peer->ids_listed && !list_all(server, peer))) return false;
  return !is_listed(server, peer, id);
}
