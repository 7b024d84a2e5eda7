/* Host names, looked up by the system's rules (hosts file, DNS, whatever nsswitch names), off the
 * I/O path.
 *
 * getaddrinfo knows those rules, cannot be interrupted and may take half a minute. So each look-up
 * is a detached thread of its own that lives no longer and lets no signal in. Whoever gives a
 * look-up up waits for nothing: the thread clears away what is left. A resolver bounds how many run
 * at once. In a forked child the thread does not exist, and nobody waits for it there either. */
#ifndef TKT_NET_RESOLVER_H
#define TKT_NET_RESOLVER_H

#include "net/endpoint.h"

enum {
  /* Of one resolver: those given up count until their thread ends. */
  TKT_LOOKUPS_MAX = 16,
  /* Addresses of a name that are tried; what a name has beyond is left alone. */
  TKT_LOOKUP_ENDPOINTS_MAX = 8,
};

struct tkt_resolver;
struct tkt_lookup;

/* NULL: out of memory. Any thread may use it. */
struct tkt_resolver *tkt_resolver_new(void);
/* Look-ups under way go on to their end. NULL is ignored. */
void tkt_resolver_free(struct tkt_resolver *resolver);

/* Begins to look `host` up. NULL with a static sentence in *reason_out. */
struct tkt_lookup *tkt_lookup_start(struct tkt_resolver *resolver, const char *host, uint16_t port,
                                    const char **reason_out);

/* Readable once the result is there; the look-up's own. */
int tkt_lookup_fd(const struct tkt_lookup *lookup);

/* The endpoints found, in the order to try them: the system's, with the families taking turns.
 * Returns how many, 0 where the name has none (*reason_out: a static sentence), -1: not yet. */
int tkt_lookup_result(struct tkt_lookup *lookup, struct tkt_endpoint out[TKT_LOOKUP_ENDPOINTS_MAX],
                      const char **reason_out);

/* Gives it back, finished or not. Never waits. */
void tkt_lookup_drop(struct tkt_lookup *lookup);

#endif
