/* What kind of run a seed is: from a quiet network to one where everything breaks. */
#include "sim.h"

static const struct sim_profile profiles[] = {
    {.name = "quiet, memory storage",
     .quiet = true,
     .latency_min = 20 * TKT_US,
     .latency_max = 2 * TKT_MS,
     .cancels = false},
    {.name = "quiet, cancels, slow storage",
     .quiet = true,
     .latency_min = 20 * TKT_US,
     .latency_max = 20 * TKT_MS,
     .cancels = true,
     .closes = true,
     .commit_later = 700,
     .commit_delay_max = 30 * TKT_MS},
    {.name = "resets and stalls",
     .latency_min = 20 * TKT_US,
     .latency_max = 100 * TKT_MS,
     .reset = 40,
     .stall = 40,
     .connect_fail = 50,
     .connect_hang = 10,
     .cancels = true,
     .closes = true},
    {.name = "sleeping hosts",
     .latency_min = 20 * TKT_US,
     .latency_max = 20 * TKT_MS,
     .sleep = 40,
     .pause = 20,
     .cancels = true,
     .closes = true},
    {.name = "failing storage",
     .latency_min = 20 * TKT_US,
     .latency_max = 20 * TKT_MS,
     .cancels = true,
     .closes = true,
     .commit_later = 600,
     .commit_delay_max = 800 * TKT_MS,
     .commit_fail = 60,
     .commit_unknown = 40},
    {.name = "restarts, holders unknown",
     .latency_min = 20 * TKT_US,
     .latency_max = 20 * TKT_MS,
     .restart = 20,
     .cancels = true,
     .closes = true},
    {.name = "restarts after the leases",
     .latency_min = 20 * TKT_US,
     .latency_max = 20 * TKT_MS,
     .restart = 20,
     .restart_waits = true,
     .cancels = true,
     .closes = true,
     .commit_later = 300,
     .commit_delay_max = 300 * TKT_MS},
    {.name = "everything",
     .latency_min = 20 * TKT_US,
     .latency_max = 500 * TKT_MS,
     .reset = 30,
     .stall = 30,
     .sleep = 30,
     .restart = 8,
     .restart_waits = true,
     .connect_fail = 100,
     .connect_hang = 30,
     .pause = 10,
     .cancels = true,
     .closes = true,
     .commit_later = 500,
     .commit_delay_max = 1500 * TKT_MS,
     .commit_fail = 20,
     .commit_unknown = 20},
    {.name = "narrow pipes",
     .latency_min = 20 * TKT_US,
     .latency_max = 50 * TKT_MS,
     .reset = 60,
     .stall = 80,
     .cancels = true,
     .closes = true,
     .narrow = true,
     .commit_later = 300,
     .commit_delay_max = 200 * TKT_MS},
    {.name = "memory runs out",
     .latency_min = 20 * TKT_US,
     .latency_max = 20 * TKT_MS,
     .reset = 20,
     .restart = 8,
     .restart_waits = true,
     .cancels = true,
     .closes = true,
     .commit_later = 300,
     .commit_delay_max = 100 * TKT_MS,
     .memory = 20},
    {.name = "lying server",
     .latency_min = 20 * TKT_US,
     .latency_max = 20 * TKT_MS,
     .reset = 5,
     .cancels = true,
     .closes = true,
     .commit_later = 300,
     .commit_delay_max = 100 * TKT_MS,
     .lies = true},
    {.name = "quiet cluster",
     .quiet = true,
     .latency_min = 20 * TKT_US,
     .latency_max = 20 * TKT_MS,
     .cancels = true,
     .closes = true,
     .nodes = SIM_NODES,
     .commit_later = 300,
     .commit_delay_max = 30 * TKT_MS},
    {.name = "cluster, elections",
     .latency_min = 20 * TKT_US,
     .latency_max = 50 * TKT_MS,
     .cancels = true,
     .closes = true,
     .nodes = SIM_NODES,
     .elect = 40,
     .lease_max = 5,
     .restart_waits = true,
     .commit_later = 300,
     .commit_delay_max = 100 * TKT_MS},
    {.name = "cluster, everything",
     .latency_min = 20 * TKT_US,
     .latency_max = 200 * TKT_MS,
     .reset = 30,
     .stall = 30,
     .sleep = 20,
     .connect_fail = 50,
     .connect_hang = 10,
     .pause = 5,
     .cancels = true,
     .closes = true,
     .nodes = SIM_NODES,
     .elect = 30,
     .lease_max = 5,
     .restart_waits = true,
     .commit_later = 300,
     .commit_delay_max = 500 * TKT_MS,
     .commit_fail = 10,
     .commit_unknown = 10},
    {.name = "cancels in a hurry",
     .latency_min = 20 * TKT_US,
     .latency_max = 2 * TKT_MS,
     .cancels = true,
     .closes = true,
     .hurry = true},
};

