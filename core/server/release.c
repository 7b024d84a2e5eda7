#include "server/release.h"

#include "server/commit.h"
#include "server/grant.h"
#include "server/in_flight.h"
#include "server/lock_table.h"
#include "server/peer.h"
#include "server/replies.h"

/* Releases of one session in commit. A client has at most one a grant in flight, and no client of
 * ours has that many grants; whoever goes beyond does not wait for answers. */
enum { RELEASES_PER_SESSION = 65536 };

/* A removal that could not be stored is tried again after this pause where the lease is over. */
#define REMOVAL_RETRY_NS (1 * TKT_S)

void tkt_releases_init(struct tkt_server *server) {
  tkt_table_init(&server->release_ids);
  tkt_pool_init(&server->release_pool, sizeof(struct tkt_release), SIZE_MAX);
}

void tkt_releases_free(struct tkt_server *server) {
  tkt_table_release(&server->release_ids);
  tkt_pool_release(&server->release_pool);
}

static struct tkt_grant *find_on(struct tkt_lock *lock, uint64_t token) {
  struct tkt_grant *grant = lock ? lock->holds : NULL;
  while (grant && grant->token != token)
    grant = tkt_hold_of(grant, lock)->next;
  return grant;
}

/* The grant of the token, where it is on one of the keys, or on several of any. */
static struct tkt_grant *find_token(const struct tkt_server *server, struct tkt_lock *const *locks,
                                    const struct tkt_msg *msg) {
  struct tkt_grant *grant = NULL;
  for (size_t i = 0; i < msg->key_count && !grant; i++)
    grant = find_on(locks[i], msg->token);
  return grant || server->sets.count == 0 ? grant : tkt_grant_of_set(server, msg->token);
}

/* One whose lease ran out is current no more, even while that is still in commit. */
static bool is_current(const struct tkt_grant *grant) {
  return grant && grant->state == TKT_GRANT_HELD &&
         !(grant->removal != TKT_REMOVAL_NONE && grant->lapsed);
}

/* The keys of a set came in the order they are asked for in. */
static bool is_on_exactly(const struct tkt_grant *grant, struct tkt_lock *const *locks,
                          size_t count) {
  if (grant->key_count != count) return false;
  for (size_t i = 0; i < count; i++)
    if (grant->holds[i].lock != locks[i]) return false;
  return true;
}

static void give(struct tkt_server *server, struct tkt_release *release) {
  if (release->listed) tkt_in_flight_remove_release(server, release);
  tkt_list_remove(&release->of_peer);
  tkt_list_remove(&release->of_grant);
  release->peer->releases--;
  tkt_pool_give(&server->release_pool, release);
}

/* Whether it was carried out cannot be said, or not at all. */
static void leave_open(struct tkt_server *server, struct tkt_peer *peer, uint64_t id) {
  if (tkt_peer_is_framed(peer)) {
    tkt_say_to(server, peer, TKT_MSG_UNCERTAIN, id);
  } else {
    tkt_peer_end(server, peer, TKT_WIRE_ERROR_UNKNOWN);
  }
}

void tkt_release_request(struct tkt_server *server, struct tkt_peer *peer,
                         struct tkt_lock *const *locks, const struct tkt_msg *msg) {
  struct tkt_grant *grant = find_token(server, locks, msg);
  bool current = is_current(grant), exact = current && is_on_exactly(grant, locks, msg->key_count);
  if (current && !exact && tkt_peer_is_framed(peer)) {
    server->stats.protocol_errors++;
    tkt_say_error_to(server, peer, msg->id, TKT_WIRE_ERROR_GROUP_MISMATCH);
    return;
  }
  if (!exact) {
    server->stats.not_current++;
    tkt_say_not_current(server, peer, msg);
    return;
  }
  struct tkt_release *release =
      peer->releases < RELEASES_PER_SESSION ? tkt_pool_take(&server->release_pool) : NULL;
  if (!release) {
    leave_open(server, peer, msg->id);
    return;
  }
  tkt_list_init(&release->of_peer);
  tkt_list_init(&release->of_grant);
  release->peer = peer;
  release->id = msg->id;
  release->set = msg->set;
  peer->releases++;
  if ((peer->ids_listed && !tkt_in_flight_add_release(server, release)) ||
      (grant->removal == TKT_REMOVAL_NONE && !tkt_release_begin(server, grant, false))) {
    give(server, release);
    leave_open(server, peer, msg->id);
    return;
  }
  tkt_list_append(&grant->releases, &release->of_grant);
  tkt_list_append(&peer->releasing, &release->of_peer);
}

bool tkt_release_begin(struct tkt_server *server, struct tkt_grant *grant, bool lapsed) {
  enum tkt_change_kind kind = lapsed ? TKT_CHANGE_EXPIRE : TKT_CHANGE_RELEASE;
  if (!tkt_commit_stage(server, kind, grant, 0, NULL)) return false;
  tkt_wheel_cancel(&server->wheel, &grant->lease);
  tkt_list_init(&grant->releases);
  grant->removal = TKT_REMOVAL_STAGED;
  grant->lapsed = lapsed;
  for (size_t i = 0; i < grant->key_count; i++)
    tkt_lock_look(server, grant->holds[i].lock);
  return true;
}

static struct tkt_release *first_of(struct tkt_list *list) {
  struct tkt_list *node = tkt_list_first(list);
  return node ? TKT_CONTAINER(node, struct tkt_release, of_grant) : NULL;
}

static void removed(struct tkt_server *server, struct tkt_grant *grant) {
  if (grant->lapsed) server->stats.expiries++;
  if (!tkt_list_empty(&grant->releases)) server->stats.releases++;
  for (struct tkt_release *release; (release = first_of(&grant->releases));) {
    struct tkt_peer *peer = release->peer;
    tkt_say_released(server, release, grant);
    give(server, release);
    tkt_peer_progress(server, peer);
  }
  tkt_grant_leave(server, grant);
}

/* It holds on: surely (failed), or as far as anybody can say (unknown). */
static void not_removed(struct tkt_server *server, struct tkt_grant *grant, bool unknown) {
  struct tkt_list asked;
  tkt_list_init(&asked);
  tkt_list_splice(&asked, &grant->releases);
  grant->removal = TKT_REMOVAL_NONE;
  grant->lapsed = 0;
  if (unknown) grant->uncertain = 1;
  tkt_timer_init(&grant->lease, TKT_TIMER_LEASE);
  int64_t due = grant->until > server->now ? grant->until : server->now + REMOVAL_RETRY_NS;
  tkt_wheel_set(&server->wheel, &grant->lease, due);
  for (struct tkt_release *release; (release = first_of(&asked));) {
    struct tkt_peer *peer = release->peer;
    uint64_t id = release->id;
    give(server, release);
    leave_open(server, peer, id);
    tkt_peer_progress(server, peer);
  }
}

void tkt_release_decided(struct tkt_server *server, struct tkt_grant *grant,
                         enum tkt_commit result) {
  if (result == TKT_COMMIT_DONE) {
    removed(server, grant);
  } else {
    not_removed(server, grant, result == TKT_COMMIT_UNKNOWN);
  }
}

void tkt_release_drop(struct tkt_server *server, struct tkt_release *release) {
  give(server, release);
}
