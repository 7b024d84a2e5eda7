/* A storage that takes its time: commits pend and are decided in any order its contract allows,
 * some fail, of some nobody can say. */
#ifndef TKT_SIM_STORAGE_H
#define TKT_SIM_STORAGE_H

#include "sim.h"

void sim_storage_init(struct sim *sim);
/* Reports what is decided by now to the server engine. */
void sim_storage_decide(struct sim *sim, int64_t server_now);
/* World instant of the next decision, TKT_NEVER. */
int64_t sim_storage_due(const struct sim *sim);

#endif
