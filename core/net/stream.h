/* A connected byte stream, plain TCP today, TLS behind the same table of operations.
 *
 * Non-blocking throughout. Every descriptor is CLOEXEC, writes raise no SIGPIPE, Nagle is off. */
#ifndef TKT_NET_STREAM_H
#define TKT_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tkt_stream;

enum { TKT_STREAM_AGAIN = -1, TKT_STREAM_EOF = -2, TKT_STREAM_BROKEN = -3 };

struct tkt_stream_ops {
  /* Carries the connection on (TCP connect, later the TLS handshake). 0: ready for bytes; AGAIN:
   * poll for tkt_stream_interest and call again; BROKEN: see tkt_stream_reason. */
  int (*establish)(struct tkt_stream *stream);
  /* Bytes read (>0), AGAIN, EOF or BROKEN. */
  ssize_t (*read)(struct tkt_stream *stream, uint8_t *into, size_t room);
  /* Bytes taken (>0; may be fewer), AGAIN or BROKEN. */
  ssize_t (*write)(struct tkt_stream *stream, const uint8_t *from, size_t len);
  /* Shuts the write side; reading goes on. */
  void (*shut_write)(struct tkt_stream *stream);
  void (*destroy)(struct tkt_stream *stream);
};

struct tkt_stream {
  const struct tkt_stream_ops *ops;
  int fd;
  /* True where all bytes of a write count as handed over even if the write took none (TLS). */
  bool hands_over_whole;
  char reason[128]; /* why it is BROKEN, for logs and error sentences */
};

/* Starts a connection to one numeric address (or `localhost`). NULL with *error_out = -errno. */
struct tkt_address;
struct tkt_stream *tkt_tcp_connect(const struct tkt_address *address, int *error_out);

/* Wraps an accepted descriptor (made non-blocking, CLOEXEC, NODELAY). NULL: out of memory, fd
 * still the caller's. */
struct tkt_stream *tkt_tcp_accepted(int fd);

static inline void tkt_stream_destroy(struct tkt_stream *stream) {
  if (stream) stream->ops->destroy(stream);
}

#endif
