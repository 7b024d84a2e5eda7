/* `ticketing bench`: the private server, the workloads one after the other, what they found. */
#include "cli/bench.h"

#include "cli/bench_options.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/private_server.h"
#include "cli/scratch.h"
#include "cli/status.h"
#include "cli/streams.h"
#include "cli/throwaway_certificate.h"
#include "cli/token_file.h"
#include "cli/values.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKLOADS = 2 };

struct bench {
  const char *name;
  struct tkt_bench_options options;
  const char *token; /* NULL: none */
  struct tkt_cli_tls tls;
};

static int pin_self(int cpu) {
  if (cpu < 0) return 0;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)cpu, &set);
  return sched_setaffinity(0, sizeof set, &set);
}

static int measure_cycle(const struct bench *bench, struct tkt_bench_result *result) {
  const struct tkt_bench_options *o = &bench->options;
  uint64_t tasks = o->threads ? o->threads : o->tasks ? o->tasks : TKT_BENCH_TASKS;
  result->workload = "cycle";
  result->plan.tasks = (uint32_t)tasks;
  result->plan.keys = (uint32_t)(o->keys ? o->keys : TKT_BENCH_KEYS);
  result->plan.cycles = o->cycles ? o->cycles : TKT_BENCH_CYCLES;
  return o->event_loop ? tkt_bench_cycle_event_loop(&result->plan, result)
                       : tkt_bench_cycle_threads(&result->plan, result);
}

static int measure_latency(const struct bench *bench, struct tkt_bench_result *result) {
  result->workload = "latency";
  result->plan.tasks = result->plan.keys = 1;
  result->plan.cycles = bench->options.cycles ? bench->options.cycles : TKT_BENCH_LATENCY_CYCLES;
  return tkt_bench_latency(&result->plan, result);
}

/* One workload into a fresh result, *result_out NULL where it could not begin; the exit status. */
static int run_workload(const struct bench *bench, const char *address, bool cycle,
                        struct tkt_bench_result **result_out) {
  *result_out = NULL;
  struct tkt_bench_result *result = calloc(1, sizeof *result);
  if (!result) {
    fprintf(stderr, "%s: out of memory\n", bench->name);
    return TKT_EXIT_SYSTEM;
  }
  result->plan.address = address;
  result->plan.token = bench->token;
  result->plan.tls = bench->tls;
  result->plan.io_mode = bench->options.io_mode;
  result->plan.event_loop = bench->options.event_loop;
  result->plan.show_progress = isatty(STDERR_FILENO) == 1;
  int rc = cycle ? measure_cycle(bench, result) : measure_latency(bench, result);
  if (rc != TICKETING_OK) {
    if (!tkt_interrupted()) fprintf(stderr, "%s: %s\n", bench->name, result->first_failure);
    free(result);
    return tkt_exit_of(rc);
  }
  *result_out = result;
  return result->failed ? TKT_EXIT_FAILED : TKT_EXIT_OK;
}

/* Runs what was asked for and shows it; the exit status. */
static int run_workloads(const struct bench *bench, const char *address) {
  const struct tkt_bench_options *o = &bench->options;
  struct tkt_bench_result *results[WORKLOADS] = {NULL};
  unsigned count = 0;
  int status = TKT_EXIT_OK;
  for (int i = 0; i < WORKLOADS && !tkt_interrupted(); i++) {
    if (!(i == 0 ? o->cycle : o->latency)) continue;
    struct tkt_bench_result *result;
    int one = run_workload(bench, address, i == 0, &result);
    if (one != TKT_EXIT_OK) status = one;
    if (!result) break;
    if (!o->json) tkt_bench_print_text(result);
    results[count++] = result;
  }
  if (o->json && count)
    tkt_bench_print_json((const struct tkt_bench_result *const *)results, count,
                         o->address ? o->address : "private");
  for (unsigned i = 0; i < count; i++)
    free(results[i]);
  return tkt_interrupted() ? TKT_EXIT_SIGNAL + tkt_interrupted() : status;
}

/* The private server's certificate where TLS was asked for, and our trust in it. */
static bool secure(struct bench *bench, const char *folder, struct tkt_throwaway *throwaway,
                   char *why) {
  bench->tls = (struct tkt_cli_tls){.off = true};
  if (!tkt_cli_tls_given(&bench->options.tls)) return true;
  if (!tkt_throwaway_make(throwaway, folder, why)) return false;
  bench->tls = (struct tkt_cli_tls){.ca_file = throwaway->certificate};
  return true;
}

static int run_on_private_server(struct bench *bench) {
  struct tkt_scratch scratch;
  struct tkt_throwaway throwaway;
  struct tkt_private_server server;
  char why[TKT_VALUE_WHY_SIZE];
  if (!tkt_scratch_make(&scratch, "bench", why)) {
    fprintf(stderr, "%s: %s\n", bench->name, why);
    return TKT_EXIT_SYSTEM;
  }
  int status = TKT_EXIT_NO_SERVER;
  if (secure(bench, scratch.path, &throwaway, why) &&
      tkt_private_server_start(&server, scratch.path, bench->options.server_cpu,
                               bench->tls.off ? NULL : &throwaway, why)) {
    status = run_workloads(bench, server.address);
    tkt_private_server_stop(&server);
  } else if (tkt_interrupted()) {
    status = TKT_EXIT_SIGNAL + tkt_interrupted();
  } else {
    fprintf(stderr, "%s: %s\n", bench->name, why);
  }
  tkt_scratch_remove(&scratch);
  return status;
}

static int run_on_named_server(struct bench *bench) {
  const struct tkt_bench_options *o = &bench->options;
  struct tkt_tokens tokens;
  char why[TKT_VALUE_WHY_SIZE];
  bool read = o->token_file ? tkt_tokens_read_file(&tokens, bench->name, o->token_file, why)
                            : tkt_tokens_read_environment(&tokens, "TICKETING_CLIENT_TOKEN", why);
  int status = TKT_EXIT_USAGE;
  if (read) {
    bench->tls = o->tls;
    bench->token = tokens.count ? tokens.entries[0].secret : NULL;
    status = run_workloads(bench, o->address);
  } else {
    fprintf(stderr, "%s: %s\n", bench->name, why);
  }
  tkt_tokens_release(&tokens);
  return status;
}

int tkt_cli_bench(int argc, char **argv) {
  struct bench bench = {.name = argv[0]};
  if (!tkt_bench_options_read(&bench.options, argc, argv)) return TKT_EXIT_SYSTEM;
  tkt_interrupt_catch();
  if (pin_self(bench.options.client_cpu) != 0) {
    fprintf(stderr, "%s: --pin: the system refused CPU %d\n", bench.name, bench.options.client_cpu);
    return TKT_EXIT_SYSTEM;
  }
  int status = bench.options.address ? run_on_named_server(&bench) : run_on_private_server(&bench);
  return tkt_streams_flush(bench.name) ? status : TKT_EXIT_OUTPUT;
}
