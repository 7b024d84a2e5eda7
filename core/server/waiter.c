#include "server/waiter.h"

#include "server/grant.h"
#include "server/in_flight.h"
#include "server/lock_table.h"
#include "server/peer.h"
#include "server/replies.h"

static size_t size_for(size_t keys) {
  return sizeof(struct tkt_waiter) + keys * sizeof(struct tkt_seat);
}

void tkt_waiters_init(struct tkt_server *server) {
  tkt_table_init(&server->owners);
  tkt_table_init(&server->ids);
  tkt_pool_init(&server->waiter_pool, size_for(1), SIZE_MAX);
  tkt_pool_init(&server->waiter_set_pool, size_for(TKT_KEY_SET_MAX), SIZE_MAX);
}

void tkt_waiters_free(struct tkt_server *server) {
  tkt_table_release(&server->owners);
  tkt_table_release(&server->ids);
  tkt_pool_release(&server->waiter_pool);
  tkt_pool_release(&server->waiter_set_pool);
}

static struct tkt_pool *pool_for(struct tkt_server *server, size_t keys) {
  return keys == 1 ? &server->waiter_pool : &server->waiter_set_pool;
}

struct tkt_waiter *tkt_waiter_new(struct tkt_server *server, struct tkt_peer *peer, uint64_t id,
                                  uint8_t lease_s, size_t key_count, bool set) {
  struct tkt_waiter *waiter = tkt_pool_take(pool_for(server, key_count));
  if (!waiter) return NULL;
  tkt_timer_init(&waiter->timer, TKT_TIMER_WAIT);
  tkt_list_init(&waiter->of_peer);
  waiter->peer = peer;
  waiter->id = id;
  waiter->lease_s = lease_s;
  waiter->key_count = (uint8_t)key_count;
  waiter->set = set;
  waiter->owned = !tkt_peer_is_framed(peer) && id != 0;
  if (peer->ids_listed && !tkt_in_flight_add(server, waiter)) {
    tkt_pool_give(pool_for(server, key_count), waiter);
    return NULL;
  }
  for (size_t i = 0; i < key_count; i++)
    waiter->seats[i].waiter = waiter;
  return waiter;
}

/* States of a request in flight: what its session may have so many of. */
static inline bool counts(unsigned state) {
  return state == TKT_WAITER_QUEUED || state == TKT_WAITER_COMMITTING;
}

static inline struct tkt_list *list_for(struct tkt_peer *peer, enum tkt_waiter_state state) {
  struct tkt_list *list = state == TKT_WAITER_QUEUED ? &peer->queued : &peer->answered;
  return state == TKT_WAITER_COMMITTING ? &peer->committing : list;
}

void tkt_waiter_enlist(struct tkt_server *server, struct tkt_waiter *waiter, struct tkt_peer *peer,
                       enum tkt_waiter_state state) {
  if (waiter->peer) waiter->peer->requests -= counts(waiter->state);
  tkt_list_remove(&waiter->of_peer);
  waiter->peer = peer;
  waiter->state = (uint8_t)state;
  if (waiter->listed && !(peer && counts(state))) tkt_in_flight_remove(server, waiter);
  if (!peer) return;
  peer->requests += counts(state);
  tkt_list_append(list_for(peer, state), &waiter->of_peer);
}

void tkt_waiter_discard(struct tkt_server *server, struct tkt_waiter *waiter) {
  tkt_waiter_enlist(server, waiter, NULL, TKT_WAITER_NEW);
  tkt_pool_give(pool_for(server, waiter->key_count), waiter);
}

/* Owners are chosen by clients: the secret keeps them from choosing collisions. */
static uint64_t owner_hash(const struct tkt_server *server, const struct tkt_lock *lock,
                           uint64_t owner) {
  return tkt_hash_u64(owner ^ server->secret.k0) + lock->node.hash;
}

/* When a wait that begins now ends, as the server counts it. */
static int64_t wait_end(const struct tkt_server *server, const struct tkt_peer *peer,
                        uint8_t wait_s) {
  int64_t wait = wait_s * TKT_S, margin = 0;
  if (tkt_peer_is_framed(peer)) {
    margin = server->limits.wait_margin_ns;
    if (margin > wait / 2) margin = wait / 2;
  }
  return server->now + wait - margin;
}

