#include "server/requests.h"

#include "server/grant.h"
#include "server/in_flight.h"
#include "server/lock_table.h"
#include "server/peer.h"
#include "server/release.h"
#include "server/replies.h"
#include "server/tokens.h"
#include "server/waiter.h"

enum { LEASE_MAX_S = 250, WAIT_MAX_S = 255 };

/* What cannot be read as a request ends the session on either wire. */
static void protocol_error(struct tkt_server *server, struct tkt_peer *peer,
                           enum tkt_wire_error error) {
  server->stats.protocol_errors++;
  tkt_peer_end(server, peer, error);
}

/* A request that asks for what cannot be: wire 3 answers it, wire 2 has no word for that. */
static void reject(struct tkt_server *server, struct tkt_peer *peer, const struct tkt_msg *msg,
                   enum tkt_wire_error error) {
  if (!tkt_peer_is_framed(peer)) {
    protocol_error(server, peer, error);
    return;
  }
  server->stats.protocol_errors++;
  tkt_say_error_to(server, peer, msg->id, error);
}

static void refuse(struct tkt_server *server, struct tkt_peer *peer, const struct tkt_msg *msg,
                   enum tkt_msg_kind kind, uint64_t *counter) {
  ++*counter;
  tkt_say_refusal(server, peer, kind, msg->id, msg->keys, msg->key_count);
}

/* The keys asked for: their records, where there are some. */
struct wanted {
  struct tkt_lock *locks[TKT_KEY_SET_MAX];
  uint64_t hashes[TKT_KEY_SET_MAX];
};

/* Looks the keys up; UNKNOWN where nothing is wrong with them. Those that have a record are valid.
 */
static enum tkt_wire_error look_up(const struct tkt_server *server, const struct tkt_msg *msg,
                                   struct wanted *wanted) {
  if (msg->key_count == 0) return TKT_WIRE_ERROR_BAD_KEY_SET;
  for (size_t i = 0; i < msg->key_count; i++) {
    wanted->hashes[i] = tkt_lock_hash(server, msg->keys[i]);
    wanted->locks[i] = tkt_lock_find(server, msg->keys[i], wanted->hashes[i]);
    if (!wanted->locks[i] && tkt_key_check(msg->keys[i]) != TKT_KEY_OK)
      return TKT_WIRE_ERROR_BAD_KEY;
  }
  for (size_t i = 1; i < msg->key_count; i++)
    if (tkt_span_compare(msg->keys[i - 1], msg->keys[i]) >= 0) return TKT_WIRE_ERROR_BAD_KEY_SET;
  return TKT_WIRE_ERROR_UNKNOWN;
}

/* Makes the records that are missing. Returns the counter to blame where that cannot be, with
 * nothing left behind. */
static uint64_t *make_locks(struct tkt_server *server, const struct tkt_msg *msg,
                            struct wanted *wanted) {
  for (size_t i = 0; i < msg->key_count; i++) {
    if (wanted->locks[i]) continue;
    bool room = server->locks.count < server->limits.keys;
    if (room) wanted->locks[i] = tkt_lock_new(server, msg->keys[i], wanted->hashes[i]);
    if (wanted->locks[i]) continue;
    while (i-- > 0)
      tkt_lock_look(server, wanted->locks[i]);
    return room ? &server->stats.busy_memory : &server->stats.busy_keys;
  }
  return NULL;
}

/* Where the wait would be too long a queue: the counter to blame, or NULL. */
static uint64_t *queue_limit(struct tkt_server *server, const struct wanted *wanted, size_t count) {
  if (server->stats.waiters >= server->limits.waiters) return &server->stats.busy_waiters;
  for (size_t i = 0; i < count; i++)
    if (wanted->locks[i]->waiting >= server->limits.waiters_per_key)
      return &server->stats.busy_waiters_per_key;
  return NULL;
}

/* An acquire that is not a repetition of an earlier one. */
static void acquire_anew(struct tkt_server *server, struct tkt_peer *peer,
                         const struct tkt_msg *msg, struct wanted *wanted, uint8_t wait_s) {
  size_t count = msg->key_count;
  uint64_t *blame = make_locks(server, msg, wanted);
  if (blame) {
    refuse(server, peer, msg, TKT_MSG_BUSY, blame);
    return;
  }
  bool at_once = true;
  for (size_t i = 0; i < count; i++)
    at_once = at_once && !wanted->locks[i]->first && tkt_lock_is_free(wanted->locks[i]);
  enum tkt_msg_kind kind = TKT_MSG_BUSY;
  struct tkt_waiter *waiter = NULL;
  if (!at_once && wait_s == 0) {
    kind = TKT_MSG_TIMED_OUT;
    blame = &server->stats.timeouts;
  } else if (!at_once) {
    blame = queue_limit(server, wanted, count);
  }
  if (!blame) {
    waiter = tkt_waiter_new(server, peer, msg->id, (uint8_t)msg->lease_s, count, msg->set);
    if (waiter)
      for (size_t i = 0; i < count; i++)
        waiter->seats[i].lock = wanted->locks[i];
    if (waiter &&
        (at_once ? tkt_grant_begin(server, waiter) : tkt_waiter_queue(server, waiter, wait_s)))
      return;
    blame = &server->stats.busy_memory;
  }
  if (waiter) tkt_waiter_discard(server, waiter);
  for (size_t i = 0; i < count; i++)
    tkt_lock_look(server, wanted->locks[i]);
  refuse(server, peer, msg, kind, blame);
}

