/* What must hold: what clients believe against what the server did. */
#ifndef TKT_SIM_INVARIANTS_H
#define TKT_SIM_INVARIANTS_H

#include "sim.h"

/* Timers fire at ticks of about 1 ms, and clocks are converted with rounding. */
#define SIM_SLACK (4 * TKT_MS)

/* After every step: mutual exclusion, beliefs covered by the server, background releases sent. */
void invariants_step(struct sim *sim);
/* After a client's timers ran: nothing is overdue, nothing will be. */
void invariants_after_tick(struct sim *sim, const struct sim_client *client);
/* A client was just given bytes: its leader hint follows what they said (M5..M7). */
void invariants_hint(struct sim *sim, const struct sim_client *client);
/* A ticket was handed out. */
void invariants_taken(struct sim *sim, struct sim_actor *actor, const struct tkt_ticket *ticket);
/* How an acquire may end. */
void invariants_acquired(struct sim *sim, struct sim_actor *actor);
/* How a release may end. */
void invariants_released(struct sim *sim, struct sim_actor *actor, const struct tkt_call *call);
/* All is calm: nothing is held at the server that nobody knows of. */
void invariants_quiescent(struct sim *sim);
/* When the last lease the server keeps ends (world). */
int64_t invariants_last_lease(const struct sim *sim);
/* All leases ended, all calls too: nothing is held, nobody waits. */
void invariants_empty(struct sim *sim);

#endif
