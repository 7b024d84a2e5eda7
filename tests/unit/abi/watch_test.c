/* Watches of tickets, through the public interface (G2). */
#include "unit/abi/abi_test.h"

static ticketing_op *watch(ticketing_ticket *ticket, int64_t lead_ns, ticketing_queue *queue) {
  ticketing_op *op = NULL;
  assert_int_equal(ticketing_ticket_watch_start(ticket, lead_ns, queue, queue, &op), TICKETING_OK);
  assert_int_equal(ticketing_op_kind(op), TICKETING_OP_WATCH);
  return op;
}

static void g2_a_watch_reports_to_its_queue_before_validity_ends(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_queue *queue;
  assert_int_equal(ticketing_queue_new(f.broker, &queue), TICKETING_OK);
  ticketing_ticket *ticket = must_acquire(f.broker, "k"); /* lease 30 s */
  ticketing_op *far = watch(ticket, 0, NULL), *op;
  ticketing_op *near = watch(ticket, 29900 * TICKETING_MILLISECOND, queue);
  assert_int_equal(ticketing_queue_wait(queue, TICKETING_FOREVER, &op), TICKETING_OK);
  assert_ptr_equal(op, near);
  assert_ptr_equal(ticketing_op_user(op), queue);
  assert_int_equal(ticketing_op_status(near), TICKETING_OK);
  int64_t left = ticketing_ticket_valid_until_ns(ticket) - ticketing_now_ns();
  assert_true(left <= 29900 * TICKETING_MILLISECOND);
  assert_int_equal(ticketing_op_status(far), TICKETING_PENDING);
  assert_int_equal(ticketing_ticket_release(ticket, NULL), TICKETING_OK);
  assert_int_equal(ticketing_op_wait(far, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_op_status(far), TICKETING_NOT_CURRENT);
  ticketing_op_free(far);
  ticketing_op_free(near);
  ticketing_ticket_free(ticket);
  ticketing_queue_free(queue);
  end_fixture(&f);
}

static void g2_a_watch_neither_keeps_nor_releases_the_ticket(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_ticket *ticket = must_acquire(f.broker, "k");
  ticketing_op *op = watch(ticket, 0, NULL);
  ticketing_op_free(watch(ticket, TICKETING_SECOND, NULL)); /* pending: forgotten */
  ticketing_op_cancel(op);
  assert_int_equal(ticketing_op_wait(op, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_op_status(op), TICKETING_E_CANCELLED);
  ticketing_op_free(op);
  assert_int_equal(atomic_load(&f.server->held_now), 1);
  op = watch(ticket, 0, NULL);
  ticketing_ticket_free(ticket);
  assert_int_equal(ticketing_op_wait(op, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_op_status(op), TICKETING_NOT_CURRENT);
  EVENTUALLY(atomic_load(&f.server->held_now) == 0);
  ticketing_op_free(op);
  end_fixture(&f);
}

static void g2_a_watch_ends_in_a_dispatch_of_a_caller_broker(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_CALLER);
  ticketing_ticket *ticket = must_acquire(f.broker, "k");
  ticketing_op *op = watch(ticket, 29950 * TICKETING_MILLISECOND, NULL);
  while (ticketing_op_status(op) == TICKETING_PENDING)
    assert_true(ticketing_broker_dispatch(f.broker, TICKETING_FOREVER) >= 0);
  assert_int_equal(ticketing_op_status(op), TICKETING_OK);
  assert_true(ticketing_ticket_remaining_ns(ticket) <= 29950 * TICKETING_MILLISECOND);
  ticketing_op_free(op);
  ticketing_ticket_free(ticket);
  end_fixture(&f);
}

static void b7_watches_end_with_the_broker(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_ticket *ticket = must_acquire(f.broker, "k");
  ticketing_op *op = watch(ticket, 0, NULL), *late;
  assert_int_equal(ticketing_broker_close(f.broker), TICKETING_OK);
  assert_int_equal(ticketing_op_wait(op, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_op_status(op), TICKETING_E_CLOSED);
  late = watch(ticket, 0, NULL);
  assert_int_equal(ticketing_op_wait(late, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_op_status(late), TICKETING_E_CLOSED);
  ticketing_op_free(op);
  ticketing_op_free(late);
  ticketing_ticket_free(ticket);
  end_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(g2_a_watch_reports_to_its_queue_before_validity_ends),
      cmocka_unit_test(g2_a_watch_neither_keeps_nor_releases_the_ticket),
      cmocka_unit_test(g2_a_watch_ends_in_a_dispatch_of_a_caller_broker),
      cmocka_unit_test(b7_watches_end_with_the_broker),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
