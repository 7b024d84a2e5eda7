/* A listening TCP socket. */
#ifndef TKT_NET_LISTENER_H
#define TKT_NET_LISTENER_H

#include "base/address.h"

/* Binds and listens on a numeric address or `localhost`; port 0 takes a free one. Returns the
 * descriptor (non-blocking, CLOEXEC, SO_REUSEADDR) or -errno; *port_out is the real port. */
int tkt_listen(const struct tkt_address *address, uint16_t *port_out);

/* Accepts one connection (non-blocking, CLOEXEC): descriptor or -errno (-EAGAIN: none waits). `peer`
 * (at least 64 bytes, or NULL) receives "ip:port". */
int tkt_accept(int listener_fd, char *peer, unsigned peer_size);

#endif
