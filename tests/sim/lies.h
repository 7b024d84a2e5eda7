/* A server that lies, seen from the clients: its replies are repeated, changed, mixed with frames
 * nobody asked for and with bytes that are no frames. Clients may believe it, but they stay inside
 * their bounds, neither crash nor spin, and recover when it becomes honest (M8..M10). */
#ifndef TKT_SIM_LIES_H
#define TKT_SIM_LIES_H

#include "sim.h"

#include <sys/types.h>

/* Writes the server's bytes with lies among them. */
ssize_t lies_write(struct sim *sim, struct sim_conn *conn, struct tkt_span out);

#endif
