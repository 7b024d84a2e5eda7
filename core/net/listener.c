#include "net/listener.h"

#include "net/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static uint16_t port_of(const struct sockaddr_storage *a) {
  return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)(const void *)a)->sin6_port
                                        : ((const struct sockaddr_in *)(const void *)a)->sin_port);
}

static int listen_on(const struct tkt_endpoint *at, uint16_t *port_out) {
  int fd = socket(at->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  int one = 1;
  struct sockaddr_storage real;
  socklen_t len = sizeof real;
  /* Without it a restart would wait for the last server's connections to leave TIME_WAIT. */
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
      bind(fd, (const struct sockaddr *)(const void *)&at->address, at->len) != 0 ||
      listen(fd, TKT_LISTEN_BACKLOG) != 0 ||
      getsockname(fd, (struct sockaddr *)(void *)&real, &len) != 0) {
    int error = errno;
    close(fd);
    return -error;
  }
  *port_out = port_of(&real);
  return fd;
}

int tkt_listen(const struct tkt_address *address, uint16_t *port_out) {
  struct tkt_endpoint at[TKT_ENDPOINTS_MAX];
  size_t count = tkt_endpoints(address, at);
  if (count == 0) return -EADDRNOTAVAIL;
  return listen_on(&at[count - 1], port_out);
}

static void describe(const struct sockaddr_storage *a, char *out, unsigned size) {
  char host[INET6_ADDRSTRLEN] = "?";
  if (a->ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, host,
              sizeof host);
    snprintf(out, size, "[%s]:%u", host, (unsigned)port_of(a));
  } else {
    inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)a)->sin_addr, host, sizeof host);
    snprintf(out, size, "%s:%u", host, (unsigned)port_of(a));
  }
}

int tkt_accept(int listener_fd, char *peer, unsigned peer_size) {
  struct sockaddr_storage from = {0};
  socklen_t len = sizeof from;
  int fd =
      accept4(listener_fd, (struct sockaddr *)(void *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return -errno;
  if (peer && peer_size > 0) describe(&from, peer, peer_size);
  return fd;
}
