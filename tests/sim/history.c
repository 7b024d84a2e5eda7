#include "sim.h"

#include <stdarg.h>
#include <string.h>

/* Hosts and instants in every line, so that a history can be read without the code. */
static void add(struct sim *sim, const char *text) {
  char *line = sim->history[sim->history_count % SIM_HISTORY];
  snprintf(line, SIM_HISTORY_TEXT, "%8llu %12.6f  %.140s", (unsigned long long)sim->step,
           (double)sim->now / 1e9, text);
  sim->history_count++;
  for (const char *p = line; *p; p++) {
    sim->fingerprint ^= (uint8_t)*p;
    sim->fingerprint *= UINT64_C(0x100000001b3);
  }
  if (sim->options.verbose) puts(line);
}

void sim_note(struct sim *sim, const char *format, ...) {
  char text[SIM_HISTORY_TEXT];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  add(sim, text);
}

void sim_fail(struct sim *sim, const char *format, ...) {
  if (sim->failed) return;
  va_list args;
  va_start(args, format);
  vsnprintf(sim->failure, sizeof sim->failure, format, args);
  va_end(args);
  sim->failed = true;
  char text[SIM_HISTORY_TEXT];
  snprintf(text, sizeof text, "VIOLATION %.120s", sim->failure);
  add(sim, text);
}

void sim_print_failure(const struct sim *sim, FILE *to) {
  uint64_t kept = sim->history_count < SIM_HISTORY ? sim->history_count : SIM_HISTORY;
  fprintf(to, "--- seed %llu (%s), step %llu: %s\n", (unsigned long long)sim->options.seed,
          sim->profile.name, (unsigned long long)sim->step, sim->failure);
  fprintf(to, "    step      seconds  event (the last %llu)\n", (unsigned long long)kept);
  for (uint64_t i = sim->history_count - kept; i < sim->history_count; i++)
    fprintf(to, "%s\n", sim->history[i % SIM_HISTORY]);
  fprintf(to, "--- repeat with: sim --seed %llu --steps %llu --verbose%s%s\n",
          (unsigned long long)sim->options.seed, (unsigned long long)sim->options.steps,
          sim->options.plant ? " --plant " : "",
          sim->options.plant ? sim_plant_name(sim->options.plant) : "");
}
