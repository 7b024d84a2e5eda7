/* A made-up cluster: some addresses, one server engine among them. The node that leads passes its
 * connections on to the engine; the others are scripted and answer as followers do: they name the
 * leader they believe in (M, L), or say that there is none, or that they are not active. Leadership
 * moves with the table of locks, or the engine starts anew where every lease of before has ended.
 *
 * A node does the handshake itself, so that a connection may come to the engine later, when its
 * node becomes the leader. */
#ifndef TKT_SIM_CLUSTER_H
#define TKT_SIM_CLUSTER_H

#include "sim.h"

#include <sys/types.h>

extern const uint8_t sim_cluster_identity[32];

/* Text of a configured address; as long as the program. */
const char *sim_cluster_address(unsigned wire, unsigned node);

void sim_cluster_init(struct sim *sim);
/* A node takes connections. */
bool sim_cluster_listens(const struct sim *sim, unsigned node);
/* The node runs the engine, and the engine serves. */
bool sim_cluster_leads(const struct sim *sim, unsigned node);

/* One turn of all nodes, before that of the engine; and the world instant of the next. */
void sim_cluster_turn(struct sim *sim);
int64_t sim_cluster_wake(const struct sim *sim);

/* Leadership moves to some node. */
void sim_cluster_elect(struct sim *sim);
/* The engine started: its node's connections come to it. */
void sim_cluster_started(struct sim *sim);
/* The node's process dies, with its connections. */
void sim_cluster_node_dies(struct sim *sim, unsigned node, int64_t until);
/* All nodes know the leader from here on. */
void sim_cluster_calm(struct sim *sim);

/* Writes what the node itself has to say; false where some is left. Then, with the engine's bytes,
 * what the network took; its signs of life name the leader. */
bool sim_cluster_flush(struct sim *sim, struct sim_conn *conn);
ssize_t sim_cluster_write(struct sim *sim, struct sim_conn *conn, struct tkt_span out);

#endif
