/* Threads times operations on one broker: mutual exclusion holds, nothing is lost or leaked. */
#include "unit/abi/abi_test.h"

enum { THREADS = 8, KEYS = 4, ROUNDS = 300 };

struct shared {
  ticketing_broker *broker;
  struct lock_server *server;
  atomic_int inside[KEYS];
  uint64_t last_token[KEYS]; /* written only by the holder */
  atomic_uint granted, failed;
};

static void enter_and_leave(struct shared *s, int k, ticketing_ticket *ticket) {
  if (atomic_fetch_add(&s->inside[k], 1) != 0) atomic_fetch_add(&s->failed, 1);
  uint64_t token = ticketing_ticket_token(ticket);
  if (token <= s->last_token[k]) atomic_fetch_add(&s->failed, 1);
  s->last_token[k] = token;
  atomic_fetch_sub(&s->inside[k], 1);
  atomic_fetch_add(&s->granted, 1);
}

static void *hammer(void *argument) {
  struct shared *s = argument;
  unsigned seed = (unsigned)(uintptr_t)&seed;
  for (int i = 0; i < ROUNDS; i++) {
    int k = (int)(rand_r(&seed) % KEYS);
    char name[8];
    snprintf(name, sizeof name, "k%d", k);
    ticketing_ticket *ticket = NULL;
    int rc = acquire(s->broker, name, 60, &ticket, NULL);
    if (rc != TICKETING_OK) {
      atomic_fetch_add(&s->failed, 1);
      continue;
    }
    enter_and_leave(s, k, ticket);
    if (i % 3 == 0) {
      ticketing_ticket_free(ticket); /* in the background */
    } else {
      if (ticketing_ticket_release(ticket, NULL) != TICKETING_OK) atomic_fetch_add(&s->failed, 1);
      ticketing_ticket_free(ticket);
    }
  }
  return NULL;
}

static void holders_exclude_each_other(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  struct shared s = {.broker = f.broker, .server = f.server};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, hammer, &s), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&s.failed), 0);
  assert_int_equal(atomic_load(&s.granted), THREADS * ROUNDS);
  EVENTUALLY(atomic_load(&f.server->held_now) == 0);
  end_fixture(&f);
}

/* Ops that are freed, cancelled and woken at every moment of their lives. */
static void *abuse(void *argument) {
  struct shared *s = argument;
  unsigned seed = (unsigned)(uintptr_t)&seed;
  for (int i = 0; i < ROUNDS; i++) {
    char name[8];
    snprintf(name, sizeof name, "a%d", (int)(rand_r(&seed) % 64));
    ticketing_op *op = NULL;
    ticketing_key key = {name, strlen(name)};
    ticketing_acquire_params p = params_for(&key, 60);
    if (ticketing_acquire_start(s->broker, &p, NULL, NULL, &op, NULL) != TICKETING_OK) {
      atomic_fetch_add(&s->failed, 1);
      continue;
    }
    unsigned pause = rand_r(&seed) % 200;
    switch (rand_r(&seed) % 4) {
    case 0:
      break; /* freed at once */
    case 1:
      usleep(pause);
      ticketing_op_cancel(op);
      break;
    case 2:
      ticketing_op_wake(op);
      ticketing_op_wait(op, (int64_t)pause * 1000);
      break;
    default: {
      ticketing_ticket *ticket;
      while (ticketing_op_wait(op, TICKETING_FOREVER) != TICKETING_OK) {
      }
      if (ticketing_op_take_ticket(op, &ticket) == TICKETING_OK) {
        ticketing_op *release;
        if (ticketing_ticket_release_start(ticket, NULL, NULL, &release) == TICKETING_OK)
          ticketing_op_free(release);
        ticketing_ticket_free(ticket);
      }
    }
    }
    ticketing_op_free(op);
  }
  return NULL;
}

static void abused_ops_leave_no_grant_behind(void **state) {
  (void)state;
  struct lock_server *server = lock_server_start();
  ticketing_options *options;
  ticketing_broker *broker;
  assert_int_equal(ticketing_options_new(&options), TICKETING_OK);
  assert_int_equal(ticketing_options_add_address(options, server->address), TICKETING_OK);
  assert_int_equal(ticketing_options_set_cancel_keeps_session(options, 1), TICKETING_OK);
  assert_int_equal(ticketing_broker_open(options, &broker), TICKETING_OK);
  ticketing_options_free(options);
  struct shared s = {.broker = broker, .server = server};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, abuse, &s), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&s.failed), 0);
  EVENTUALLY(atomic_load(&server->held_now) == 0);
  assert_int_equal(ticketing_broker_close(broker), TICKETING_OK);
  ticketing_broker_free(broker);
  lock_server_stop(server);
}

/* Several threads share one queue, others start and free. */
static void *drain_queue(void *argument) {
  ticketing_queue *queue = argument;
  for (;;) {
    ticketing_op *op;
    if (ticketing_queue_wait(queue, TICKETING_FOREVER, &op) != TICKETING_OK) continue;
    bool last = ticketing_op_user(op) == queue;
    ticketing_ticket *ticket;
    if (ticketing_op_take_ticket(op, &ticket) == TICKETING_OK) ticketing_ticket_free(ticket);
    ticketing_op_free(op);
    if (last) return NULL;
  }
}

static void threads_share_a_queue(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_queue *queue;
  assert_int_equal(ticketing_queue_new(f.broker, &queue), TICKETING_OK);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, drain_queue, queue), 0);
  char name[16];
  for (int i = 0; i < 500; i++) {
    snprintf(name, sizeof name, "q%d", i % 50);
    start_acquire(f.broker, name, 60, queue, NULL);
  }
  for (int i = 0; i < THREADS; i++) { /* each ends one thread */
    ticketing_op *op;
    assert_int_equal(
        ticketing_broker_wait_ready_start(f.broker, 10 * TICKETING_SECOND, queue, queue, &op),
        TICKETING_OK);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  /* The threads ended before the ops did: the rest is taken here. */
  ticketing_op *rest;
  EVENTUALLY(atomic_load(&f.server->acquires) == 500);
  while (ticketing_queue_wait(queue, 100 * TICKETING_MILLISECOND, &rest) == TICKETING_OK) {
    ticketing_ticket *ticket;
    if (ticketing_op_take_ticket(rest, &ticket) == TICKETING_OK) ticketing_ticket_free(ticket);
    ticketing_op_free(rest);
  }
  EVENTUALLY(atomic_load(&f.server->held_now) == 0);
  ticketing_queue_free(queue);
  end_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(holders_exclude_each_other),
      cmocka_unit_test(abused_ops_leave_no_grant_behind),
      cmocka_unit_test(threads_share_a_queue),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
