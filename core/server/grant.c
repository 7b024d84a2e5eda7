#include "server/grant.h"

#include "server/commit.h"
#include "server/lock_table.h"
#include "server/peer.h"
#include "server/release.h"
#include "server/replies.h"
#include "server/waiter.h"

/* Tokens stay below 2^53, so that every number type of every language holds them exactly. */
static const uint64_t token_end = UINT64_C(1) << 53;

/* Fits the grant's counter; one change a lease length can be in commit, and that is 250. */
enum { CHANGES_MAX = 1024 };

/* An expiry that could not be stored is tried again after this pause. */
#define EXPIRY_RETRY_NS (1 * TKT_S)

static size_t size_for(size_t keys) {
  return sizeof(struct tkt_grant) + keys * sizeof(struct tkt_hold);
}

void tkt_grants_init(struct tkt_server *server) {
  tkt_pool_init(&server->grant_pool, size_for(1), SIZE_MAX);
  tkt_pool_init(&server->grant_set_pool, size_for(TKT_KEY_SET_MAX), SIZE_MAX);
  tkt_pool_init(&server->set_pool, sizeof(struct tkt_set), SIZE_MAX);
  tkt_table_init(&server->sets);
}

void tkt_grants_free(struct tkt_server *server) {
  struct tkt_table_node *node;
  while ((node = tkt_table_drain(&server->sets)))
    tkt_pool_give(&server->set_pool, TKT_CONTAINER(node, struct tkt_set, by_token));
  tkt_table_release(&server->sets);
  tkt_pool_release(&server->set_pool);
  tkt_pool_release(&server->grant_pool);
  tkt_pool_release(&server->grant_set_pool);
}

static struct tkt_set *find_set(const struct tkt_server *server, uint64_t token) {
  uint64_t hash = tkt_hash_u64(token);
  struct tkt_table_node *node = tkt_table_bucket(&server->sets, hash);
  for (; node; node = node->next) {
    struct tkt_set *set = TKT_CONTAINER(node, struct tkt_set, by_token);
    if (set->grant->token == token) return set;
  }
  return NULL;
}

struct tkt_grant *tkt_grant_of_set(const struct tkt_server *server, uint64_t token) {
  struct tkt_set *set = find_set(server, token);
  return set ? set->grant : NULL;
}

static bool add_set(struct tkt_server *server, struct tkt_grant *grant) {
  struct tkt_set *set = tkt_pool_take(&server->set_pool);
  if (!set) return false;
  set->grant = grant;
  if (tkt_table_insert(&server->sets, &set->by_token, tkt_hash_u64(grant->token))) return true;
  tkt_pool_give(&server->set_pool, set);
  return false;
}

static void remove_set(struct tkt_server *server, const struct tkt_grant *grant) {
  struct tkt_set *set = find_set(server, grant->token);
  tkt_table_remove(&server->sets, &set->by_token);
  tkt_pool_give(&server->set_pool, set);
}

static struct tkt_pool *pool_for(struct tkt_server *server, size_t keys) {
  return keys == 1 ? &server->grant_pool : &server->grant_set_pool;
}

bool tkt_grant_begin(struct tkt_server *server, struct tkt_waiter *waiter) {
  if (server->next_token >= token_end) return false;
  struct tkt_pool *pool = pool_for(server, waiter->key_count);
  struct tkt_grant *grant = tkt_pool_take(pool);
  if (!grant) return false;
  grant->key_count = waiter->key_count & 31u;
  grant->token = server->next_token;
  size_t entry;
  if (grant->key_count > 1 && !add_set(server, grant)) {
    tkt_pool_give(pool, grant);
    return false;
  }
  if (!tkt_commit_stage(server, TKT_CHANGE_GRANT, grant, waiter->lease_s, &entry)) {
    if (grant->key_count > 1) remove_set(server, grant);
    tkt_pool_give(pool, grant);
    return false;
  }
  server->next_token++;
  tkt_timer_init(&grant->lease, TKT_TIMER_LEASE);
  grant->owner = waiter->owned ? waiter->id : 0;
  grant->waiter = waiter;
  grant->replies = 1;
  grant->state = TKT_GRANT_COMMITTING;
  grant->lease_s = waiter->lease_s;
  grant->changes = 1;
  for (size_t i = 0; i < grant->key_count; i++) {
    grant->holds[i].lock = waiter->seats[i].lock;
    tkt_lock_occupy(grant->holds[i].lock, grant);
  }
  server->stats.keys_held += grant->key_count;
  waiter->grant = grant;
  waiter->entry = entry;
  waiter->staged = true;
  tkt_waiter_enlist(server, waiter, waiter->peer, TKT_WAITER_COMMITTING);
  return true;
}

