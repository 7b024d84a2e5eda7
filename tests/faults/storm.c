/* Storms against a real server: what nobody holds must be free at once.
 *
 *   storm ADDRESS cancel|keep|race COUNT
 *
 * cancel: COUNT acquires by several threads on few keys, most of them cancelled, freed or taken at
 * a random instant; `keep` is the same with sessions that outlive a cancel (S3, S5, G3). race:
 * COUNT acquires whose wait ends in the very moment in which the holder lets go (S6).
 *
 * Afterwards each key is asked for by somebody else, with a wait far below the leases in play: a
 * hold left behind without an owner makes that end in a timeout. Prints what happened; exit status
 * 1 where a hold was left or a call failed in a way the storm does not explain. */
#include <ticketing.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 8, KEYS = 16, RACE_BATCH = 500 };

static ticketing_broker *broker;
static atomic_long left, granted, cancelled, indeterminate, timeouts, odd;

static void sleep_ns(int64_t ns) {
  struct timespec t = {ns / TICKETING_SECOND, ns % TICKETING_SECOND};
  nanosleep(&t, NULL);
}

static ticketing_broker *open_broker(const char *address, int keep) {
  ticketing_options *options = NULL;
  ticketing_broker *opened = NULL;
  if (ticketing_options_new(&options) != TICKETING_OK ||
      ticketing_options_add_address(options, address) != TICKETING_OK ||
      ticketing_options_set_cancel_keeps_session(options, keep) != TICKETING_OK ||
      ticketing_options_set_max_in_flight(options, 4096) != TICKETING_OK ||
      ticketing_broker_open(options, &opened) != TICKETING_OK ||
      ticketing_broker_wait_ready(opened, 20 * TICKETING_SECOND) != TICKETING_OK) {
    fprintf(stderr, "storm: no broker for %s\n", address);
    exit(2);
  }
  ticketing_options_free(options);
  return opened;
}

static ticketing_op *start(ticketing_broker *on, const char *name, int64_t wait_s) {
  ticketing_key key = {name, strlen(name)};
  ticketing_acquire_params params = TICKETING_ACQUIRE_PARAMS_INIT;
  params.keys = &key;
  params.key_count = 1;
  params.wait_ns = wait_s * TICKETING_SECOND;
  params.lease_ns = 120 * TICKETING_SECOND;
  ticketing_op *op = NULL;
  char why[TICKETING_MESSAGE_SIZE];
  int rc = ticketing_acquire_start(on, &params, NULL, NULL, &op, why);
  if (rc != TICKETING_OK) {
    fprintf(stderr, "storm: %s\n", why);
    exit(2);
  }
  return op;
}

static void count(int status) {
  if (status == TICKETING_E_CANCELLED)
    cancelled++;
  else if (status == TICKETING_E_INDETERMINATE)
    indeterminate++;
  else if (status == TICKETING_E_TIMEOUT)
    timeouts++;
  else
    odd++;
}

/* Takes what was granted and gives it back. */
static void finish(ticketing_op *op) {
  ticketing_ticket *ticket = NULL;
  int status = ticketing_op_take_ticket(op, &ticket);
  if (status != TICKETING_OK) {
    count(status);
    return;
  }
  granted++;
  if (ticketing_ticket_release(ticket, NULL) != TICKETING_OK) odd++;
  ticketing_ticket_free(ticket);
}

static void *storm(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  while (atomic_fetch_sub(&left, 1) > 0) {
    char name[16];
    snprintf(name, sizeof name, "storm-%d", rand_r(&seed) % KEYS);
    ticketing_op *op = start(broker, name, 30);
    switch (rand_r(&seed) % 4) {
    case 0:
      break; /* at once */
    case 1:
      sleep_ns(rand_r(&seed) % 100000);
      break;
    default:
      sleep_ns(rand_r(&seed) % 1500000);
      break;
    }
    switch (rand_r(&seed) % 4) {
    case 0:
      break; /* freed as it is: granted, pending, never sent */
    case 1:
      ticketing_op_wait(op, TICKETING_FOREVER);
      finish(op);
      break;
    default:
      ticketing_op_cancel(op);
      ticketing_op_wait(op, TICKETING_FOREVER);
      finish(op);
      break;
    }
    ticketing_op_free(op);
  }
  return NULL;
}

