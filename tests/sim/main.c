/* sim: runs seeds of the simulator.
 *
 *   sim --seed N [--steps S] [--verbose]     one seed; --verbose prints its whole history
 *   sim --seeds FROM:COUNT [--steps S]       many; the environment variable TICKETING_SIM_SEEDS
 *                                            overrides COUNT (not with --twice)
 *   sim --twice ...                          each seed two times; both must tell the same story
 *   sim --plant NAME --seeds FROM:COUNT      a fault is planted and must be found in some seed
 *   sim --plant all                          every planted fault in turn
 *
 * Exit status 0: all as wanted. 1: a violation (or a planted fault not found). 2: usage. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t steps_default = 3000;
enum { FAILURES_SHOWN = 5, OUTCOMES = 2 - TKT_NO_MEMORY + 1 };

static int usage(void) {
  fputs("usage: sim [--seed N | --seeds FROM:COUNT] [--steps N] [--twice] [--verbose]\n"
        "           [--plant NAME|all]\n",
        stderr);
  return 2;
}

/* The whole text as a number. */
static bool number(const char *text, uint64_t *out) {
  char *end = NULL;
  if (!text || *text < '0' || *text > '9') return false;
  *out = strtoull(text, &end, 10);
  return *end == '\0';
}

static bool range(const char *text, uint64_t *from, uint64_t *count) {
  char first[32];
  const char *colon = text ? strchr(text, ':') : NULL;
  if (!colon || (size_t)(colon - text) >= sizeof first) return false;
  memcpy(first, text, (size_t)(colon - text));
  first[colon - text] = '\0';
  return number(first, from) && number(colon + 1, count);
}

struct job {
  struct sim_options options;
  uint64_t from, count;
  bool twice;
};

/* So that a run which exercised little is seen to have done so. */
static void print_outcomes(const char *what, const uint64_t *counts) {
  static const char *const names[OUTCOMES] = {
      "out of memory", "forked",     "unsupported", "protocol", "closed",
      "no capacity",   "auth",       "unconnected", "invalid",  "insufficient lease",
      "indeterminate", "cancelled",  "busy",        "timeout",  "ok",
      "pending",       "not current"};
  printf("%s:", what);
  for (int i = OUTCOMES - 1; i >= 0; i--)
    if (counts[i]) printf(" %s %llu", names[i], (unsigned long long)counts[i]);
  printf("\n");
}

static int run_seeds(struct sim *sim, struct job job) {
  uint64_t passed = 0, failed = 0, steps = 0;
  uint64_t ended[OUTCOMES] = {0}, released[OUTCOMES] = {0};
  for (uint64_t seed = job.from; seed < job.from + job.count; seed++) {
    job.options.seed = seed;
    bool good = sim_run(sim, &job.options);
    if (good && job.twice) {
      uint64_t first = sim->fingerprint;
      good = sim_run(sim, &job.options);
      if (good && sim->fingerprint != first) {
        sim_fail(sim, "the same seed told two different stories");
        good = false;
      }
    }
    if (!good && failed < FAILURES_SHOWN) sim_print_failure(sim, stdout);
    passed += good;
    failed += !good;
    steps += sim->step;
    for (int i = 0; i < OUTCOMES; i++) {
      ended[i] += sim->ended[i];
      released[i] += sim->released[i];
    }
  }
  printf("%llu steps\n", (unsigned long long)steps);
  print_outcomes("acquires", ended);
  print_outcomes("releases", released);
  printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
  return failed ? 1 : 0;
}

/* A planted fault counts as found when some seed reports a violation. */
static int find_plants(struct sim *sim, struct job job, enum sim_plant only) {
  unsigned found = 0, missed = 0;
  for (int plant = 1; plant < SIM_PLANT_COUNT; plant++) {
    if (only && plant != (int)only) continue;
    job.options.plant = (enum sim_plant)plant;
    uint64_t seed = job.from, end = job.from + job.count;
    bool good = true;
    for (; seed < end && good; seed++) {
      job.options.seed = seed;
      good = sim_run(sim, &job.options);
    }
    printf("%-18s %s\n", sim_plant_name(job.options.plant), good ? "NOT FOUND" : sim->failure);
    if (!good && job.options.verbose) sim_print_failure(sim, stdout);
    good ? missed++ : found++;
  }
  printf("%u found, %u not found\n", found, missed);
  return missed ? 1 : 0;
}

int main(int argc, char **argv) {
  struct job job = {.options = {.steps = steps_default}, .from = 1, .count = 1};
  const char *plant = NULL;
  for (int i = 1; i < argc; i++) {
    const char *next = i + 1 < argc ? argv[i + 1] : NULL;
    bool good = true, two = true;
    if (!strcmp(argv[i], "--seed"))
      good = number(next, &job.from);
    else if (!strcmp(argv[i], "--seeds"))
      good = range(next, &job.from, &job.count);
    else if (!strcmp(argv[i], "--steps"))
      good = number(next, &job.options.steps);
    else if (!strcmp(argv[i], "--plant"))
      good = (plant = next) != NULL;
    else if (two = false, !strcmp(argv[i], "--twice"))
      job.twice = true;
    else if (!strcmp(argv[i], "--verbose"))
      job.options.verbose = true;
    else
      good = false;
    if (!good) return usage();
    i += two;
  }
  const char *seeds = getenv("TICKETING_SIM_SEEDS");
  if (seeds && !plant && !job.twice && job.count > 1 && !number(seeds, &job.count)) {
    fprintf(stderr, "TICKETING_SIM_SEEDS is '%s'; it must be a number\n", seeds);
    return 2;
  }
  struct sim *sim = calloc(1, sizeof *sim);
  if (!sim) return 2;
  int status = 2;
  if (plant) {
    enum sim_plant only = SIM_PLANT_NONE;
    for (int p = 1; p < SIM_PLANT_COUNT; p++)
      if (!strcmp(plant, sim_plant_name((enum sim_plant)p))) only = (enum sim_plant)p;
    status = only || !strcmp(plant, "all") ? find_plants(sim, job, only) : usage();
  } else {
    status = run_seeds(sim, job);
  }
  free(sim);
  return status;
}
