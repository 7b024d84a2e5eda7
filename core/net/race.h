/* A connection to a host that has a name: the name is looked up, then its addresses are tried, each
 * 250 ms after the one before or at once where that failed, without giving the earlier ones up; the
 * first that connects wins (as RFC 8305 has it). So a dead address costs 250 ms and no timeout.
 *
 * All of it stands behind one pollable descriptor: an epoll set with the sockets, the look-up and a
 * timer. One thread at a time. */
#ifndef TKT_NET_RACE_H
#define TKT_NET_RACE_H

#include "net/stream.h"

struct tkt_race;

/* NULL with a static sentence in *reason_out. `dialer` is copied; it must name a resolver. */
struct tkt_race *tkt_race_start(const struct tkt_address *address, const struct tkt_dialer *dialer,
                                const char **reason_out);

/* Readable while a step can do something. */
int tkt_race_fd(const struct tkt_race *race);

/* Does what is due. A connected descriptor (the caller's from now on), TKT_STREAM_AGAIN, or
 * TKT_STREAM_BROKEN with a static sentence in *reason_out. */
int tkt_race_step(struct tkt_race *race, const char **reason_out);

/* Ends it; all descriptors but the winner's are closed, that of tkt_race_fd only with `with_set`.
 */
void tkt_race_free(struct tkt_race *race, bool with_set);

#endif
