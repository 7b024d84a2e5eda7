/* CALLER mode: nobody but the dispatching caller does anything. */
#include "unit/abi/abi_test.h"

static bool readable(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  return poll(&p, 1, 0) == 1;
}

/* Polls the broker's descriptor alone and dispatches what it shows, until the op has ended. */
static void drive_until(ticketing_broker *broker, ticketing_op *op) {
  struct pollfd p = {.fd = ticketing_broker_fd(broker), .events = POLLIN};
  while (ticketing_op_status(op) == TICKETING_PENDING) {
    assert_int_equal(poll(&p, 1, 20000), 1);
    assert_true(ticketing_broker_dispatch(broker, 0) >= 0);
  }
}

static void polling_one_descriptor_carries_everything(void **state) {
  (void)state;
  struct lock_server *server = lock_server_start();
  ticketing_broker *broker = open_broker(server->address, TICKETING_IO_CALLER);
  int fd = ticketing_broker_fd(broker);
  assert_true(fd >= 0);
  assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  ticketing_op *op;
  assert_int_equal(
      ticketing_broker_wait_ready_start(broker, 10 * TICKETING_SECOND, NULL, NULL, &op),
      TICKETING_OK);
  drive_until(broker, op);
  assert_int_equal(ticketing_op_status(op), TICKETING_OK);
  ticketing_op_free(op);
  for (int i = 0; i < 20; i++) {
    op = start_acquire(broker, "k", 5, NULL, NULL);
    assert_true(readable(fd)); /* a start makes it readable */
    drive_until(broker, op);
    ticketing_ticket *ticket;
    assert_int_equal(ticketing_op_take_ticket(op, &ticket), TICKETING_OK);
    ticketing_op_free(op);
    assert_int_equal(ticketing_ticket_release_start(ticket, NULL, NULL, &op), TICKETING_OK);
    drive_until(broker, op);
    assert_int_equal(ticketing_op_status(op), TICKETING_OK);
    ticketing_op_free(op);
    ticketing_ticket_free(ticket);
  }
  assert_int_equal(ticketing_broker_close_start(broker, NULL, NULL, &op), TICKETING_OK);
  drive_until(broker, op);
  ticketing_op_free(op);
  ticketing_broker_free(broker);
  lock_server_stop(server);
}

static void timers_are_inside_the_descriptor(void **state) {
  (void)state;
  struct lock_server *server = lock_server_start();
  char address[32];
  snprintf(address, sizeof address, "%s", server->address);
  lock_server_stop(server); /* nobody listens there now */
  ticketing_broker *broker = open_broker(address, TICKETING_IO_CALLER);
  ticketing_op *ready, *acquire_op = start_acquire(broker, "k", 1, NULL, NULL);
  assert_int_equal(
      ticketing_broker_wait_ready_start(broker, 50 * TICKETING_MILLISECOND, NULL, NULL, &ready),
      TICKETING_OK);
  drive_until(broker, ready);
  assert_int_equal(ticketing_op_status(ready), TICKETING_E_TIMEOUT);
  drive_until(broker, acquire_op);
  assert_int_equal(ticketing_op_status(acquire_op), TICKETING_E_NOT_CONNECTED);
  ticketing_op_free(ready);
  ticketing_op_free(acquire_op);
  ticketing_broker_free(broker);
}

static void nothing_is_sent_before_dispatch_or_flush(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_CALLER);
  ticketing_op *op = start_acquire(f.broker, "a", 5, NULL, NULL);
  usleep(30 * 1000);
  assert_int_equal(atomic_load(&f.server->acquires), 0);
  assert_int_equal(ticketing_broker_flush(f.broker), TICKETING_OK);
  EVENTUALLY(atomic_load(&f.server->acquires) == 1);
  assert_int_equal(ticketing_op_status(op), TICKETING_PENDING); /* flush reads nothing */
  int n = 0;
  while (n == 0) {
    n = ticketing_broker_dispatch(f.broker, TICKETING_FOREVER);
    assert_true(n >= 0);
  }
  assert_int_equal(n, 1);
  assert_int_equal(ticketing_op_status(op), TICKETING_OK);
  ticketing_op_free(op);
  end_fixture(&f);
}

struct dispatcher {
  ticketing_broker *broker;
  atomic_bool go_on;
  atomic_int result;
};

static void *dispatch_for_long(void *argument) {
  struct dispatcher *d = argument;
  while (atomic_load(&d->go_on))
    atomic_store(&d->result, ticketing_broker_dispatch(d->broker, 100 * TICKETING_MILLISECOND));
  return NULL;
}

/* The blocking acquire between two dispatches of the other thread may well succeed. */
static bool refused_as_second(ticketing_broker *broker) {
  ticketing_ticket *ticket;
  int rc = acquire(broker, "l", 1, &ticket, NULL);
  ticketing_ticket_free(ticket);
  return rc == TICKETING_E_STATE;
}

