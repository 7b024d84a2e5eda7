/* The poller: timer and wake-up behind one level-triggered descriptor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/time.h"
#include "net/clock.h"
#include "net/poller.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

static struct tkt_poller poller;
static struct tkt_poll_event events[TKT_POLL_ROOM];

static int setup(void **state) {
  (void)state;
  return tkt_poller_open(&poller);
}

static int teardown(void **state) {
  (void)state;
  tkt_poller_close(&poller);
  return 0;
}

static bool readable(void) {
  struct pollfd p = {.fd = poller.fd, .events = POLLIN};
  return poll(&p, 1, 0) == 1;
}

static void wake_makes_the_descriptor_readable_until_collected(void **state) {
  (void)state;
  assert_false(readable());
  tkt_poller_wake(&poller);
  tkt_poller_wake(&poller);
  assert_true(readable());
  assert_true(readable());
  assert_int_equal(tkt_poller_wait(&poller, events, 8, true), 0);
  assert_false(readable());
  tkt_poller_wake(&poller);
  assert_true(readable());
  assert_int_equal(tkt_poller_wait(&poller, events, 8, true), 0);
}

static void hush_disarms_and_takes_back(void **state) {
  (void)state;
  tkt_poller_arm(&poller, tkt_clock_now() + 5 * TKT_MS);
  tkt_poller_wake(&poller);
  tkt_poller_hush(&poller);
  assert_false(readable());
  usleep(10 * 1000);
  assert_false(readable());
  tkt_poller_arm(&poller, tkt_clock_now() + 1 * TKT_MS); /* and works on */
  assert_int_equal(tkt_poller_wait(&poller, events, 8, true), 0);
}

static void timer_fires_once_and_not_before_its_instant(void **state) {
  (void)state;
  int64_t due = tkt_clock_now() + 20 * TKT_MS;
  tkt_poller_arm(&poller, due);
  assert_int_equal(tkt_poller_wait(&poller, events, 8, true), 0);
  assert_true(tkt_clock_now() >= due);
  assert_true(poller.armed == TKT_NEVER);
  assert_false(readable());
}

static void timer_in_the_past_fires_at_once(void **state) {
  (void)state;
  tkt_poller_arm(&poller, 0);
  assert_int_equal(tkt_poller_wait(&poller, events, 8, true), 0);
  tkt_poller_arm(&poller, -5);
  assert_int_equal(tkt_poller_wait(&poller, events, 8, true), 0);
}

static void arming_later_keeps_the_earlier_instant(void **state) {
  (void)state;
  int64_t early = tkt_clock_now() + 10 * TKT_MS;
  tkt_poller_arm(&poller, early);
  tkt_poller_arm(&poller, early + 100 * TKT_S);
  tkt_poller_arm(&poller, TKT_NEVER);
  assert_true(poller.armed == early);
  assert_int_equal(tkt_poller_wait(&poller, events, 8, true), 0);
  int64_t far = tkt_clock_now() + 100 * TKT_S;
  tkt_poller_arm(&poller, far);
  tkt_poller_arm(&poller, far - 99 * TKT_S);
  assert_true(poller.armed == far - 99 * TKT_S);
}

static void descriptors_report_their_source_and_events(void **state) {
  (void)state;
  int p[2];
  char mark;
  assert_int_equal(pipe2(p, O_NONBLOCK | O_CLOEXEC), 0);
  assert_int_equal(tkt_poller_add(&poller, p[0], TKT_POLL_READ, &mark), 0);
  assert_int_equal(tkt_poller_add(&poller, p[0], TKT_POLL_READ, &mark), -EEXIST);
  assert_int_equal(tkt_poller_wait(&poller, events, 8, false), 0);
  assert_int_equal(write(p[1], "x", 1), 1);
  for (int i = 0; i < 2; i++) { /* level-triggered: reported again while not read */
    assert_int_equal(tkt_poller_wait(&poller, events, 8, true), 1);
    assert_ptr_equal(events[0].source, &mark);
    assert_int_equal(events[0].events, TKT_POLL_READ);
  }
  assert_int_equal(tkt_poller_change(&poller, p[0], 0, &mark), 0);
  assert_int_equal(tkt_poller_wait(&poller, events, 8, false), 0);
  assert_int_equal(tkt_poller_change(&poller, p[0], TKT_POLL_READ, &mark), 0);
  close(p[1]);
  assert_int_equal(tkt_poller_wait(&poller, events, 8, true), 1);
  assert_true(events[0].events & TKT_POLL_BROKEN);
  assert_true(events[0].events & TKT_POLL_READ);
  tkt_poller_remove(&poller, p[0]);
  assert_int_equal(tkt_poller_wait(&poller, events, 8, false), 0);
  close(p[0]);
}

static void bounded_wait_ends(void **state) {
  (void)state;
  int64_t before = tkt_clock_now();
  assert_int_equal(tkt_poller_wait_for(&poller, events, 8, 15 * TKT_MS), 0);
  assert_true(tkt_clock_now() - before >= 14 * TKT_MS);
}

static void on_signal(int number) {
  (void)number;
}

static void *interrupt(void *thread) {
  /* Again and again: the first may come before the other thread sleeps. */
  for (int i = 0; i < 2000 && poller.armed != 1; i++) {
    pthread_kill(*(pthread_t *)thread, SIGUSR1);
    usleep(1000);
  }
  return NULL;
}

static void signal_interrupts_a_wait(void **state) {
  (void)state;
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  pthread_t self = pthread_self(), other;
  assert_int_equal(pthread_create(&other, NULL, interrupt, &self), 0);
  assert_int_equal(tkt_poller_wait(&poller, events, 8, true), -EINTR);
  poller.armed = 1;
  pthread_join(other, NULL);
}

static void *wake_later(void *unused) {
  (void)unused;
  usleep(5000);
  tkt_poller_wake(&poller);
  return NULL;
}

static void wake_from_another_thread_ends_a_wait(void **state) {
  (void)state;
  pthread_t other;
  assert_int_equal(pthread_create(&other, NULL, wake_later, NULL), 0);
  assert_int_equal(tkt_poller_wait(&poller, events, 8, true), 0);
  pthread_join(other, NULL);
}

static void every_descriptor_is_close_on_exec(void **state) {
  (void)state;
  assert_true(fcntl(poller.fd, F_GETFD) & FD_CLOEXEC);
  assert_true(fcntl(poller.timer_fd, F_GETFD) & FD_CLOEXEC);
  assert_true(fcntl(poller.wake_fd, F_GETFD) & FD_CLOEXEC);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      T(wake_makes_the_descriptor_readable_until_collected),
      T(timer_fires_once_and_not_before_its_instant),
      T(timer_in_the_past_fires_at_once),
      T(hush_disarms_and_takes_back),
      T(arming_later_keeps_the_earlier_instant),
      T(descriptors_report_their_source_and_events),
      T(bounded_wait_ends),
      T(signal_interrupts_a_wait),
      T(wake_from_another_thread_ends_a_wait),
      T(every_descriptor_is_close_on_exec),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