void tkt_grant_undo(struct tkt_server *server, struct tkt_waiter *waiter) {
  struct tkt_grant *grant = waiter->grant;
  tkt_commit_unstage(server, waiter->entry);
  waiter->grant = NULL;
  waiter->staged = false;
  grant->waiter = NULL;
  grant->replies = 0;
  grant->changes = 0;
  tkt_grant_leave(server, grant);
}

struct tkt_grant *tkt_grant_of_owner(const struct tkt_lock *lock, uint64_t owner) {
  for (struct tkt_grant *grant = lock->holds; grant; grant = tkt_hold_of(grant, lock)->next)
    if (grant->owner == owner && !grant->uncertain && grant->removal == TKT_REMOVAL_NONE)
      return grant;
  return NULL;
}

/* Puts the A of a held grant into the session's output and lets the waiter watch it leave. */
static void answer_granted(struct tkt_server *server, struct tkt_waiter *waiter) {
  struct tkt_peer *peer = waiter->peer;
  uint64_t at = peer ? peer->sent + tkt_buf_len(&peer->out) : 0;
  if (tkt_say_granted(server, waiter)) {
    tkt_waiter_enlist(server, waiter, peer, TKT_WAITER_ANSWERED);
    waiter->reply_at = at;
  } else {
    tkt_grant_forget(server, waiter);
  }
}

static void answer(struct tkt_server *server, struct tkt_waiter *waiter, enum tkt_commit result) {
  struct tkt_peer *peer = waiter->peer;
  waiter->grant->waiter = NULL;
  waiter->staged = false;
  if (result == TKT_COMMIT_DONE) {
    answer_granted(server, waiter);
  } else {
    bool failed = result == TKT_COMMIT_FAILED, framed = peer && tkt_peer_is_framed(peer);
    if (failed) server->stats.busy_storage++;
    if (failed || framed) tkt_say_waiter(server, waiter, failed ? TKT_MSG_BUSY : TKT_MSG_UNCERTAIN);
    tkt_grant_forget(server, waiter);
    if (peer && !failed && !framed) tkt_peer_end(server, peer, TKT_WIRE_ERROR_UNKNOWN);
  }
  if (peer) tkt_peer_progress(server, peer);
}

static void refuse_renewal(struct tkt_server *server, struct tkt_grant *grant,
                           struct tkt_peer *peer, uint64_t *counter) {
  struct tkt_span key = tkt_lock_text(grant->holds[0].lock);
  ++*counter;
  tkt_say_refusal(server, peer, TKT_MSG_BUSY, grant->owner, &key, 1);
}

void tkt_grant_renew(struct tkt_server *server, struct tkt_grant *grant, struct tkt_peer *peer,
                     uint8_t lease_s) {
  struct tkt_waiter *waiter = grant->waiter;
  if (!(waiter && waiter->peer == peer) && peer->requests >= server->limits.requests_per_session) {
    refuse_renewal(server, grant, peer, &server->stats.busy_requests);
    return;
  }
  struct tkt_waiter *fresh = NULL;
  if (!waiter) {
    fresh = tkt_waiter_new(server, peer, grant->owner, lease_s, 1, false);
    if (!fresh) {
      refuse_renewal(server, grant, peer, &server->stats.busy_memory);
      return;
    }
    fresh->seats[0].lock = grant->holds[0].lock;
    fresh->grant = grant;
    waiter = fresh;
    if (server->now + tkt_lease_kept(lease_s) <= grant->until) {
      grant->replies++;
      answer_granted(server, waiter);
      return;
    }
  }
  if (fresh || lease_s > grant->lease_s) {
    if (waiter->staged) {
      tkt_commit_raise(server, waiter->entry, lease_s);
    } else if (grant->changes < CHANGES_MAX &&
               tkt_commit_stage(server, TKT_CHANGE_EXTEND, grant, lease_s, &waiter->entry)) {
      waiter->staged = true;
      grant->changes++;
    } else {
      if (fresh) tkt_waiter_discard(server, fresh);
      refuse_renewal(server, grant, peer, &server->stats.busy_memory);
      return;
    }
    grant->lease_s = lease_s;
  }
  if (fresh) {
    grant->waiter = fresh;
    grant->replies++;
  }
  /* The session it was on may have waited for this answer alone. */
  struct tkt_peer *before = fresh ? NULL : waiter->peer;
  tkt_waiter_enlist(server, waiter, peer, TKT_WAITER_COMMITTING);
  if (before) tkt_peer_progress(server, before);
}

