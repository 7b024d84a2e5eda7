/* The blocking workload: one thread a task, all on one broker with its I/O thread. */
#include "cli/bench.h"
#include "cli/interrupt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREAD_STACK = 256 * 1024, PROGRESS_STEP_MS = 50 };

enum gate { CLOSED, OPEN, ABANDONED };

struct crew {
  const struct tkt_bench_plan *plan;
  ticketing_broker *broker;
  _Atomic uint64_t begun;
  _Atomic uint64_t ended;
  _Atomic uint64_t cost; /* of all failures */
  atomic_uint at_work;
  pthread_mutex_t lock;
  pthread_cond_t moved;
  enum gate gate; /* guarded by lock; all threads begin together */
};

struct worker {
  struct crew *crew;
  pthread_t thread;
  uint32_t key_number;
  int64_t ended_ns;
  struct tkt_bench_result result; /* its own counts, added up at the end */
};

static bool pass_gate(struct crew *crew) {
  pthread_mutex_lock(&crew->lock);
  while (crew->gate == CLOSED)
    pthread_cond_wait(&crew->moved, &crew->lock);
  bool open = crew->gate == OPEN;
  pthread_mutex_unlock(&crew->lock);
  return open;
}

static void move_gate(struct crew *crew, enum gate gate) {
  pthread_mutex_lock(&crew->lock);
  crew->gate = gate;
  pthread_cond_broadcast(&crew->moved);
  pthread_mutex_unlock(&crew->lock);
}

static int one_cycle(ticketing_broker *broker, const ticketing_acquire_params *params, char *why) {
  ticketing_ticket *ticket = NULL;
  int rc = ticketing_acquire(broker, params, &ticket, why);
  if (rc != TICKETING_OK) return rc;
  rc = ticketing_ticket_release(ticket, why);
  ticketing_ticket_free(ticket);
  return rc;
}

static void *work(void *argument) {
  struct worker *worker = argument;
  struct crew *crew = worker->crew;
  char text[TKT_BENCH_KEY_SIZE];
  ticketing_key key;
  ticketing_acquire_params params;
  tkt_bench_params(worker->key_number, text, &key, &params);
  if (!pass_gate(crew)) return NULL;
  while (!tkt_interrupted() && atomic_load(&crew->cost) < TKT_BENCH_PATIENCE &&
         atomic_fetch_add(&crew->begun, 1) < crew->plan->cycles) {
    char why[TICKETING_MESSAGE_SIZE] = "";
    int64_t begun = ticketing_now_ns();
    int rc = one_cycle(crew->broker, &params, why);
    if (rc == TICKETING_OK) {
      tkt_histogram_add(&worker->result.cycle, ticketing_now_ns() - begun);
    } else {
      tkt_bench_count_failure(&worker->result, rc, why);
      atomic_fetch_add(&crew->cost, tkt_bench_cost(rc));
    }
    atomic_fetch_add_explicit(&crew->ended, 1, memory_order_relaxed);
  }
  worker->ended_ns = ticketing_now_ns();
  atomic_fetch_sub(&crew->at_work, 1);
  return NULL;
}

/* Starts as many threads as the system gives; how many those are. */
static uint32_t start_workers(struct crew *crew, struct worker *workers) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, THREAD_STACK);
  uint32_t started = 0;
  for (; started < crew->plan->tasks; started++) {
    struct worker *worker = &workers[started];
    worker->crew = crew;
    worker->key_number = started % crew->plan->keys;
    if (pthread_create(&worker->thread, &attributes, work, worker) != 0) break;
  }
  pthread_attr_destroy(&attributes);
  return started;
}

static void watch(struct crew *crew) {
  struct tkt_bench_progress progress = {0};
  while (crew->plan->show_progress && atomic_load(&crew->at_work) > 0) {
    nanosleep(&(struct timespec){.tv_nsec = PROGRESS_STEP_MS * 1000000L}, NULL);
    tkt_bench_progress(&progress, crew->plan, atomic_load(&crew->ended), ticketing_now_ns());
  }
  tkt_bench_progress_end(&progress);
}

static void add_up(struct tkt_bench_result *result, const struct tkt_bench_result *part) {
  tkt_histogram_merge(&result->cycle, &part->cycle);
  if (result->failed == 0 && part->failed > 0)
    snprintf(result->first_failure, sizeof result->first_failure, "%s", part->first_failure);
  result->failed += part->failed;
  for (unsigned i = 0; i < TKT_BENCH_CODES; i++)
    result->failures[i] += part->failures[i];
}

static int run(struct crew *crew, struct worker *workers, struct tkt_bench_result *result) {
  const struct tkt_bench_plan *plan = crew->plan;
  atomic_store(&crew->at_work, plan->tasks);
  uint32_t started = start_workers(crew, workers);
  if (started < plan->tasks) {
    move_gate(crew, ABANDONED);
    for (uint32_t i = 0; i < started; i++)
      pthread_join(workers[i].thread, NULL);
    snprintf(result->first_failure, sizeof result->first_failure,
             "the system gave %u of %u threads; try fewer with --threads", started, plan->tasks);
    return TICKETING_E_SYSTEM;
  }
  int64_t start = ticketing_now_ns();
  tkt_bench_clock_start(result, start);
  move_gate(crew, OPEN);
  watch(crew);
  int64_t end = start;
  for (uint32_t i = 0; i < plan->tasks; i++) {
    pthread_join(workers[i].thread, NULL);
    if (workers[i].ended_ns > end) end = workers[i].ended_ns;
    add_up(result, &workers[i].result);
  }
  tkt_bench_clock_stop(result, end);
  return TICKETING_OK;
}

int tkt_bench_cycle_threads(const struct tkt_bench_plan *plan, struct tkt_bench_result *result) {
  struct crew crew = {
      .plan = plan, .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};
  int rc = tkt_bench_connect(plan, result, &crew.broker);
  if (rc != TICKETING_OK) return rc;
  struct worker *workers = calloc(plan->tasks, sizeof *workers);
  rc = workers ? run(&crew, workers, result) : TICKETING_E_NO_MEMORY;
  if (rc != TICKETING_OK && !result->first_failure[0])
    snprintf(result->first_failure, sizeof result->first_failure, "%s", ticketing_error_text(rc));
  free(workers);
  ticketing_broker_close(crew.broker);
  ticketing_broker_free(crew.broker);
  return rc;
}
