/* Completion queues and their descriptor. */
#include "unit/abi/abi_test.h"

static bool readable(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  return poll(&p, 1, 0) == 1;
}

static bool wait_readable(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  return poll(&p, 1, 20000) == 1;
}

static void fd_is_readable_while_the_queue_holds_anything(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_queue *queue;
  assert_int_equal(ticketing_queue_new(f.broker, &queue), TICKETING_OK);
  int fd = ticketing_queue_fd(queue);
  assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  assert_int_equal(ticketing_queue_fd(queue), fd);
  ticketing_op *first = NULL, *ops[3];
  assert_int_equal(ticketing_queue_next(queue, &first), TICKETING_PENDING);
  assert_null(first);
  assert_false(readable(fd));
  const char *names[] = {"a", "b", "c"};
  int marks[3];
  for (int i = 0; i < 3; i++)
    ops[i] = start_acquire(f.broker, names[i], 5, queue, &marks[i]);
  for (int i = 0; i < 3; i++) {
    assert_true(wait_readable(fd));
    assert_true(readable(fd));
    ticketing_op *op;
    assert_int_equal(ticketing_queue_next(queue, &op), TICKETING_OK);
    int which = (int)((int *)ticketing_op_user(op) - marks);
    assert_ptr_equal(ops[which], op);
    assert_int_equal(ticketing_op_status(op), TICKETING_OK);
    ticketing_op_free(op);
  }
  assert_int_equal(ticketing_queue_next(queue, &first), TICKETING_PENDING);
  assert_false(readable(fd));
  ticketing_queue_free(queue);
  end_fixture(&f);
}

static void fd_asked_for_late_shows_what_is_there(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_queue *queue;
  assert_int_equal(ticketing_queue_new(f.broker, &queue), TICKETING_OK);
  ticketing_op *op = start_acquire(f.broker, "a", 5, queue, NULL), *got;
  assert_int_equal(ticketing_op_wait(op, TICKETING_FOREVER), TICKETING_OK);
  assert_true(wait_readable(ticketing_queue_fd(queue)));
  assert_int_equal(ticketing_queue_next(queue, &got), TICKETING_OK);
  assert_ptr_equal(got, op);
  assert_false(readable(ticketing_queue_fd(queue)));
  ticketing_op_free(op);
  ticketing_queue_free(queue);
  end_fixture(&f);
}

static void freeing_an_op_takes_it_out_of_its_queue(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_queue *queue;
  assert_int_equal(ticketing_queue_new(f.broker, &queue), TICKETING_OK);
  int fd = ticketing_queue_fd(queue);
  ticketing_op *op = start_acquire(f.broker, "a", 5, queue, NULL), *got;
  assert_true(wait_readable(fd));
  ticketing_op_free(op);
  assert_false(readable(fd));
  assert_int_equal(ticketing_queue_next(queue, &got), TICKETING_PENDING);
  ticketing_queue_free(queue);
  end_fixture(&f);
}

static void freeing_a_queue_detaches_its_ops(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_queue *queue;
  ticketing_ticket *holder = must_acquire(f.broker, "a"), *ticket;
  assert_int_equal(ticketing_queue_new(f.broker, &queue), TICKETING_OK);
  ticketing_op *ended = start_acquire(f.broker, "b", 5, queue, NULL);
  ticketing_op *pending = start_acquire(f.broker, "a", 20, queue, NULL);
  assert_int_equal(ticketing_op_wait(ended, TICKETING_FOREVER), TICKETING_OK);
  ticketing_queue_free(queue);
  ticketing_ticket_free(holder);
  assert_int_equal(ticketing_op_wait(pending, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_op_take_ticket(pending, &ticket), TICKETING_OK);
  ticketing_ticket_free(ticket);
  ticketing_op_free(ended);
  ticketing_op_free(pending);
  end_fixture(&f);
}

static void queue_wait(int mode) {
  struct fixture f = start_fixture(mode);
  ticketing_queue *queue;
  assert_int_equal(ticketing_queue_new(f.broker, &queue), TICKETING_OK);
  ticketing_op *got;
  assert_int_equal(ticketing_queue_wait(queue, 0, &got), TICKETING_PENDING);
  assert_int_equal(ticketing_queue_wait(queue, 10 * TICKETING_MILLISECOND, &got),
                   TICKETING_PENDING);
  assert_null(got);
  for (int i = 0; i < 50; i++) {
    ticketing_op *op = start_acquire(f.broker, "a", 5, queue, NULL), *release;
    assert_int_equal(ticketing_queue_wait(queue, TICKETING_FOREVER, &got), TICKETING_OK);
    assert_ptr_equal(got, op);
    ticketing_ticket *ticket;
    assert_int_equal(ticketing_op_take_ticket(op, &ticket), TICKETING_OK);
    ticketing_op_free(op);
    assert_int_equal(ticketing_ticket_release_start(ticket, queue, NULL, &release), TICKETING_OK);
    ticketing_ticket_free(ticket); /* at once: the release goes on */
    assert_int_equal(ticketing_queue_wait(queue, TICKETING_FOREVER, &got), TICKETING_OK);
    assert_ptr_equal(got, release);
    assert_int_equal(ticketing_op_kind(got), TICKETING_OP_RELEASE);
    assert_int_equal(ticketing_op_status(got), TICKETING_OK);
    ticketing_op_free(got);
  }
  ticketing_queue_free(queue);
  end_fixture(&f);
}

static void queue_wait_in_thread_mode(void **state) {
  (void)state;
  queue_wait(TICKETING_IO_THREAD);
}
static void queue_wait_in_caller_mode(void **state) {
  (void)state;
  queue_wait(TICKETING_IO_CALLER);
}

static void a_queue_of_another_broker_is_refused(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_broker *other = open_broker(f.server->address, TICKETING_IO_THREAD);
  ticketing_queue *queue;
  assert_int_equal(ticketing_queue_new(other, &queue), TICKETING_OK);
  ticketing_key key = {"k", 1};
  ticketing_acquire_params p = params_for(&key, 1);
  ticketing_op *op;
  char message[TICKETING_MESSAGE_SIZE];
  assert_int_equal(ticketing_acquire_start(f.broker, &p, queue, NULL, &op, message),
                   TICKETING_E_INVALID_ARGUMENT);
  assert_null(op);
  assert_non_null(strstr(message, "another broker"));
  ticketing_queue_free(queue);
  ticketing_broker_free(other);
  end_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fd_is_readable_while_the_queue_holds_anything),
      cmocka_unit_test(fd_asked_for_late_shows_what_is_there),
      cmocka_unit_test(freeing_an_op_takes_it_out_of_its_queue),
      cmocka_unit_test(freeing_a_queue_detaches_its_ops),
      cmocka_unit_test(queue_wait_in_thread_mode),
      cmocka_unit_test(queue_wait_in_caller_mode),
      cmocka_unit_test(a_queue_of_another_broker_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
