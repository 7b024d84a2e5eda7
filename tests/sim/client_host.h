/* A machine with one client engine: the driver's turn, over simulated streams. */
#ifndef TKT_SIM_CLIENT_HOST_H
#define TKT_SIM_CLIENT_HOST_H

#include "sim.h"

/* Opens (or reopens) the client's engine. */
void sim_client_open(struct sim *sim, struct sim_client *client);
/* World instant at which the host next has something to do, its sleep counted. */
int64_t sim_client_wake(const struct sim *sim, const struct sim_client *client);
/* One turn of the driver. */
void sim_client_turn(struct sim *sim, struct sim_client *client);
/* Starts the engine's close; the host frees the engine once it has ended. */
void sim_client_close(struct sim *sim, struct sim_client *client, int64_t reopen_at);
/* Frees the engine whatever it does. */
void sim_client_free(struct sim *sim, struct sim_client *client);

#endif
