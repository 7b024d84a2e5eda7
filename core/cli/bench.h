/* `ticketing bench`: what its files share.
 *
 * bench_options.c reads the command line, bench.c starts the private server and runs the workloads
 * asked for; a workload fills one tkt_bench_result; bench_report.c shows it. */
#ifndef TKT_CLI_BENCH_H
#define TKT_CLI_BENCH_H

#include "cli/bench_histogram.h"
#include "cli/tls_options.h"

#include <stdbool.h>
#include <stdint.h>
#include <ticketing.h>

enum {
  TKT_BENCH_TASKS = 64,
  TKT_BENCH_KEYS = 32,
  TKT_BENCH_CYCLES = 40000,
  TKT_BENCH_LATENCY_CYCLES = 10000,
  TKT_BENCH_TASKS_MAX = 16384, /* as many requests as a broker may have in flight */
  TKT_BENCH_THREADS_MAX = 4096,
  TKT_BENCH_KEYS_MAX = 1000000,
  TKT_BENCH_CYCLES_MAX = 1000000000,
  /* A workload gives up once its failed cycles have cost so much: one each, or far more where the
   * failure says that the server is gone, since every further cycle would take its whole wait. */
  TKT_BENCH_PATIENCE = 1000,
  TKT_BENCH_COST_OF_LOSS = 100,
  TKT_BENCH_KEY_SIZE = 16,
  TKT_BENCH_READY_S = 10,
  TKT_BENCH_WAIT_S = 20,
  TKT_BENCH_LEASE_S = 120,
};

struct tkt_bench_plan {
  const char *address;
  const char *token; /* NULL: none */
  struct tkt_cli_tls tls;
  uint32_t tasks;
  uint32_t keys;
  uint64_t cycles;
  int io_mode;     /* TICKETING_IO_*, of the broker */
  bool event_loop; /* one thread for all tasks; always with TICKETING_IO_CALLER */
  bool show_progress;
};

/* Results of the library are counted by -code below zero and by TKT_BENCH_CODES_ZERO + code above.
 */
enum { TKT_BENCH_CODES_ZERO = 32, TKT_BENCH_CODES = 64 };

struct tkt_bench_result {
  const char *workload;
  struct tkt_bench_plan plan;
  int64_t elapsed_ns;
  int64_t user_ns, system_ns; /* CPU time of this process while it ran */
  uint64_t failed;
  uint64_t cost; /* of the failures, against TKT_BENCH_PATIENCE */
  uint64_t failures[TKT_BENCH_CODES];
  char first_failure[TICKETING_MESSAGE_SIZE];
  struct tkt_histogram cycle; /* acquire called to release acknowledged, of cycles that succeeded */
  struct tkt_histogram acquire; /* latency workload: acquire called to granted */
};

/* --- workloads ---------------------------------------------------------------------------------
 * Each runs plan->cycles acquire/release cycles, or fewer where it was interrupted or failed too
 * often, into *result (its counts start at zero). Returns TICKETING_OK, or why it could not begin
 * with a sentence in result->first_failure. */

/* Tasks of one event loop. */
int tkt_bench_cycle_event_loop(const struct tkt_bench_plan *plan, struct tkt_bench_result *result);
/* One blocking thread a task on a THREAD broker. */
int tkt_bench_cycle_threads(const struct tkt_bench_plan *plan, struct tkt_bench_result *result);
/* One task on one key nobody else wants, blocking calls in either mode. */
int tkt_bench_latency(const struct tkt_bench_plan *plan, struct tkt_bench_result *result);

/* --- what workloads use -------------------------------------------------------------------------
 */

/* Opens a broker for the plan and waits until it is usable. As the workloads return. */
int tkt_bench_connect(const struct tkt_bench_plan *plan, struct tkt_bench_result *result,
                      ticketing_broker **broker_out);

/* Before and after the measured part: elapsed and CPU time. `now` as in the progress. */
void tkt_bench_clock_start(struct tkt_bench_result *result, int64_t now);
void tkt_bench_clock_stop(struct tkt_bench_result *result, int64_t now);

/* The key and parameters of a task; *text and *key must live as long as the params are used. */
void tkt_bench_params(uint32_t key_number, char text[TKT_BENCH_KEY_SIZE], ticketing_key *key,
                      ticketing_acquire_params *params);

/* What a cycle that ended in `code` takes from the patience. */
unsigned tkt_bench_cost(int code);

/* Counts a cycle that ended in `code`; `message` (or NULL) is kept if it is the first. */
void tkt_bench_count_failure(struct tkt_bench_result *result, int code, const char *message);

/* The result code a failure counter stands for. */
int tkt_bench_code(unsigned index);

/* --- showing ------------------------------------------------------------------------------------
 */

/* Redraws the bar on standard error, at most ten times a second; does nothing without
 * plan->show_progress. `now` is ticketing_now_ns's. */
struct tkt_bench_progress {
  int64_t next_ns;
  bool drawn;
};
void tkt_bench_progress(struct tkt_bench_progress *progress, const struct tkt_bench_plan *plan,
                        uint64_t cycles_ended, int64_t now);
/* Removes the bar. */
void tkt_bench_progress_end(struct tkt_bench_progress *progress);

void tkt_bench_print_text(const struct tkt_bench_result *result);
/* One JSON document on standard output for all results. */
void tkt_bench_print_json(const struct tkt_bench_result *const *results, unsigned count,
                          const char *server);

#endif