/* The same owner names the same acquisition, wherever it has got to (wire 2). */
static bool acquire_again(struct tkt_server *server, struct tkt_peer *peer,
                          const struct tkt_msg *msg, struct tkt_lock *lock, uint8_t wait_s) {
  if (!lock || msg->id == 0 || tkt_peer_is_framed(peer)) return false;
  struct tkt_grant *grant = tkt_grant_of_owner(lock, msg->id);
  if (grant) {
    tkt_grant_renew(server, grant, peer, (uint8_t)msg->lease_s);
    return true;
  }
  struct tkt_waiter *waiter = lock->first ? tkt_waiter_of_owner(server, lock, msg->id) : NULL;
  if (waiter) tkt_waiter_move(server, waiter, peer, wait_s, (uint8_t)msg->lease_s);
  return waiter != NULL;
}

static void acquire(struct tkt_server *server, struct tkt_peer *peer, const struct tkt_msg *msg) {
  if (msg->lease_s == 0 || msg->lease_s > LEASE_MAX_S) {
    reject(server, peer, msg, TKT_WIRE_ERROR_BAD_LEASE);
    return;
  }
  struct wanted wanted;
  enum tkt_wire_error error = look_up(server, msg, &wanted);
  if (error != TKT_WIRE_ERROR_UNKNOWN) {
    reject(server, peer, msg, error);
    return;
  }
  uint8_t wait_s = (uint8_t)(msg->wait_s < WAIT_MAX_S ? msg->wait_s : WAIT_MAX_S);
  if (acquire_again(server, peer, msg, wanted.locks[0], wait_s)) return;
  if (peer->requests >= server->limits.requests_per_session) {
    refuse(server, peer, msg, TKT_MSG_BUSY, &server->stats.busy_requests);
  } else {
    acquire_anew(server, peer, msg, &wanted, wait_s);
  }
}

static void release(struct tkt_server *server, struct tkt_peer *peer, const struct tkt_msg *msg) {
  struct wanted wanted;
  enum tkt_wire_error error = look_up(server, msg, &wanted);
  if (error == TKT_WIRE_ERROR_UNKNOWN && msg->token == 0 && tkt_peer_is_framed(peer))
    error = TKT_WIRE_ERROR_BAD_TOKEN;
  if (error == TKT_WIRE_ERROR_UNKNOWN) {
    tkt_release_request(server, peer, wanted.locks, msg);
  } else {
    reject(server, peer, msg, error);
  }
}

static void prove(struct tkt_server *server, struct tkt_peer *peer, const struct tkt_msg *msg) {
  struct tkt_span nonce = tkt_span(peer->nonce, peer->nonce_len);
  switch (tkt_tokens_judge(server->tokens, peer->parser.wire->version, nonce, msg->text)) {
  case TKT_VERDICT_ACCEPTED:
    tkt_peer_open(server, peer);
    break;
  case TKT_VERDICT_REFUSED:
    tkt_peer_refuse(server, peer);
    break;
  case TKT_VERDICT_NONE:
    tkt_peer_abort(server, peer);
    break;
  }
}

void tkt_request_apply(struct tkt_server *server, struct tkt_peer *peer,
                       const struct tkt_msg *msg) {
  if (peer->state == TKT_PEER_HANDSHAKE) {
    prove(server, peer, msg);
  } else if (tkt_peer_is_framed(peer) && !tkt_in_flight_admits(server, peer, msg->id)) {
    protocol_error(server, peer, TKT_WIRE_ERROR_UNKNOWN);
  } else if (msg->kind == TKT_MSG_ACQUIRE) {
    acquire(server, peer, msg);
  } else {
    release(server, peer, msg);
  }
}

void tkt_request_fault(struct tkt_server *server, struct tkt_peer *peer, enum tkt_decode fault) {
  if (peer->state == TKT_PEER_HANDSHAKE) {
    tkt_peer_refuse(server, peer);
  } else if (fault == TKT_DECODE_TOO_LONG) {
    protocol_error(server, peer, TKT_WIRE_ERROR_TOO_LONG);
  } else if (fault == TKT_DECODE_UNKNOWN) {
    protocol_error(server, peer, TKT_WIRE_ERROR_BAD_OP);
  } else {
    protocol_error(server, peer, TKT_WIRE_ERROR_BAD_KEY);
  }
}
