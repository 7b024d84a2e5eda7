/* The server engine: the lock table, its queues, leases and sessions, as a state machine without
 * sockets, threads, clocks or files.
 *
 * The daemon owns connections and time. One turn:
 *
 *   1. tkt_server_accept for each new connection
 *   2. tkt_session bytes: tkt_server_input for what every readable socket had, then
 *      tkt_server_eof / tkt_server_gone for those that ended
 *   3. tkt_server_turn(now): timers, grants, one batch to the storage. `now` is read after the last
 *      byte was received, since leases start there
 *   4. while ((s = tkt_server_next_dirty(server)))  one send of its output; shut, close as it wants
 *   5. sleep until tkt_server_next_deadline
 *
 * Replies leave in step 4 only, so that a release and the grant it makes possible travel in the
 * same turn and each session is written once. Not thread-safe. `now` (ns, a clock that counts
 * suspend) never goes back. */
#ifndef TKT_SERVER_SERVER_H
#define TKT_SERVER_SERVER_H

#include "base/bytes.h"
#include "base/hash.h"
#include "server/storage.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct tkt_server;
struct tkt_peer; /* one session, seen from the server */

struct tkt_server_limits {
  uint32_t keys;    /* held or queued for */
  uint32_t waiters; /* in all */
  uint32_t waiters_per_key;
  uint32_t sessions;        /* in all; above: closed at accept */
  uint32_t unauthenticated; /* sessions that have not proved themselves, delayed ones included */
  uint32_t requests_per_session; /* acquires queued or in commit of one session; above: B */
  uint32_t output_bytes;         /* unsent replies of one session; above: a slow reader, closed */
  int64_t handshake_ns;          /* from accept to an accepted proof */
  /* On wire 3 a T leaves that long before its wait ends, at most half the wait: clients of that
   * wire give up at the end of the wait itself, and would win against a T sent then. */
  int64_t wait_margin_ns;
};
extern const struct tkt_server_limits tkt_server_limits_default;

struct tkt_client_token {
  const char *label; /* for logs and counters; never the secret */
  struct tkt_span secret;
};

struct tkt_server_config {
  struct tkt_server_limits limits;
  const struct tkt_client_token *tokens; /* copied; none: any well-formed proof is accepted */
  size_t token_count;
  uint64_t first_token; /* the first grant gets this one or a greater one */
  struct tkt_hash_secret hash_secret;
  struct tkt_storage *storage;
  /* Unpredictable bytes for nonces; false where they are not to be had (the session is closed). */
  bool (*nonce)(void *context, uint8_t *out, size_t len);
  void *nonce_context;
};

/* NULL: out of memory. */
struct tkt_server *tkt_server_new(const struct tkt_server_config *config, int64_t now);
void tkt_server_free(struct tkt_server *server);

/* --- sessions ----------------------------------------------------------------------------------
 */

/* A new connection that speaks `wire`; its greeting is queued at once. `connection` is the
 * daemon's. NULL: over a limit (counted) or out of memory; close the connection. */
struct tkt_peer *tkt_server_accept(struct tkt_server *server, const struct tkt_wire *wire,
                                   void *connection, int64_t now);
void *tkt_peer_connection(const struct tkt_peer *peer);

/* Bytes of the peer; consumed or kept before this returns. Ignored once the session is ending. */
void tkt_server_input(struct tkt_server *server, struct tkt_peer *peer, struct tkt_span bytes,
                      int64_t now);

/* The peer sends nothing more but may still read (half-close). */
void tkt_server_eof(struct tkt_server *server, struct tkt_peer *peer, int64_t now);

/* The connection is dead both ways. The session wants CLOSE afterwards. */
void tkt_server_gone(struct tkt_server *server, struct tkt_peer *peer, int64_t now);

/* Timers due, ends of sessions, grants, the batch to the storage. */
void tkt_server_turn(struct tkt_server *server, int64_t now);

/* The storage decided `batch`, reported PENDING before. Call tkt_server_turn afterwards. */
void tkt_server_committed(struct tkt_server *server, uint64_t batch, enum tkt_commit result,
                          int64_t now);

/* Next session with something to do, NULL when none is left. */
struct tkt_peer *tkt_server_next_dirty(struct tkt_server *server);

enum tkt_peer_want {
  TKT_PEER_WRITE = 1, /* tkt_peer_output has bytes */
  TKT_PEER_SHUT = 2, /* all output written: shut the write side (may be asked again: harmless), then
                        read and discard what still comes until end of stream or TKT_PEER_CLOSE */
  TKT_PEER_CLOSE = 4, /* close the connection and call tkt_server_closed */
};
unsigned tkt_peer_wants(const struct tkt_peer *peer);

/* Bytes to send. Valid until the next call on the server. */
struct tkt_span tkt_peer_output(const struct tkt_peer *peer);

/* `n` bytes of the output were handed to the kernel. */
void tkt_server_sent(struct tkt_server *server, struct tkt_peer *peer, size_t n);

/* The first `n` bytes of the output are about to be given to something that may let them leave
 * whatever it says it took (a TLS stream): grants named in them count as told and are not taken
 * back. Before the write; tkt_server_sent follows as for any. */
void tkt_server_handed(struct tkt_server *server, struct tkt_peer *peer, size_t n);

/* The daemon closed the connection; `peer` is gone. */
void tkt_server_closed(struct tkt_server *server, struct tkt_peer *peer, int64_t now);

/* --- life ---------------------------------------------------------------------------------------
 */

/* When the next turn is due, ns; it may lie in the past (right away). TKT_NEVER: only on an event.
 */
int64_t tkt_server_next_deadline(const struct tkt_server *server);

/* Going away: no new session, queued waiters are told T (wire 3: M, with no slot), sessions end
 * once their replies left. */
void tkt_server_drain(struct tkt_server *server, int64_t now);

/* After a drain: no session is left and nothing is in commit. */
bool tkt_server_drained(const struct tkt_server *server);

/* Other client tokens from now on (sessions that are open stay); several at a time let clients
 * change over one by one. Copied. False: out of memory, the old ones stay. */
bool tkt_server_replace_tokens(struct tkt_server *server, const struct tkt_client_token *tokens,
                               size_t count);

/* --- observation --------------------------------------------------------------------------------
 */

struct tkt_server_stats {
  uint64_t sessions, sessions_unauthenticated, sessions_accepted, sessions_refused;
  uint64_t keys_held, waiters;
  uint64_t grants, releases, not_current, timeouts, expiries, withdrawn, taken_back;
  uint64_t busy_keys, busy_waiters, busy_waiters_per_key, busy_requests, busy_memory, busy_storage;
  uint64_t auth_failed, protocol_errors, slow_readers;
  uint64_t next_token;
};
struct tkt_server_stats tkt_server_stats(const struct tkt_server *server);

/* Who holds, for tests and the later admin view. */
struct tkt_holder {
  struct tkt_span key;
  uint64_t token;
  int64_t until; /* end of the lease as the server keeps it */
  bool in_commit;
};
/* Calls `visit` for each held key until it returns false. */
void tkt_server_each_holder(const struct tkt_server *server,
                            bool (*visit)(void *context, const struct tkt_holder *holder),
                            void *context);

/* How many sessions proved themselves with each client token, by label. */
void tkt_server_each_token(const struct tkt_server *server,
                           void (*visit)(void *context, const char *label, uint64_t accepted),
                           void *context);

#endif
