/* One accepted connection: a stream on one side, a session of the engine on the other.
 *
 *   handshake TLS only: waits for bytes in the poller, or for its turn on the loop's list
 *   open      bytes go both ways
 *   eof       the peer shut its side: nothing more is read
 *   shut      our side is shut after the last reply; what still comes is read and thrown away until
 *             the peer ends or the engine's patience does. Closing with unread bytes would make the
 *             kernel send a reset, and a reset makes the peer's kernel throw the last reply away.
 *   dead      the connection broke; the engine is told and asks for the close
 *
 * Freed only while the loop sends, never while it hands out events. */
#ifndef TKT_DAEMON_CONNECTION_H
#define TKT_DAEMON_CONNECTION_H

#include "daemon/loop.h"
#include "net/stream.h"

struct tkt_connection {
  struct tkt_source source;
  struct tkt_list node;     /* loop->connections */
  struct tkt_list writable; /* loop->writable, or before that loop->handshakes */
  struct tkt_stream *stream;
  struct tkt_peer *peer;
  unsigned interest; /* as the poller knows it */
  bool handshake;
  bool eof, shut, dead;
  bool goodbye_due; /* shut, and the socket was too full for what TLS says then */
  bool blocked;     /* the socket takes no bytes now */
};

/* Makes the accepted descriptor a connection and a session; owns `fd` from here on. False: closed
 * again, by a limit of the engine or for want of memory. */
bool tkt_connection_open(struct tkt_loop *loop, int fd, const struct tkt_listen_spec *spec,
                         int64_t now);

/* One step of its TLS handshake; it was taken off loop->handshakes. */
void tkt_connection_shake_hands(struct tkt_loop *loop, struct tkt_connection *connection,
                                int64_t now);

/* Sends, shuts and closes as the engine wants; `connection` may be gone afterwards. */
void tkt_connection_settle(struct tkt_loop *loop, struct tkt_connection *connection, int64_t now);

/* Closes and frees without a word, the session included. */
void tkt_connection_close(struct tkt_loop *loop, struct tkt_connection *connection, int64_t now);

#endif
