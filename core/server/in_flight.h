/* Ids of wire 3 requests in flight: a session that repeats one is closed.
 *
 * While the ids of a session only grow, as those of every known client do, a new one cannot be in
 * flight, and nothing is kept but the greatest. From the first that does not grow on, all that are
 * in flight stand in a table, so that the check costs the same whatever a client chooses. */
#ifndef TKT_SERVER_IN_FLIGHT_H
#define TKT_SERVER_IN_FLIGHT_H

#include "server/state.h"

/* False where a request of this id ends the session: the id is 0 or in flight, or there is no
 * memory to tell. */
bool tkt_in_flight_admits(struct tkt_server *server, struct tkt_peer *peer, uint64_t id);

/* For sessions whose ids are listed: lists a request that is about to wait. False: out of memory.
 */
bool tkt_in_flight_add(struct tkt_server *server, struct tkt_waiter *waiter);
bool tkt_in_flight_add_release(struct tkt_server *server, struct tkt_release *release);

/* Its request is answered. Only for those that are listed. */
void tkt_in_flight_remove(struct tkt_server *server, struct tkt_waiter *waiter);
void tkt_in_flight_remove_release(struct tkt_server *server, struct tkt_release *release);

#endif
