/* Addresses as people write them, turned into those of sockets. */
#ifndef TKT_NET_ENDPOINT_H
#define TKT_NET_ENDPOINT_H

#include "base/address.h"

#include <sys/socket.h>

/* `localhost` has two. */
enum { TKT_ENDPOINTS_MAX = 2 };

struct tkt_endpoint {
  struct sockaddr_storage address;
  socklen_t len;
};

/* The endpoints of a numeric host or of `localhost` (::1, then 127.0.0.1), in the order to try
 * them: how many, or 0 where the host is a name that would have to be looked up. */
size_t tkt_endpoints(const struct tkt_address *address, struct tkt_endpoint out[TKT_ENDPOINTS_MAX]);

/* The sentence for a host that tkt_endpoints does not know. Static. */
extern const char tkt_endpoint_unknown[];

#endif
