/* Faults planted on purpose between a host and the network; without one they only pass bytes on. */
#ifndef TKT_SIM_PLANT_H
#define TKT_SIM_PLANT_H

#include "sim.h"

#include <sys/types.h>

/* Writes a client's bytes; may keep releases from the server and answer them itself. */
ssize_t plant_request(struct sim *sim, struct sim_conn *conn, struct tkt_span out);
/* Writes the server's bytes; may change replies. */
ssize_t plant_reply(struct sim *sim, struct sim_conn *conn, struct tkt_span out);
/* Keeps bytes that arrived from the engine for a while. True: they are kept. */
bool plant_hold_back(struct sim *sim, struct sim_conn *conn, const uint8_t *bytes, size_t len);
bool plant_holds(const struct sim *sim, const struct sim_conn *conn);
void plant_feed_held(struct sim *sim);

#endif