void tkt_grant_decided(struct tkt_server *server, struct tkt_grant *grant,
                       enum tkt_change_kind kind, uint8_t lease_s, enum tkt_commit result) {
  struct tkt_waiter *waiter = grant->waiter;
  grant->changes--;
  if (grant->state == TKT_GRANT_VOID) {
    tkt_grant_settle_void(server, grant);
    return;
  }
  if (kind == TKT_CHANGE_GRANT && result == TKT_COMMIT_FAILED) {
    if (waiter->staged) { /* an extension of what never was */
      tkt_commit_unstage(server, waiter->entry);
      grant->changes--;
    }
    answer(server, waiter, result);
    tkt_grant_leave(server, grant);
    return;
  }
  if (result != TKT_COMMIT_FAILED) {
    int64_t until = server->now + tkt_lease_kept(lease_s);
    if (until > grant->until) grant->until = until;
    grant->state = TKT_GRANT_HELD;
    if (kind == TKT_CHANGE_GRANT && result == TKT_COMMIT_DONE) server->stats.grants++;
    if (kind == TKT_CHANGE_GRANT) grant->uncertain = result == TKT_COMMIT_UNKNOWN;
    if (result == TKT_COMMIT_DONE) grant->uncertain = false;
  }
  if (grant->changes > 0) return;
  answer(server, waiter, result);
  tkt_grant_arm(server, grant);
}

void tkt_grant_arm(struct tkt_server *server, struct tkt_grant *grant) {
  if (grant->removal == TKT_REMOVAL_NONE)
    tkt_wheel_set(&server->wheel, &grant->lease, grant->until);
}

void tkt_grant_lapse(struct tkt_server *server, struct tkt_grant *grant) {
  if (grant->changes > 0) return; /* an extension is in commit, its decision sets the timer */
  if (!tkt_release_begin(server, grant, true))
    tkt_wheel_set(&server->wheel, &grant->lease, server->now + EXPIRY_RETRY_NS);
}

void tkt_grant_forget(struct tkt_server *server, struct tkt_waiter *waiter) {
  struct tkt_grant *grant = waiter->grant;
  tkt_waiter_discard(server, waiter);
  grant->replies--;
  if (grant->state == TKT_GRANT_VOID) {
    tkt_grant_settle_void(server, grant);
  } else if (grant->state == TKT_GRANT_HELD && grant->replies == 0 && !grant->told &&
             !grant->uncertain && grant->removal == TKT_REMOVAL_NONE &&
             tkt_release_begin(server, grant, false)) {
    server->stats.taken_back++;
  }
}

void tkt_grant_leave(struct tkt_server *server, struct tkt_grant *grant) {
  server->stats.keys_held -= grant->key_count;
  grant->state = TKT_GRANT_VOID;
  if (grant->key_count > 1) remove_set(server, grant);
  for (size_t i = 0; i < grant->key_count; i++) {
    struct tkt_lock *lock = grant->holds[i].lock;
    tkt_lock_vacate(lock, grant);
    tkt_lock_look(server, lock);
  }
  tkt_grant_settle_void(server, grant);
}

void tkt_grant_settle_void(struct tkt_server *server, struct tkt_grant *grant) {
  if (grant->changes > 0 || grant->replies > 0) return;
  tkt_pool_give(pool_for(server, grant->key_count), grant);
}
