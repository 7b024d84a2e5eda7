/* A listening TCP socket. */
#ifndef TKT_NET_LISTENER_H
#define TKT_NET_LISTENER_H

#include "base/address.h"

/* Connections that may wait to be accepted; the kernel's own limit may be lower. */
enum { TKT_LISTEN_BACKLOG = 4096 };

/* Binds and listens on a numeric address or `localhost` (then 127.0.0.1); port 0 takes a free one.
 * Returns the descriptor (non-blocking, CLOEXEC, SO_REUSEADDR) or -errno, -EADDRNOTAVAIL for a name
 * that is none of these; *port_out is the real port. */
int tkt_listen(const struct tkt_address *address, uint16_t *port_out);

/* Accepts one connection (non-blocking, CLOEXEC): descriptor or -errno (-EAGAIN: none waits).
 * `peer` (at least 64 bytes, or NULL) receives "ip:port" or "[ip]:port". */
int tkt_accept(int listener_fd, char *peer, unsigned peer_size);

#endif
