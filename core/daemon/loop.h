/* The server's loop: one thread, one poller, the engine, and every connection.
 *
 * One turn: collect what is ready; read it all through one shared buffer (bounded per socket, so
 * that a flood of one peer does not starve the rest); let the engine decide; then one contiguous
 * send to each session that has something to hear. Batching is the whole speed: a small send costs
 * about as much as all the rest of a request.
 *
 *   tkt_loop_open -> tkt_loop_listen ... -> tkt_loop_turn until done -> tkt_loop_close
 *
 * One thread owns it. Only tkt_loop_turn may sleep. */
#ifndef TKT_DAEMON_LOOP_H
#define TKT_DAEMON_LOOP_H

#include "base/list.h"
#include "base/time.h"
#include "daemon/listen_spec.h"
#include "daemon/log.h"
#include "net/poller.h"
#include "server/server.h"

enum {
  TKT_LISTENERS_MAX = 16,
  TKT_LOOP_READ_SIZE = 64 * 1024,    /* the shared read buffer */
  TKT_LOOP_READS_PER_TURN = 4,       /* of one socket, each up to the whole buffer */
  TKT_LOOP_ACCEPTS_PER_TURN = 64,    /* of one listener */
  TKT_LOOP_HANDSHAKES_PER_TURN = 32, /* steps of TLS handshakes */
};

/* How long no connection is accepted after the system had no descriptor for one; a connection that
 * ends lets it go on at once. */
#define TKT_LOOP_ACCEPT_PAUSE_NS (100 * TKT_MS)

/* Steps of TLS handshakes end for this turn after so long, but for the first: about one signature
 * of an RSA key, several of an elliptic one. What others wait for them hardly depends on the key.
 */
#define TKT_LOOP_HANDSHAKE_NS (TKT_MS / 2)

struct tkt_loop;
struct tkt_tls;

/* Something registered with the poller. `ready` may not free a source of the same turn. */
struct tkt_source {
  void (*ready)(struct tkt_loop *loop, struct tkt_source *source, unsigned events, int64_t now);
};

struct tkt_listener {
  struct tkt_source source;
  struct tkt_listen_spec spec;
  int fd;
  uint16_t port; /* the real one */
};

struct tkt_loop {
  struct tkt_poller poller;
  struct tkt_server *server;
  struct tkt_log *log;
  struct tkt_list connections;
  struct tkt_list writable;   /* connections whose socket takes bytes again */
  struct tkt_list handshakes; /* connections whose TLS handshake can go on */
  size_t connection_count;
  struct tkt_tls *tls; /* for connections that come; NULL: no listener speaks TLS */
  uint64_t handshakes_failed;
  const char *handshake_fault; /* of the last one; static */
  struct tkt_listener listeners[TKT_LISTENERS_MAX];
  size_t listener_count;
  int64_t accept_resume; /* TKT_NEVER: accepting, or stopped for good */
  bool unsettled;        /* sessions ended while sending: decide again before sleeping */
  uint8_t *read_buffer;
};

/* `server` and `log` are borrowed. 0 or -errno with nothing left open. */
int tkt_loop_open(struct tkt_loop *loop, struct tkt_server *server, struct tkt_log *log);

/* The certificate for connections from now on; takes the reference. */
void tkt_loop_use_tls(struct tkt_loop *loop, struct tkt_tls *tls);

/* Listens on `spec`, after tkt_loop_use_tls where that speaks TLS; the result is
 * loop->listeners[loop->listener_count - 1]. 0 or -errno, -E2BIG beyond TKT_LISTENERS_MAX. */
int tkt_loop_listen(struct tkt_loop *loop, const struct tkt_listen_spec *spec);

/* Closes the listeners; connections stay. */
void tkt_loop_stop_listening(struct tkt_loop *loop);

/* One turn; sleeps at most until `wake_by` (boot clock; TKT_NEVER: none; 0: not at all) while
 * nothing is ready and nothing is due. */
void tkt_loop_turn(struct tkt_loop *loop, int64_t wake_by);

/* Closes every connection without a word and frees the rest. The engine stays. */
void tkt_loop_close(struct tkt_loop *loop);

#endif
