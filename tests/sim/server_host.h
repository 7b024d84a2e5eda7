/* The machine with the server engine: the daemon's turn, restarts. */
#ifndef TKT_SIM_SERVER_HOST_H
#define TKT_SIM_SERVER_HOST_H

#include "sim.h"

/* Starts an engine; its first token is above every token granted before. */
void sim_server_start(struct sim *sim);
int64_t sim_server_wake(const struct sim *sim);
void sim_server_turn(struct sim *sim);
/* Kills the process (connections die with it), to come back later. */
void sim_server_kill(struct sim *sim);
/* Asks it to go away in good order; it comes back later unless the run is at its end. */
void sim_server_drain(struct sim *sim);
/* Frees the engine whatever it does. */
void sim_server_free(struct sim *sim);

#endif
