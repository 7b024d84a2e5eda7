#include "base/address.h"
#include "net/connect.h"
#include "net/poller.h"
#include "net/race.h"
#include "net/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct tcp {
  struct tkt_stream stream;
  bool connected;
  struct tkt_race *race; /* while a name is looked up and its addresses are tried */
  size_t next;           /* endpoint to try after the present one fails */
  size_t count;
  struct tkt_endpoint endpoints[TKT_ENDPOINTS_MAX];
};

static struct tcp *tcp_of(struct tkt_stream *stream) {
  return (struct tcp *)(void *)stream;
}

static ssize_t broken(struct tkt_stream *stream, int error) {
  stream->reason = tkt_connect_fault(error);
  return TKT_STREAM_BROKEN;
}

/* A descriptor on its way to the next endpoint that does not fail at once, or -errno of the last
 * that did. */
static int start_next(struct tcp *tcp) {
  int fd = -ECONNREFUSED;
  while (tcp->next < tcp->count) {
    fd = tkt_connect_start(&tcp->endpoints[tcp->next++]);
    if (fd >= 0) break;
  }
  return fd;
}

static int go_over(struct tkt_stream *stream, int fd) {
  stream->replaced_fd = stream->fd;
  stream->fd = fd;
  return fd;
}

static int step_race(struct tcp *tcp) {
  struct tkt_stream *stream = &tcp->stream;
  int rc = tkt_race_step(tcp->race, &stream->reason);
  if (rc < 0) return rc;
  tkt_race_free(tcp->race, false);
  tcp->race = NULL;
  go_over(stream, rc);
  tcp->connected = true;
  return 0;
}

static int tcp_establish(struct tkt_stream *stream) {
  struct tcp *tcp = tcp_of(stream);
  if (tcp->connected) return 0;
  if (tcp->race) return step_race(tcp);
  int rc = tkt_connect_check(stream->fd);
  tcp->connected = rc == 0;
  if (rc == 0) return 0;
  if (rc == -EINPROGRESS) return TKT_STREAM_AGAIN;
  int fd = start_next(tcp);
  if (fd < 0) return (int)broken(stream, -rc);
  go_over(stream, fd);
  return TKT_STREAM_AGAIN;
}

static ssize_t tcp_read(struct tkt_stream *stream, uint8_t *into, size_t room) {
  for (;;) {
    ssize_t n = recv(stream->fd, into, room, 0);
    if (n > 0) return n;
    if (n == 0) return TKT_STREAM_EOF;
    if (errno == EAGAIN) return TKT_STREAM_AGAIN;
    if (errno != EINTR) return broken(stream, errno);
  }
}

static ssize_t tcp_write(struct tkt_stream *stream, const uint8_t *from, size_t len) {
  for (;;) {
    ssize_t n = send(stream->fd, from, len, MSG_NOSIGNAL);
    if (n >= 0) return n;
    if (errno == EAGAIN) return TKT_STREAM_AGAIN;
    if (errno != EINTR) return broken(stream, errno);
  }
}

static bool tcp_shut_write(struct tkt_stream *stream) {
  shutdown(stream->fd, SHUT_WR);
  return true;
}

static void tcp_destroy(struct tkt_stream *stream) {
  if (tcp_of(stream)->race) {
    tkt_race_free(tcp_of(stream)->race, true);
    stream->fd = -1; /* it was the set's */
  }
  if (stream->replaced_fd >= 0) close(stream->replaced_fd);
  if (stream->fd >= 0) close(stream->fd);
  free(tcp_of(stream));
}

static const struct tkt_stream_ops tcp_ops = {
    .establish = tcp_establish,
    .read = tcp_read,
    .write = tcp_write,
    .shut_write = tcp_shut_write,
    .destroy = tcp_destroy,
};

static struct tcp *tcp_new(void) {
  struct tcp *tcp = calloc(1, sizeof *tcp);
  if (!tcp) return NULL;
  tcp->stream.ops = &tcp_ops;
  tcp->stream.fd = -1;
  tcp->stream.replaced_fd = -1;
  tcp->stream.interest = TKT_POLL_WRITE;
  return tcp;
}

struct tkt_stream *tkt_tcp_connect(const struct tkt_address *address, const char **reason_out) {
  struct tcp *tcp = tcp_new();
  if (!tcp) {
    *reason_out = tkt_connect_fault(ENOMEM);
    return NULL;
  }
  tcp->count = tkt_endpoints(address, tcp->endpoints);
  int fd = tcp->count ? start_next(tcp) : -EINVAL;
  if (fd < 0) {
    *reason_out = tcp->count ? tkt_connect_fault(-fd) : tkt_endpoint_unknown;
    free(tcp);
    return NULL;
  }
  tcp->stream.fd = fd;
  return &tcp->stream;
}

struct tkt_stream *tkt_dial(const struct tkt_address *address, const struct tkt_dialer *dialer,
                            const char **reason_out) {
  struct tkt_endpoint known[TKT_ENDPOINTS_MAX];
  if (tkt_endpoints(address, known) > 0) return tkt_tcp_connect(address, reason_out);
  struct tcp *tcp = tcp_new();
  if (!tcp) {
    *reason_out = tkt_connect_fault(ENOMEM);
    return NULL;
  }
  tcp->race = tkt_race_start(address, dialer, reason_out);
  if (!tcp->race) {
    free(tcp);
    return NULL;
  }
  tcp->stream.fd = tkt_race_fd(tcp->race);
  tcp->stream.interest = TKT_POLL_READ;
  return &tcp->stream;
}

struct tkt_stream *tkt_tcp_accepted(int fd) {
  struct tcp *tcp = tcp_new();
  if (!tcp) return NULL;
  int flags = fcntl(fd, F_GETFL);
  if (flags >= 0) fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  tkt_socket_tune(fd);
  tcp->stream.fd = fd;
  tcp->connected = true;
  return &tcp->stream;
}