static void cancel_storm(const char *address, long total, int keep) {
  broker = open_broker(address, keep);
  atomic_store(&left, total);
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, storm, (void *)(i + 1)) != 0) exit(2);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

/* One batch: every key is held by one broker and wanted by the other for just a second, which is
 * when the holder begins to let go. */
static void race(ticketing_broker *holder, ticketing_broker *waiter, int n, unsigned *seed) {
  static ticketing_op *held[RACE_BATCH], *wanted[RACE_BATCH];
  static ticketing_ticket *tickets[RACE_BATCH];
  char name[24];
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "race-%d", i);
    held[i] = start(holder, name, 30);
  }
  for (int i = 0; i < n; i++) {
    ticketing_op_wait(held[i], TICKETING_FOREVER);
    if (ticketing_op_take_ticket(held[i], &tickets[i]) != TICKETING_OK) odd++;
    ticketing_op_free(held[i]);
  }
  int64_t begin = ticketing_now_ns();
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "race-%d", i);
    wanted[i] = start(waiter, name, 1);
  }
  /* Some land before the end and some behind it, on wire 3 too, whose servers answer 50 ms early.
   */
  sleep_ns(begin + TICKETING_SECOND - 80 * TICKETING_MILLISECOND - ticketing_now_ns());
  for (int i = 0; i < n; i++) {
    ticketing_op *release = NULL;
    if (ticketing_ticket_release_start(tickets[i], NULL, NULL, &release) != TICKETING_OK) odd++;
    ticketing_op_free(release); /* goes on by itself */
    if (i % 8 == 0) sleep_ns(rand_r(seed) % 3000000);
  }
  for (int i = 0; i < n; i++) {
    ticketing_op_wait(wanted[i], TICKETING_FOREVER);
    finish(wanted[i]);
    ticketing_op_free(wanted[i]);
    ticketing_ticket_free(tickets[i]);
  }
}

static void race_storm(const char *address, long total) {
  unsigned seed = 1;
  ticketing_broker *waiter = open_broker(address, 0);
  broker = open_broker(address, 0);
  for (long done = 0; done < total; done += RACE_BATCH)
    race(broker, waiter, total - done < RACE_BATCH ? (int)(total - done) : RACE_BATCH, &seed);
  ticketing_broker_close(waiter);
  ticketing_broker_free(waiter);
}

/* Holds without an owner: keys that somebody else does not get within 5 s. */
static int holds_left(const char *address, const char *prefix, int keys) {
  ticketing_broker *judge = open_broker(address, 0);
  static ticketing_op *ops[RACE_BATCH];
  int held = 0;
  for (int i = 0; i < keys; i++) {
    char name[24];
    snprintf(name, sizeof name, "%s-%d", prefix, i);
    ops[i] = start(judge, name, 5);
  }
  for (int i = 0; i < keys; i++) {
    ticketing_op_wait(ops[i], TICKETING_FOREVER);
    held += ticketing_op_status(ops[i]) != TICKETING_OK;
    ticketing_op_free(ops[i]);
  }
  ticketing_broker_close(judge);
  ticketing_broker_free(judge);
  return held;
}

int main(int argc, char **argv) {
  long total = argc == 4 ? atol(argv[3]) : 0;
  if (total <= 0) {
    fprintf(stderr, "usage: storm ADDRESS cancel|keep|race COUNT\n");
    return 64;
  }
  int racing = strcmp(argv[2], "race") == 0;
  if (racing)
    race_storm(argv[1], total);
  else
    cancel_storm(argv[1], total, strcmp(argv[2], "keep") == 0);
  int held = holds_left(argv[1], racing ? "race" : "storm", racing ? RACE_BATCH : KEYS);
  ticketing_broker_close(broker);
  ticketing_broker_free(broker);
  printf(
      "%s: %ld granted, %ld cancelled, %ld indeterminate, %ld timeouts, %ld odd; %d holds left\n",
      argv[2], atomic_load(&granted), atomic_load(&cancelled), atomic_load(&indeterminate),
      atomic_load(&timeouts), atomic_load(&odd), held);
  return held != 0 || atomic_load(&odd) != 0;
}
