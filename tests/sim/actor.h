/* The workload: each client runs a few actors, and each of them does one thing after another, as an
 * application would, only less wisely. */
#ifndef TKT_SIM_ACTOR_H
#define TKT_SIM_ACTOR_H

#include "sim.h"

void sim_actors_init(struct sim *sim, struct sim_client *client);
/* Lets those act whose time has come. */
void sim_actors_act(struct sim *sim, struct sim_client *client);
/* World instant of the next act. */
int64_t sim_actors_due(const struct sim *sim, const struct sim_client *client);
/* A call ended. */
void sim_actor_done(struct sim *sim, struct sim_client *client, struct tkt_call *call);
/* The engine has finished closing and is about to be freed. */
void sim_actors_closed(struct sim *sim, struct sim_client *client);
/* No call under way, no ticket held. */
bool sim_actors_idle(const struct sim *sim, const struct sim_client *client);
/* An acquire that must succeed, since nobody else wants the keys any more. */
void sim_actor_final(struct sim *sim, struct sim_client *client, unsigned keys);

#endif
