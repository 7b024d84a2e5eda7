/* Handles are freed in any order, from any thread; a close ends what is pending; exit waits for
 * nothing. */
#include "unit/abi/abi_test.h"

#include <sys/wait.h>

enum { HANDLES = 5, ORDERS = 120 };

/* The `which`-th permutation of 0..4. */
static void permutation(int which, int order[HANDLES]) {
  int left[HANDLES] = {0, 1, 2, 3, 4};
  for (int i = 0, n = HANDLES; i < HANDLES; i++, n--) {
    int at = which % n;
    which /= n;
    order[i] = left[at];
    for (int j = at; j + 1 < n; j++)
      left[j] = left[j + 1];
  }
}

/* One of each handle, the pending op among them, freed in every order. */
static void free_in_every_order(int mode) {
  struct lock_server *server = lock_server_start();
  for (int which = 0; which < ORDERS; which++) {
    ticketing_broker *broker = open_broker(server->address, mode);
    ticketing_queue *queue;
    ticketing_op *ended, *pending;
    ticketing_ticket *ticket;
    char name[16];
    snprintf(name, sizeof name, "k%d", which);
    assert_int_equal(ticketing_queue_new(broker, &queue), TICKETING_OK);
    ended = start_acquire(broker, name, 20, queue, NULL);
    assert_int_equal(ticketing_op_wait(ended, TICKETING_FOREVER), TICKETING_OK);
    assert_int_equal(ticketing_op_take_ticket(ended, &ticket), TICKETING_OK);
    pending = start_acquire(broker, name, 20, queue, NULL);
    int order[HANDLES];
    permutation(which, order);
    for (int i = 0; i < HANDLES; i++) {
      switch (order[i]) {
      case 0:
        ticketing_broker_free(broker);
        break;
      case 1:
        ticketing_queue_free(queue);
        break;
      case 2:
        ticketing_op_free(ended);
        break;
      case 3:
        ticketing_op_free(pending);
        break;
      default:
        ticketing_ticket_free(ticket);
        break;
      }
    }
  }
  lock_server_stop(server);
}

static void handles_are_freed_in_every_order_in_thread_mode(void **state) {
  (void)state;
  free_in_every_order(TICKETING_IO_THREAD);
}
static void handles_are_freed_in_every_order_in_caller_mode(void **state) {
  (void)state;
  free_in_every_order(TICKETING_IO_CALLER);
}

static void b7_close_ends_what_is_pending(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_ticket *holder = must_acquire(f.broker, "k");
  ticketing_op *sent = start_acquire(f.broker, "k", 60, NULL, NULL);
  EVENTUALLY(atomic_load(&f.server->acquires) == 2);
  assert_int_equal(ticketing_broker_close(f.broker), TICKETING_OK);
  assert_int_equal(ticketing_op_status(sent), TICKETING_E_INDETERMINATE);
  assert_int_equal(atomic_load(&f.server->held_now), 1); /* held tickets are not released by it */
  ticketing_op_free(sent);
  ticketing_ticket_free(holder);
  end_fixture(&f);
}

static void free_finishes_releases_in_the_background(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_ticket *ticket = must_acquire(f.broker, "k");
  ticketing_ticket_free(ticket);
  ticketing_broker_free(f.broker);
  f.broker = NULL;
  EVENTUALLY(atomic_load(&f.server->held_now) == 0);
  end_fixture(&f);
}

static void pending_op_survives_the_broker_handle(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_ticket *holder = must_acquire(f.broker, "k");
  ticketing_op *op = start_acquire(f.broker, "k", 60, NULL, NULL);
  EVENTUALLY(atomic_load(&f.server->acquires) == 2);
  ticketing_broker_free(f.broker);
  f.broker = NULL;
  assert_int_equal(ticketing_op_wait(op, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_op_status(op), TICKETING_E_INDETERMINATE);
  int rc = ticketing_ticket_release(holder, NULL);
  assert_int_equal(rc, TICKETING_E_CLOSED);
  ticketing_op_free(op);
  ticketing_ticket_free(holder);
  end_fixture(&f);
}

static unsigned open_descriptors(void) {
  unsigned n = 0;
  for (int fd = 0; fd < 1024; fd++)
    n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

static void no_descriptor_is_left_behind(void **state) {
  (void)state;
  struct lock_server *server = lock_server_start();
  unsigned before = open_descriptors();
  for (int mode = 0; mode < 2; mode++)
    for (int i = 0; i < 10; i++) {
      ticketing_broker *broker = open_broker(server->address, mode);
      ticketing_queue *queue;
      assert_int_equal(ticketing_queue_new(broker, &queue), TICKETING_OK);
      ticketing_ticket *ticket = must_acquire(broker, "k");
      ticketing_ticket_free(ticket);
      assert_int_equal(ticketing_broker_close(broker), TICKETING_OK);
      ticketing_broker_free(broker);
      ticketing_queue_free(queue);
    }
  EVENTUALLY(open_descriptors() <= before); /* the server closes its side, the threads end */
  lock_server_stop(server);
}

/* A program that exits with everything open: in a child made before any thread of the library. */
static void exit_with_an_open_broker_is_quick_and_keeps_its_status(void **state) {
  (void)state;
  struct lock_server *server = lock_server_start();
  for (int mode = 0; mode < 2; mode++) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      leaks_are_not_ours = true;
      ticketing_broker *broker = open_broker(server->address, mode);
      ticketing_queue *queue;
      ticketing_ticket *ticket = NULL;
      if (ticketing_queue_new(broker, &queue) != TICKETING_OK) _exit(1);
      if (acquire(broker, "exit", 20, &ticket, NULL) != TICKETING_OK) _exit(2);
      start_acquire(broker, "exit", 60, queue, NULL);
      exit(37);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 37);
    ticketing_broker *broker = open_broker(server->address, mode);
    ticketing_key key = {"exit", 4};
    /* The grant of the one that exited stays until its lease ends (R5): by token it goes. */
    assert_int_equal(ticketing_release(broker, &key, 1, (uint64_t)mode + 1, NULL), TICKETING_OK);
    ticketing_broker_free(broker);
  }
  lock_server_stop(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exit_with_an_open_broker_is_quick_and_keeps_its_status),
      cmocka_unit_test(handles_are_freed_in_every_order_in_thread_mode),
      cmocka_unit_test(handles_are_freed_in_every_order_in_caller_mode),
      cmocka_unit_test(b7_close_ends_what_is_pending),
      cmocka_unit_test(free_finishes_releases_in_the_background),
      cmocka_unit_test(pending_op_survives_the_broker_handle),
      cmocka_unit_test(no_descriptor_is_left_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
