/* Operations: wait, wake, signals, cancel, take. */
#include "unit/abi/abi_test.h"

#include <signal.h>

static void a_wait_ends_with_the_op_and_again_at_once(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  int mark;
  ticketing_op *op = start_acquire(f.broker, "k", 5, NULL, &mark);
  assert_ptr_equal(ticketing_op_user(op), &mark);
  assert_int_equal(ticketing_op_kind(op), TICKETING_OP_ACQUIRE);
  assert_int_equal(ticketing_op_wait(op, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_op_wait(op, 0), TICKETING_OK);
  assert_int_equal(ticketing_op_status(op), TICKETING_OK);
  assert_int_equal(ticketing_op_attempts(op), 1);
  ticketing_ticket *ticket, *again;
  assert_int_equal(ticketing_op_take_ticket(op, &ticket), TICKETING_OK);
  assert_int_equal(ticketing_op_take_ticket(op, &again), TICKETING_E_STATE);
  assert_null(again);
  ticketing_op_cancel(op); /* harmless: it was taken */
  ticketing_op_free(op);   /* the ticket stays */
  assert_int_equal(ticketing_ticket_release(ticket, NULL), TICKETING_OK);
  ticketing_ticket_free(ticket);
  end_fixture(&f);
}

static void a_wait_ends_at_its_limit_and_the_op_goes_on(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_ticket *holder = must_acquire(f.broker, "k"), *ticket;
  ticketing_op *op = start_acquire(f.broker, "k", 60, NULL, NULL);
  assert_int_equal(ticketing_op_wait(op, 0), TICKETING_PENDING);
  assert_int_equal(ticketing_op_wait(op, 20 * TICKETING_MILLISECOND), TICKETING_PENDING);
  assert_int_equal(ticketing_op_take_ticket(op, &ticket), TICKETING_PENDING);
  char text[64] = "x";
  assert_true(ticketing_op_message(op, text, sizeof text) > 0);
  ticketing_ticket_free(holder);
  assert_int_equal(ticketing_op_wait(op, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_op_take_ticket(op, &ticket), TICKETING_OK);
  ticketing_ticket_free(ticket);
  ticketing_op_free(op);
  end_fixture(&f);
}

static void g3_a_grant_cancelled_before_it_is_taken_is_released(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_op *op = start_acquire(f.broker, "k", 5, NULL, NULL);
  assert_int_equal(ticketing_op_wait(op, TICKETING_FOREVER), TICKETING_OK);
  ticketing_op_cancel(op);
  ticketing_ticket *ticket;
  assert_int_equal(ticketing_op_status(op), TICKETING_OK);
  assert_int_equal(ticketing_op_take_ticket(op, &ticket), TICKETING_E_CANCELLED);
  EVENTUALLY(atomic_load(&f.server->held_now) == 0);
  ticketing_op_free(op);
  op = start_acquire(f.broker, "k", 5, NULL, NULL);
  assert_int_equal(ticketing_op_wait(op, TICKETING_FOREVER), TICKETING_OK);
  ticketing_op_free(op); /* nobody took it */
  EVENTUALLY(atomic_load(&f.server->held_now) == 0);
  assert_int_equal(atomic_load(&f.server->accepted), 2); /* no session was closed for it */
  end_fixture(&f);
}

static void s3_cancel_after_send_is_indeterminate_and_leaves_no_grant(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_ticket *holder = must_acquire(f.broker, "k"), *ticket;
  ticketing_op *op = start_acquire(f.broker, "k", 60, NULL, NULL);
  EVENTUALLY(atomic_load(&f.server->acquires) == 2);
  ticketing_op_cancel(op);
  assert_int_equal(ticketing_op_wait(op, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_op_status(op), TICKETING_E_INDETERMINATE);
  assert_int_equal(ticketing_op_take_ticket(op, &ticket), TICKETING_E_INDETERMINATE);
  ticketing_op_free(op);
  ticketing_ticket_free(holder);
  EVENTUALLY(atomic_load(&f.server->held_now) == 0);
  ticket = must_acquire(f.broker, "k");
  ticketing_ticket_free(ticket);
  end_fixture(&f);
}

static void s3_cancel_before_anything_was_sent_is_cancelled(void **state) {
  (void)state;
  struct lock_server *server = lock_server_start();
  ticketing_broker *broker = open_broker(server->address, TICKETING_IO_CALLER);
  ticketing_op *op = start_acquire(broker, "k", 60, NULL, NULL);
  ticketing_op_cancel(op);
  assert_int_equal(ticketing_op_status(op), TICKETING_PENDING);
  assert_true(ticketing_broker_dispatch(broker, 0) >= 0);
  assert_int_equal(ticketing_op_status(op), TICKETING_E_CANCELLED);
  ticketing_op_free(op);
  assert_int_equal(atomic_load(&server->acquires), 0);
  ticketing_broker_free(broker);
  lock_server_stop(server);
}

static void g1_a_ticket_taken_too_late_is_given_back(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_key key = {"k", 1};
  ticketing_acquire_params p = params_for(&key, 1);
  p.lease_ns = TICKETING_SECOND;
  p.budget_ns = 700 * TICKETING_MILLISECOND;
  ticketing_op *op;
  assert_int_equal(ticketing_acquire_start(f.broker, &p, NULL, NULL, &op, NULL), TICKETING_OK);
  assert_int_equal(ticketing_op_wait(op, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_op_status(op), TICKETING_OK);
  usleep(400 * 1000);
  ticketing_ticket *ticket;
  assert_int_equal(ticketing_op_take_ticket(op, &ticket), TICKETING_E_INSUFFICIENT_LEASE);
  assert_null(ticket);
  assert_int_equal(ticketing_op_status(op), TICKETING_E_INSUFFICIENT_LEASE);
  assert_int_equal(ticketing_op_take_ticket(op, &ticket), TICKETING_E_INSUFFICIENT_LEASE);
  char text[TICKETING_MESSAGE_SIZE];
  ticketing_op_message(op, text, sizeof text);
  assert_non_null(strstr(text, "budget of 0.700"));
  EVENTUALLY(atomic_load(&f.server->held_now) == 0);
  ticketing_counter counters[64];
  size_t n = ticketing_broker_counters(f.broker, counters, 64), found = 0;
  for (size_t i = 0; i < n && i < 64; i++)
    if (strcmp(counters[i].name, "tickets_taken_too_late") == 0 && counters[i].value == 1) found++;
  assert_int_equal(found, 1);
  ticketing_op_free(op);
  end_fixture(&f);
}

/* --- interruption ---------------------------------------------------------------------------- */

struct waiting {
  ticketing_op *op;
  atomic_int result;
  atomic_bool done;
};

static void *wait_forever(void *argument) {
  struct waiting *w = argument;
  atomic_store(&w->result, ticketing_op_wait(w->op, TICKETING_FOREVER));
  atomic_store(&w->done, true);
  return NULL;
}

static void on_signal(int number) {
  (void)number;
}

/* In both modes: a thread waits for an op that stays pending. */
static void interruption(int mode, bool by_signal, int sa_flags) {
  struct fixture f = start_fixture(mode);
  ticketing_ticket *holder = must_acquire(f.broker, "k");
  struct waiting w = {.op = start_acquire(f.broker, "k", 60, NULL, NULL)};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = sa_flags};
  sigaction(SIGUSR2, &action, NULL);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, wait_forever, &w), 0);
  if (by_signal) {
    /* A signal that comes before the sleep goes unseen, so again until one is seen. */
    while (!atomic_load(&w.done)) {
      pthread_kill(thread, SIGUSR2);
      usleep(1000);
    }
  } else {
    ticketing_op_wake(w.op); /* also when it comes before the wait */
  }
  pthread_join(thread, NULL);
  assert_int_equal(atomic_load(&w.result), TICKETING_E_INTERRUPTED);
  assert_int_equal(ticketing_op_status(w.op), TICKETING_PENDING);
  assert_int_equal(ticketing_op_wait(w.op, TICKETING_MILLISECOND), TICKETING_PENDING); /* once */
  ticketing_ticket_free(holder);
  assert_int_equal(ticketing_op_wait(w.op, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_op_status(w.op), TICKETING_OK);
  ticketing_op_free(w.op);
  end_fixture(&f);
}

static void signal_interrupts_a_wait_in_thread_mode(void **state) {
  (void)state;
  interruption(TICKETING_IO_THREAD, true, 0);
}
static void signal_with_sa_restart_interrupts_a_wait_in_thread_mode(void **state) {
  (void)state;
  interruption(TICKETING_IO_THREAD, true, SA_RESTART);
}
static void signal_with_sa_restart_interrupts_a_wait_in_caller_mode(void **state) {
  (void)state;
  interruption(TICKETING_IO_CALLER, true, SA_RESTART);
}
static void wake_interrupts_a_wait_once_in_thread_mode(void **state) {
  (void)state;
  interruption(TICKETING_IO_THREAD, false, 0);
}
static void wake_interrupts_a_wait_once_in_caller_mode(void **state) {
  (void)state;
  interruption(TICKETING_IO_CALLER, false, 0);
}

static void the_io_thread_takes_no_signal(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  /* SIGUSR1 has no handler here: would a thread of the library take it, the test would die. The
   * server's thread is the test's own, so it goes first. */
  lock_server_stop(f.server);
  kill(getpid(), SIGUSR1);
  usleep(20 * 1000);
  int taken = 0;
  assert_int_equal(sigwait(&set, &taken), 0);
  assert_int_equal(taken, SIGUSR1);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  ticketing_broker_free(f.broker);
}

static void blocking_calls_go_on_through_signals(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_ticket *holder = must_acquire(f.broker, "k"), *ticket = NULL;
  struct sigaction action = {.sa_handler = on_signal};
  struct itimerspec every = {.it_interval = {.tv_nsec = 5000000}, .it_value = {.tv_nsec = 5000000}};
  sigaction(SIGUSR2, &action, NULL);
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
  assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  timer_settime(timer, 0, &every, NULL);
  assert_int_equal(acquire(f.broker, "k", 1, &ticket, NULL), TICKETING_E_TIMEOUT);
  timer_delete(timer);
  ticketing_ticket_free(holder);
  end_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_wait_ends_with_the_op_and_again_at_once),
      cmocka_unit_test(a_wait_ends_at_its_limit_and_the_op_goes_on),
      cmocka_unit_test(g3_a_grant_cancelled_before_it_is_taken_is_released),
      cmocka_unit_test(s3_cancel_after_send_is_indeterminate_and_leaves_no_grant),
      cmocka_unit_test(s3_cancel_before_anything_was_sent_is_cancelled),
      cmocka_unit_test(g1_a_ticket_taken_too_late_is_given_back),
      cmocka_unit_test(signal_interrupts_a_wait_in_thread_mode),
      cmocka_unit_test(signal_with_sa_restart_interrupts_a_wait_in_thread_mode),
      cmocka_unit_test(signal_with_sa_restart_interrupts_a_wait_in_caller_mode),
      cmocka_unit_test(wake_interrupts_a_wait_once_in_thread_mode),
      cmocka_unit_test(wake_interrupts_a_wait_once_in_caller_mode),
      cmocka_unit_test(the_io_thread_takes_no_signal),
      cmocka_unit_test(blocking_calls_go_on_through_signals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