static void a_second_dispatcher_gets_e_state_at_once(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_CALLER);
  ticketing_queue *queue;
  assert_int_equal(ticketing_queue_new(f.broker, &queue), TICKETING_OK);
  ticketing_ticket *holder = must_acquire(f.broker, "k");
  ticketing_op *op = start_acquire(f.broker, "k", 60, NULL, NULL), *other;
  struct dispatcher d = {.broker = f.broker, .go_on = true};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, dispatch_for_long, &d), 0);
  EVENTUALLY(ticketing_broker_dispatch(f.broker, 0) == TICKETING_E_STATE);
  EVENTUALLY(ticketing_broker_flush(f.broker) == TICKETING_E_STATE);
  EVENTUALLY(ticketing_op_wait(op, 0) == TICKETING_E_STATE);
  EVENTUALLY(ticketing_queue_wait(queue, 0, &other) == TICKETING_E_STATE);
  EVENTUALLY(refused_as_second(f.broker));
  /* Starts are welcome from any thread and reach the sleeping dispatcher. */
  assert_int_equal(ticketing_ticket_release_start(holder, NULL, NULL, &other), TICKETING_OK);
  EVENTUALLY(ticketing_op_status(op) == TICKETING_OK);
  EVENTUALLY(ticketing_op_status(other) == TICKETING_OK);
  atomic_store(&d.go_on, false);
  pthread_join(thread, NULL);
  ticketing_op_free(op);
  ticketing_op_free(other);
  ticketing_ticket_free(holder);
  ticketing_queue_free(queue);
  end_fixture(&f);
}

static void thread_mode_has_no_descriptor_and_no_dispatch(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  assert_int_equal(ticketing_broker_fd(f.broker), -1);
  assert_int_equal(ticketing_broker_dispatch(f.broker, 0), TICKETING_E_STATE);
  assert_int_equal(ticketing_broker_flush(f.broker), TICKETING_E_STATE);
  end_fixture(&f);
}

static void free_sends_at_once_what_the_socket_takes(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_CALLER);
  ticketing_ticket *ticket = must_acquire(f.broker, "k");
  ticketing_op *pending = start_acquire(f.broker, "k", 60, NULL, NULL), *late;
  assert_int_equal(ticketing_broker_flush(f.broker), TICKETING_OK);
  ticketing_op *unsent = start_acquire(f.broker, "l", 60, NULL, NULL);
  ticketing_ticket *other = must_acquire(f.broker, "m");
  ticketing_op *release;
  assert_int_equal(ticketing_ticket_release_start(other, NULL, NULL, &release), TICKETING_OK);
  ticketing_ticket_free(ticket);
  ticketing_broker_free(f.broker);
  f.broker = NULL;
  EVENTUALLY(atomic_load(&f.server->releases) == 2);
  /* Everything still in hand has ended. */
  assert_int_equal(ticketing_op_status(pending), TICKETING_E_INDETERMINATE);
  assert_int_not_equal(ticketing_op_status(unsent), TICKETING_PENDING);
  assert_int_equal(ticketing_op_status(release), TICKETING_E_INDETERMINATE);
  assert_int_equal(ticketing_op_wait(pending, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_ticket_release_start(other, NULL, NULL, &late), TICKETING_OK);
  assert_int_equal(ticketing_op_status(late), TICKETING_E_CLOSED);
  ticketing_op_free(late);
  ticketing_op_free(pending);
  ticketing_op_free(unsent);
  ticketing_op_free(release);
  ticketing_ticket_free(other);
  end_fixture(&f);
}

static void dispatch_of_a_closed_broker_says_closed(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_CALLER);
  assert_int_equal(ticketing_broker_close(f.broker), TICKETING_OK);
  assert_int_equal(ticketing_broker_dispatch(f.broker, TICKETING_FOREVER), TICKETING_E_CLOSED);
  end_fixture(&f);
}

static void b7_the_descriptor_is_quiet_after_the_close(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_CALLER);
  int fd = ticketing_broker_fd(f.broker);
  ticketing_op *op, *woken;
  assert_int_equal(ticketing_broker_close_start(f.broker, NULL, NULL, &op), TICKETING_OK);
  drive_until(f.broker, op);
  assert_false(readable(fd));
  assert_int_equal(ticketing_broker_dispatch(f.broker, 0), TICKETING_E_CLOSED);
  assert_false(readable(fd));
  usleep(20 * 1000); /* a timer left armed would show */
  assert_false(readable(fd));
  woken = start_acquire(f.broker, "k", 1, NULL, NULL);
  assert_int_equal(ticketing_op_status(woken), TICKETING_E_CLOSED);
  assert_false(readable(fd));
  ticketing_op_wake(op);
  assert_int_equal(ticketing_broker_dispatch(f.broker, 0), TICKETING_E_CLOSED);
  assert_false(readable(fd));
  ticketing_op_free(woken);
  ticketing_op_free(op);
  end_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(polling_one_descriptor_carries_everything),
      cmocka_unit_test(timers_are_inside_the_descriptor),
      cmocka_unit_test(nothing_is_sent_before_dispatch_or_flush),
      cmocka_unit_test(a_second_dispatcher_gets_e_state_at_once),
      cmocka_unit_test(thread_mode_has_no_descriptor_and_no_dispatch),
      cmocka_unit_test(free_sends_at_once_what_the_socket_takes),
      cmocka_unit_test(dispatch_of_a_closed_broker_says_closed),
      cmocka_unit_test(b7_the_descriptor_is_quiet_after_the_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
