/* The life of a session.
 *
 *   HANDSHAKE -> OPEN -> ENDING -> LINGERING -> CLOSED
 *       '-> REFUSED -------^           (any) -----^  the connection is dead, or too slow
 *
 * ENDING begins with the withdrawal of its queued waiters, waits for what is in commit, says the
 * error if there is one, and lasts until all output was handed over. A peer that has half-closed is
 * closed then; with any other the write side is shut and what still comes is discarded for a while,
 * since closing over unread bytes would make the kernel destroy the last replies. */
#ifndef TKT_SERVER_PEER_H
#define TKT_SERVER_PEER_H

#include "server/state.h"

/* Something for the driver to do. */
static inline void tkt_peer_touch(struct tkt_server *server, struct tkt_peer *peer) {
  if (!tkt_list_linked(&peer->dirty)) tkt_list_append(&server->dirty, &peer->dirty);
}

static inline bool tkt_peer_is_broken(const struct tkt_peer *peer) {
  return tkt_list_linked(&peer->broken);
}

/* To be aborted at the next safe point: the caller may be in the middle of its lists. */
void tkt_peer_break(struct tkt_server *server, struct tkt_peer *peer);
void tkt_peers_reap(struct tkt_server *server);

/* Proved itself. */
void tkt_peer_open(struct tkt_server *server, struct tkt_peer *peer);

/* Did not prove itself: told so later, lest a client that redials at once does so all day. */
void tkt_peer_refuse(struct tkt_server *server, struct tkt_peer *peer);

/* Ends an open session: withdraws its waiters and tells them T; `error` (UNKNOWN: none) is said
 * last. Nothing happens where it is ending already. */
void tkt_peer_end(struct tkt_server *server, struct tkt_peer *peer, enum tkt_wire_error error);

/* Ends the session at once, with nothing more said. */
void tkt_peer_abort(struct tkt_server *server, struct tkt_peer *peer);

/* A reply left the commit or the output: an ending session may have come a step further. */
void tkt_peer_progress(struct tkt_server *server, struct tkt_peer *peer);

void tkt_peer_timer(struct tkt_server *server, struct tkt_peer *peer);

/* One waiter less that came from it. */
void tkt_peer_unmark(struct tkt_server *server, struct tkt_peer *peer);

/* Frees an aborted session. */
void tkt_peer_free(struct tkt_server *server, struct tkt_peer *peer);

#endif
