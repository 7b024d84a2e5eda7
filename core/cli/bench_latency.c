/* The latency workload: how long one acquire and its release take with nobody else about. */
#include "cli/bench.h"
#include "cli/interrupt.h"

/* First cycles that are not counted: they warm caches, sockets and the allocator. */
enum { WARM_UP = 200, PROGRESS_CYCLES = 64 };

static int one_cycle(ticketing_broker *broker, const ticketing_acquire_params *params,
                     struct tkt_bench_result *result, char *why) {
  int64_t begun = ticketing_now_ns();
  ticketing_ticket *ticket = NULL;
  int rc = ticketing_acquire(broker, params, &ticket, why);
  if (rc != TICKETING_OK) return rc;
  int64_t granted = ticketing_now_ns();
  rc = ticketing_ticket_release(ticket, why);
  int64_t released = ticketing_now_ns();
  ticketing_ticket_free(ticket);
  if (rc == TICKETING_OK && result) {
    tkt_histogram_add(&result->acquire, granted - begun);
    tkt_histogram_add(&result->cycle, released - begun);
  }
  return rc;
}

int tkt_bench_latency(const struct tkt_bench_plan *plan, struct tkt_bench_result *result) {
  ticketing_broker *broker;
  int rc = tkt_bench_connect(plan, result, &broker);
  if (rc != TICKETING_OK) return rc;
  char text[TKT_BENCH_KEY_SIZE];
  ticketing_key key;
  ticketing_acquire_params params;
  tkt_bench_params(0, text, &key, &params);
  char why[TICKETING_MESSAGE_SIZE] = "";
  struct tkt_bench_progress progress = {0};

  for (int i = 0; i < WARM_UP && one_cycle(broker, &params, NULL, why) == TICKETING_OK; i++)
    ;
  tkt_bench_clock_start(result, ticketing_now_ns());
  for (uint64_t i = 0; i < plan->cycles && result->cost < TKT_BENCH_PATIENCE && !tkt_interrupted();
       i++) {
    rc = one_cycle(broker, &params, result, why);
    if (rc != TICKETING_OK) tkt_bench_count_failure(result, rc, why);
    if (i % PROGRESS_CYCLES == 0) tkt_bench_progress(&progress, plan, i, ticketing_now_ns());
  }
  tkt_bench_clock_stop(result, ticketing_now_ns());
  tkt_bench_progress_end(&progress);
  ticketing_broker_close(broker);
  ticketing_broker_free(broker);
  return TICKETING_OK;
}
