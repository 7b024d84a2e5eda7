/* A connected byte stream behind a table of operations: plain TCP, or another transport's table.
 *
 * Non-blocking throughout. Every descriptor is CLOEXEC, writes raise no SIGPIPE, Nagle is off. */
#ifndef TKT_NET_STREAM_H
#define TKT_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A peer that vanished without a word is noticed within 30 s: idle by keep-alive probes, with
 * unsent or unacknowledged data by the user timeout. */
enum {
  TKT_TCP_KEEP_IDLE_S = 10,
  TKT_TCP_KEEP_INTERVAL_S = 5,
  TKT_TCP_KEEP_PROBES = 3,
  TKT_TCP_USER_TIMEOUT_MS = 25000,
};

struct tkt_stream;

enum { TKT_STREAM_AGAIN = -1, TKT_STREAM_EOF = -2, TKT_STREAM_BROKEN = -3 };

struct tkt_stream_ops {
  /* Carries the connection on (TCP connect, later the TLS handshake). 0: ready for bytes; AGAIN:
   * poll for `interest` and call again; BROKEN: see `reason`. Where a host has several addresses it
   * may go over to the next one, on a new descriptor: see `replaced_fd`. */
  int (*establish)(struct tkt_stream *stream);
  /* Bytes read (>0), AGAIN, EOF or BROKEN. */
  ssize_t (*read)(struct tkt_stream *stream, uint8_t *into, size_t room);
  /* Bytes taken (>0; may be fewer), AGAIN or BROKEN. */
  ssize_t (*write)(struct tkt_stream *stream, const uint8_t *from, size_t len);
  /* Shuts the write side; reading goes on. False: the socket is full (TLS says goodbye in bytes),
   * call again once it takes some. */
  bool (*shut_write)(struct tkt_stream *stream);
  void (*destroy)(struct tkt_stream *stream);
};

struct tkt_stream {
  const struct tkt_stream_ops *ops;
  int fd;
  /* True where all bytes of a write count as handed over even if the write took none (TLS). */
  bool hands_over_whole;
  unsigned interest; /* TKT_POLL_*: what establish waits for */
  /* After establish, and after a read that returned bytes: read at once, there is more (bytes, or
   * the end) that lies inside the stream, where no poller sees it. */
  bool unread;
  /* The descriptor before the one establish has just gone over to, still open; -1: none. Take it
   * out of the poller, close it, set -1, and register `fd`. Not closed inside: a child after fork()
   * may share it, and then closing alone would leave it in the epoll set. */
  int replaced_fd;
  const char *reason; /* why it is BROKEN, static text; NULL before */
};

struct tkt_address;

/* Starts a connection to a numeric address, or to `localhost`: ::1 and 127.0.0.1 in turn, since a
 * server may listen on one of them only. NULL with a static sentence in *reason_out. */
struct tkt_stream *tkt_tcp_connect(const struct tkt_address *address, const char **reason_out);

struct tkt_resolver;

/* What connections to hosts with names need. */
struct tkt_dialer {
  struct tkt_resolver *resolver;
  /* Told of each descriptor of an attempt right after it was opened and right before it is closed;
   * that of the stream is among them until establish goes over to it. NULL: nobody wants to know.
   * A child after fork() has to close them all, and cannot ask. */
  void (*opened)(void *context, int fd);
  void (*closing)(void *context, int fd);
  void *context;
};

/* Starts a connection to any host: numeric ones and `localhost` as above, a name as race.h says.
 * NULL with a static sentence in *reason_out. */
struct tkt_stream *tkt_dial(const struct tkt_address *address, const struct tkt_dialer *dialer,
                            const char **reason_out);

/* Wraps an accepted descriptor (made non-blocking, CLOEXEC, NODELAY). NULL: out of memory, fd
 * still the caller's. */
struct tkt_stream *tkt_tcp_accepted(int fd);

static inline void tkt_stream_destroy(struct tkt_stream *stream) {
  if (stream) stream->ops->destroy(stream);
}

#endif