/* An owner is searched for in the first seats of a queue. Before one sits down further behind, and
 * until the queue is empty again, its owners stand in the table, so that the search costs the same
 * for any number of waiters. */
enum { SEARCHED_MAX = 8 };

static bool list_owner(struct tkt_server *server, struct tkt_waiter *waiter) {
  struct tkt_lock *lock = waiter->seats[0].lock;
  if (!waiter->owned || waiter->owner_listed) return true;
  return waiter->owner_listed = tkt_table_insert(&server->owners, &waiter->by_name,
                                                 owner_hash(server, lock, waiter->id));
}

static struct tkt_seat *seat_behind(const struct tkt_lock *lock, const struct tkt_seat *seat) {
  struct tkt_seat *next = TKT_CONTAINER(seat->node.next, struct tkt_seat, node);
  return next == lock->first ? NULL : next;
}

static bool list_owners(struct tkt_server *server, struct tkt_lock *lock) {
  for (struct tkt_seat *seat = lock->first; seat; seat = seat_behind(lock, seat))
    if (!list_owner(server, seat->waiter)) return false;
  return lock->owners_listed = true;
}

/* Before it sits down. False: out of memory. */
static bool keep_owner(struct tkt_server *server, struct tkt_waiter *waiter) {
  struct tkt_lock *lock = waiter->seats[0].lock;
  if (!lock->owners_listed && lock->waiting < SEARCHED_MAX) return true;
  return (lock->owners_listed || list_owners(server, lock)) && list_owner(server, waiter);
}

bool tkt_waiter_queue(struct tkt_server *server, struct tkt_waiter *waiter, uint8_t wait_s) {
  if (waiter->owned && !keep_owner(server, waiter)) return false;
  for (size_t i = 0; i < waiter->key_count; i++)
    tkt_queue_append(waiter->seats[i].lock, &waiter->seats[i]);
  tkt_waiter_enlist(server, waiter, waiter->peer, TKT_WAITER_QUEUED);
  tkt_wheel_set(&server->wheel, &waiter->timer, wait_end(server, waiter->peer, wait_s));
  server->stats.waiters++;
  return true;
}

static void stand_up(struct tkt_server *server, struct tkt_waiter *waiter) {
  for (size_t i = 0; i < waiter->key_count; i++) {
    struct tkt_lock *lock = waiter->seats[i].lock;
    tkt_queue_remove(&waiter->seats[i]);
    if (!lock->first) lock->owners_listed = false;
  }
  if (waiter->owner_listed) {
    tkt_table_remove(&server->owners, &waiter->by_name);
    waiter->owner_listed = false;
  }
  tkt_wheel_cancel(&server->wheel, &waiter->timer);
  server->stats.waiters--;
}

/* It will not go back any more to where it came from. */
static void settle_here(struct tkt_server *server, struct tkt_waiter *waiter) {
  struct tkt_peer *from = waiter->came_from;
  if (!from) return;
  waiter->came_from = NULL;
  tkt_peer_unmark(server, from);
}

void tkt_waiter_leave(struct tkt_server *server, struct tkt_waiter *waiter) {
  settle_here(server, waiter);
  stand_up(server, waiter);
  for (size_t i = 0; i < waiter->key_count; i++)
    tkt_lock_look(server, waiter->seats[i].lock);
}

struct tkt_waiter *tkt_waiter_of_owner(const struct tkt_server *server, const struct tkt_lock *lock,
                                       uint64_t owner) {
  if (!lock->owners_listed) {
    struct tkt_seat *seat = lock->first;
    for (int i = 0; i < SEARCHED_MAX && seat; i++, seat = seat_behind(lock, seat))
      if (seat->waiter->id == owner && seat->waiter->owned) return seat->waiter;
    return NULL;
  }
  uint64_t hash = owner_hash(server, lock, owner);
  struct tkt_table_node *node = tkt_table_bucket(&server->owners, hash);
  for (; node; node = node->next) {
    struct tkt_waiter *waiter = TKT_CONTAINER(node, struct tkt_waiter, by_name);
    if (node->hash == hash && waiter->id == owner && waiter->seats[0].lock == lock) return waiter;
  }
  return NULL;
}

