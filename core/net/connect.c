#include "net/connect.h"

#include "net/stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

/* strerror is not thread-safe and its thread-safe forms need memory: the errors that sockets really
 * have, named. */
const char *tkt_connect_fault(int error) {
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

/* A socket that refuses one of these still carries bytes, so none of them is checked. */
void tkt_socket_tune(int fd) {
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

int tkt_connect_start(const struct tkt_endpoint *to) {
  int fd = socket(to->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  tkt_socket_tune(fd);
  if (connect(fd, (const struct sockaddr *)(const void *)&to->address, to->len) == 0 ||
      errno == EINPROGRESS || errno == EINTR)
    return fd;
  int error = errno;
  close(fd);
  return -error;
}

int tkt_connect_check(int fd) {
  int error = 0;
  socklen_t len = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) error = errno;
  if (error != 0) return -error;
  struct sockaddr_storage peer;
  len = sizeof peer;
  if (getpeername(fd, (struct sockaddr *)(void *)&peer, &len) == 0) return 0;
  return errno == ENOTCONN ? -EINPROGRESS : -errno;
}
