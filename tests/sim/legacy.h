/* Clients of an older kind, by their bytes alone: they send requests right behind the proof, and
 * where a connection breaks, or just because they feel like it, ask again with the same owner on a
 * new one. The server's same-owner rule is for them. */
#ifndef TKT_SIM_LEGACY_H
#define TKT_SIM_LEGACY_H

#include "sim.h"

void sim_legacy_init(struct sim *sim, struct sim_legacy *legacy, unsigned index);
int64_t sim_legacy_wake(const struct sim *sim, const struct sim_legacy *legacy);
void sim_legacy_turn(struct sim *sim, struct sim_legacy *legacy);
bool sim_legacy_idle(const struct sim_legacy *legacy);
void sim_legacy_close(struct sim *sim, struct sim_legacy *legacy);

#endif