/* A planted fault gets the calmest run in which it can show. */
static const struct sim_profile *calm_profile(enum sim_plant plant) {
  size_t last = sizeof profiles / sizeof profiles[0] - 1;
  return &profiles[plant == SIM_PLANT_LATE_WAKE ? 2 : plant == SIM_PLANT_CLOSINGS ? last : 0];
}

void sim_choose_profile(struct sim *sim) {
  size_t count = sizeof profiles / sizeof profiles[0];
  struct sim_profile *p = &sim->profile;
  *p = profiles[sim->options.seed % count];
  if (sim->options.plant) *p = *calm_profile(sim->options.plant);
  p->clients = 1 + (unsigned)sim_below(sim, SIM_CLIENTS);
  p->actors = 1 + (unsigned)sim_below(sim, SIM_ACTORS);
  p->keys = 1 + (unsigned)sim_below(sim, SIM_KEYS);
  p->legacies = sim_chance(sim, 1, 3) ? 1 + (unsigned)sim_below(sim, SIM_LEGACIES) : 0;
  if (sim->options.plant || p->lies) p->legacies = 0;
  p->framed = !sim->options.plant && sim_chance(sim, 2, 3);
  if (p->nodes) {
    p->legacies = 0;
    p->nodes = 2 + (unsigned)sim_below(sim, SIM_NODES - 1);
    p->framed = p->framed && (p->nodes == 3 || p->nodes == 5);
  }
  p->impostor = !p->quiet && !p->lies && p->clients > 1 && sim_chance(sim, 1, 6);
  if (p->memory) p->memory = 2 + (unsigned)sim_below(sim, 40);
  p->small_limits = !p->quiet && sim_chance(sim, 1, 4);
  /* The server keeps a lease 1/500 longer than promised: 2,000 ppm between two clocks. */
  p->drift_ppm = 900;
  switch (sim->options.plant) {
  case SIM_PLANT_FALSE_RELEASED:
  case SIM_PLANT_SWALLOWED_RELEASE:
  case SIM_PLANT_UNFAIR:
  case SIM_PLANT_DOUBLE_GRANT:
  case SIM_PLANT_SLOW_CLOCK:
  case SIM_PLANT_FAST_SERVER:
    p->clients = SIM_CLIENTS;
    p->keys = 1;
    break;
  case SIM_PLANT_TOKEN_REUSE:
    p->quiet = false;
    p->restart = 20;
    break;
  case SIM_PLANT_HASTY_DIALS:
    p->quiet = false;
    p->restart = 30;
    break;
  case SIM_PLANT_CLOSINGS:
    p->actors = SIM_ACTORS;
    break;
  case SIM_PLANT_EARLY_REPLY:
    p->quiet = false;
    p->commit_fail = 50;
    break;
  default:
    break;
  }
}

const char *sim_plant_name(enum sim_plant plant) {
  static const char *const names[SIM_PLANT_COUNT] = {
      "none",           "slow-clock",        "fast-server", "double-grant",
      "false-released", "swallowed-release", "lost-grant",  "token-reuse",
      "unfair",         "stuck-timers",      "late-wake",   "early-reply",
      "leak",           "hasty-dials",       "closings"};
  return names[plant];
}
