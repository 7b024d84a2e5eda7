#include "base/address.h"
#include "net/endpoint.h"
#include "net/poller.h"
#include "net/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct tcp {
  struct tkt_stream stream;
  bool connected;
  size_t next; /* endpoint to try after the present one fails */
  size_t count;
  struct tkt_endpoint endpoints[TKT_ENDPOINTS_MAX];
};

static struct tcp *tcp_of(struct tkt_stream *stream) {
  return (struct tcp *)(void *)stream;
}

/* strerror is not thread-safe and its thread-safe forms need memory: the errors that sockets really
 * have, named. */
static const char *reason_of(int error) {
  switch (error) {
  case ECONNREFUSED:
    return "connection refused";
  case ECONNRESET:
    return "connection reset by the peer";
  case EPIPE:
    return "connection closed by the peer";
  case ETIMEDOUT:
    return "connection timed out";
  case EHOSTUNREACH:
    return "no route to the host";
  case ENETUNREACH:
    return "network unreachable";
  case EADDRNOTAVAIL:
    return "address not available on this machine";
  case EAFNOSUPPORT:
    return "address family not supported on this machine";
  case EACCES:
  case EPERM:
    return "connection forbidden by the system";
  case EMFILE:
  case ENFILE:
    return "no file descriptor left";
  case ENOBUFS:
  case ENOMEM:
    return "out of memory in the system";
  default:
    return "connection failed";
  }
}

static ssize_t broken(struct tkt_stream *stream, int error) {
  stream->reason = reason_of(error);
  return TKT_STREAM_BROKEN;
}

/* A socket that refuses one of these still carries bytes, so none of them is checked. */
static void tune(int fd) {
  const struct {
    int level, name, value;
  } settings[] = {
      {IPPROTO_TCP, TCP_NODELAY, 1},
      {SOL_SOCKET, SO_KEEPALIVE, 1},
      {IPPROTO_TCP, TCP_KEEPIDLE, TKT_TCP_KEEP_IDLE_S},
      {IPPROTO_TCP, TCP_KEEPINTVL, TKT_TCP_KEEP_INTERVAL_S},
      {IPPROTO_TCP, TCP_KEEPCNT, TKT_TCP_KEEP_PROBES},
      {IPPROTO_TCP, TCP_USER_TIMEOUT, TKT_TCP_USER_TIMEOUT_MS},
  };
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
    setsockopt(fd, settings[i].level, settings[i].name, &settings[i].value,
               sizeof settings[i].value);
}

/* A descriptor on its way to the next endpoint that does not fail at once, or -errno of the last
 * that did. */
static int start_next(struct tcp *tcp) {
  int error = ECONNREFUSED;
  while (tcp->next < tcp->count) {
    const struct tkt_endpoint *to = &tcp->endpoints[tcp->next++];
    int fd = socket(to->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      error = errno;
      continue;
    }
    tune(fd);
    if (connect(fd, (const struct sockaddr *)(const void *)&to->address, to->len) == 0 ||
        errno == EINPROGRESS || errno == EINTR)
      return fd;
    error = errno;
    close(fd);
  }
  return -error;
}

static int tcp_establish(struct tkt_stream *stream) {
  struct tcp *tcp = tcp_of(stream);
  if (tcp->connected) return 0;
  int error = 0;
  socklen_t len = sizeof error;
  if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) error = errno;
  if (error == 0) {
    struct sockaddr_storage peer;
    len = sizeof peer;
    if (getpeername(stream->fd, (struct sockaddr *)(void *)&peer, &len) == 0) {
      tcp->connected = true;
      return 0;
    }
    if (errno == ENOTCONN) return TKT_STREAM_AGAIN;
    error = errno;
  }
  int fd = start_next(tcp);
  if (fd < 0) return (int)broken(stream, error);
  stream->replaced_fd = stream->fd;
  stream->fd = fd;
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
    *reason_out = reason_of(ENOMEM);
    return NULL;
  }
  tcp->count = tkt_endpoints(address, tcp->endpoints);
  int fd = tcp->count ? start_next(tcp) : -EINVAL;
  if (fd < 0) {
    *reason_out = tcp->count ? reason_of(-fd) : tkt_endpoint_unknown;
    free(tcp);
    return NULL;
  }
  tcp->stream.fd = fd;
  return &tcp->stream;
}

struct tkt_stream *tkt_tcp_accepted(int fd) {
  struct tcp *tcp = tcp_new();
  if (!tcp) return NULL;
  int flags = fcntl(fd, F_GETFL);
  if (flags >= 0) fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  tune(fd);
  tcp->stream.fd = fd;
  tcp->connected = true;
  return &tcp->stream;
}