/* The one grant rule: it heads every queue it sits in, and all its keys are free. */
static bool may_have_all(const struct tkt_waiter *waiter) {
  for (size_t i = 0; i < waiter->key_count; i++) {
    const struct tkt_lock *lock = waiter->seats[i].lock;
    if (lock->first != &waiter->seats[i] || !tkt_lock_is_free(lock)) return false;
  }
  return true;
}

static void grant_queued(struct tkt_server *server, struct tkt_waiter *waiter) {
  settle_here(server, waiter);
  if (tkt_grant_begin(server, waiter)) {
    stand_up(server, waiter); /* its keys are occupied: nothing to look at */
    return;
  }
  server->stats.busy_memory++;
  tkt_say_waiter(server, waiter, TKT_MSG_BUSY);
  tkt_waiter_leave(server, waiter);
  tkt_waiter_discard(server, waiter);
}

static bool takes_waiters(const struct tkt_peer *peer) {
  return peer->state == TKT_PEER_OPEN && !tkt_peer_is_broken(peer);
}

static void move_to(struct tkt_server *server, struct tkt_waiter *waiter, struct tkt_peer *peer) {
  struct tkt_peer *from = waiter->peer;
  if (from == peer) return;
  settle_here(server, waiter);
  tkt_waiter_enlist(server, waiter, peer, TKT_WAITER_QUEUED);
  if (!takes_waiters(from)) return;
  waiter->came_from = from;
  waiter->came_lease_s = waiter->lease_s;
  from->moved_away++;
}

/* Its session ends, but the one it came from is open still: what moved it may have been late bytes
 * of a connection that its client had left long ago. A client counts on what it asked for there. */
static bool go_back(struct tkt_server *server, struct tkt_waiter *waiter) {
  struct tkt_peer *from = waiter->came_from;
  if (!from || server->draining || !takes_waiters(from) ||
      from->requests >= server->limits.requests_per_session)
    return false;
  tkt_waiter_enlist(server, waiter, from, TKT_WAITER_QUEUED);
  settle_here(server, waiter);
  if (waiter->came_lease_s > waiter->lease_s) waiter->lease_s = waiter->came_lease_s;
  return true;
}

void tkt_waiter_move(struct tkt_server *server, struct tkt_waiter *waiter, struct tkt_peer *peer,
                     uint8_t wait_s, uint8_t lease_s) {
  if (waiter->peer != peer && peer->requests >= server->limits.requests_per_session) {
    struct tkt_span key = tkt_lock_text(waiter->seats[0].lock);
    server->stats.busy_requests++;
    tkt_say_refusal(server, peer, TKT_MSG_BUSY, waiter->id, &key, 1);
    return;
  }
  move_to(server, waiter, peer);
  waiter->lease_s = lease_s;
  if (wait_s > 0) {
    tkt_wheel_set(&server->wheel, &waiter->timer, wait_end(server, peer, wait_s));
  } else if (may_have_all(waiter)) {
    grant_queued(server, waiter);
  } else {
    tkt_waiter_time_out(server, waiter);
  }
}

void tkt_waiter_time_out(struct tkt_server *server, struct tkt_waiter *waiter) {
  server->stats.timeouts++;
  tkt_say_waiter(server, waiter, TKT_MSG_TIMED_OUT);
  tkt_waiter_leave(server, waiter);
  tkt_waiter_discard(server, waiter);
}

void tkt_waiter_withdraw(struct tkt_server *server, struct tkt_waiter *waiter, bool tell) {
  if (waiter->state == TKT_WAITER_QUEUED && go_back(server, waiter)) return;
  server->stats.withdrawn++;
  if (tell) {
    bool moved = server->draining && tkt_peer_is_framed(waiter->peer);
    tkt_say_waiter(server, waiter, moved ? TKT_MSG_MOVED : TKT_MSG_TIMED_OUT);
  }
  if (waiter->state == TKT_WAITER_QUEUED) {
    tkt_waiter_leave(server, waiter);
  } else {
    tkt_grant_undo(server, waiter);
  }
  tkt_waiter_discard(server, waiter);
}

void tkt_waiters_advance(struct tkt_server *server) {
  struct tkt_lock *lock;
  while ((lock = tkt_lock_next_ready(server))) {
    if (!lock->first) {
      tkt_lock_look(server, lock);
    } else if (may_have_all(lock->first->waiter)) {
      grant_queued(server, lock->first->waiter);
    }
  }
}
