/* B9: after fork() the child's handles are dead, and the parent notices nothing. */
#include "unit/abi/abi_test.h"

#include <sys/wait.h>

/* The child's checks; 0, or the line of the first that failed. */
#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) return __LINE__ % 250 + 1;                                                   \
  } while (0)

struct handles {
  ticketing_broker *broker;
  ticketing_queue *queue;
  ticketing_op *ended, *pending;
  ticketing_ticket *ticket;
};

static int every_entry_says_forked(const struct handles *h) {
  ticketing_key key = {"k", 1};
  ticketing_acquire_params p = params_for(&key, 1);
  ticketing_op *op;
  ticketing_ticket *ticket;
  ticketing_queue *queue;
  char message[TICKETING_MESSAGE_SIZE] = "";
  const int forked = TICKETING_E_FORKED;
  CHECK(ticketing_acquire(h->broker, &p, &ticket, message) == forked);
  CHECK(strstr(message, "parent"));
  CHECK(ticketing_acquire_start(h->broker, &p, h->queue, NULL, &op, message) == forked && !op);
  CHECK(ticketing_broker_wait_ready(h->broker, 0) == forked);
  CHECK(ticketing_broker_wait_ready_start(h->broker, 0, NULL, NULL, &op) == forked);
  CHECK(ticketing_broker_close(h->broker) == forked);
  CHECK(ticketing_broker_close_start(h->broker, NULL, NULL, &op) == forked);
  CHECK(ticketing_broker_fd(h->broker) == -1);
  CHECK(ticketing_broker_dispatch(h->broker, 0) == forked);
  CHECK(ticketing_broker_flush(h->broker) == forked);
  CHECK(ticketing_broker_counters(h->broker, NULL, 0) == 0);
  CHECK(ticketing_queue_new(h->broker, &queue) == forked);
  CHECK(ticketing_queue_fd(h->queue) == -1);
  CHECK(ticketing_queue_next(h->queue, &op) == forked);
  CHECK(ticketing_queue_wait(h->queue, 0, &op) == forked);
  CHECK(ticketing_op_status(h->pending) == forked);
  CHECK(ticketing_op_wait(h->pending, TICKETING_FOREVER) == forked);
  CHECK(ticketing_op_take_ticket(h->ended, &ticket) == forked);
  CHECK(ticketing_op_message(h->pending, message, sizeof message) > 0);
  CHECK(strstr(message, "parent"));
  CHECK(ticketing_op_attempts(h->ended) == 0);
  ticketing_op_wake(h->pending);
  ticketing_op_cancel(h->pending);
  CHECK(ticketing_ticket_token(h->ticket) == 0);
  CHECK(ticketing_ticket_key_count(h->ticket) == 0);
  CHECK(ticketing_ticket_key(h->ticket, 0).data == NULL);
  CHECK(ticketing_ticket_valid_until_ns(h->ticket) == 0);
  CHECK(ticketing_ticket_remaining_ns(h->ticket) == 0);
  CHECK(ticketing_ticket_release(h->ticket, message) == forked);
  CHECK(ticketing_ticket_release_start(h->ticket, NULL, NULL, &op) == forked);
  CHECK(ticketing_ticket_watch_start(h->ticket, 0, NULL, NULL, &op) == forked);
  ticketing_log_entry entry = TICKETING_LOG_ENTRY_INIT;
  CHECK(ticketing_broker_log_next(h->broker, &entry) == forked);
  CHECK(ticketing_release(h->broker, &key, 1, 1, message) == forked);
  CHECK(ticketing_release_start(h->broker, &key, 1, 1, NULL, NULL, &op, message) == forked);
  ticketing_ticket_detach(h->ticket);
  return 0;
}

static unsigned sockets_open(void) {
  unsigned n = 0;
  for (int fd = 3; fd < 1024; fd++) {
    int type;
    socklen_t len = sizeof type;
    n += getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0;
  }
  return n;
}

static int child(const struct handles *h, const char *address, unsigned sessions) {
  int rc = every_entry_says_forked(h);
  if (rc != 0) return rc;
  int queue_fd = h->queue ? 1 : 0;
  CHECK(queue_fd);
  unsigned before = sockets_open();
  ticketing_ticket_free(h->ticket);
  ticketing_op_free(h->pending);
  ticketing_op_free(h->ended);
  ticketing_queue_free(h->queue);
  ticketing_broker_free(h->broker);
  CHECK(sockets_open() + sessions == before); /* closed what it inherited */
  /* A broker of its own works. */
  ticketing_broker *own;
  ticketing_ticket *ticket;
  CHECK(ticketing_connect(address, &own) == TICKETING_OK);
  CHECK(acquire(own, "child", 20, &ticket, NULL) == TICKETING_OK);
  CHECK(ticketing_ticket_release(ticket, NULL) == TICKETING_OK);
  ticketing_ticket_free(ticket);
  CHECK(ticketing_broker_close(own) == TICKETING_OK);
  ticketing_broker_free(own);
  return 0;
}

static void b9_the_child_is_dead_and_the_parent_untouched(int mode) {
  struct fixture f = start_fixture(mode);
  struct handles h = {.broker = f.broker};
  assert_int_equal(ticketing_queue_new(f.broker, &h.queue), TICKETING_OK);
  h.ended = start_acquire(f.broker, "k", 20, h.queue, NULL);
  assert_int_equal(ticketing_op_wait(h.ended, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_op_take_ticket(h.ended, &h.ticket), TICKETING_OK);
  h.pending = start_acquire(f.broker, "k", 60, h.queue, NULL);
  if (mode == TICKETING_IO_CALLER) assert_int_equal(ticketing_broker_flush(f.broker), 0);
  EVENTUALLY(atomic_load(&f.server->acquires) == 2 && atomic_load(&f.server->accepted) == 2);
  unsigned long long bytes = atomic_load(&f.server->bytes);
  /* In THREAD mode the second session may still be on its way: its proof counts as bytes. */
  EVENTUALLY((usleep(20 * 1000), bytes == atomic_load(&f.server->bytes)) ||
             ((bytes = atomic_load(&f.server->bytes)), false));
  for (int i = 0; i < 3; i++) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(every_entry_says_forked(&h));
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(atomic_load(&f.server->bytes) == bytes); /* not a byte was sent */
  }
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) _exit(child(&h, f.server->address, 2));
  int status = 0;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  /* The parent's sessions and hold are what they were. */
  assert_int_equal(ticketing_op_status(h.pending), TICKETING_PENDING);
  assert_int_equal(ticketing_ticket_release(h.ticket, NULL), TICKETING_OK);
  assert_int_equal(ticketing_op_wait(h.pending, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_op_status(h.pending), TICKETING_OK);
  ticketing_ticket_free(h.ticket);
  ticketing_op_free(h.pending);
  ticketing_op_free(h.ended);
  ticketing_queue_free(h.queue);
  end_fixture(&f);
}

static void b9_fork_in_thread_mode(void **state) {
  (void)state;
  b9_the_child_is_dead_and_the_parent_untouched(TICKETING_IO_THREAD);
}
static void b9_fork_in_caller_mode(void **state) {
  (void)state;
  b9_the_child_is_dead_and_the_parent_untouched(TICKETING_IO_CALLER);
}

/* Forks while other threads are inside the library: the child must never hang on what they held. */
struct busy {
  ticketing_broker *broker;
  atomic_bool stop;
};

static void *keep_busy(void *argument) {
  struct busy *b = argument;
  while (!atomic_load(&b->stop)) {
    ticketing_ticket *ticket = NULL;
    if (acquire(b->broker, "busy", 5, &ticket, NULL) == TICKETING_OK) ticketing_ticket_free(ticket);
  }
  return NULL;
}

static void b9_fork_under_load_never_hangs(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  struct busy b = {.broker = f.broker};
  pthread_t threads[3];
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, keep_busy, &b), 0);
  ticketing_op *op = start_acquire(f.broker, "busy", 60, NULL, NULL);
  for (int i = 0; i < 100; i++) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
      ticketing_ticket *ticket;
      if (acquire(f.broker, "busy", 5, &ticket, NULL) != TICKETING_E_FORKED) _exit(1);
      if (ticketing_op_wait(op, TICKETING_FOREVER) != TICKETING_E_FORKED) _exit(2);
      ticketing_op_free(op);
      ticketing_broker_free(f.broker);
      _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
  atomic_store(&b.stop, true);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  ticketing_op_free(op);
  end_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(b9_fork_in_thread_mode),
      cmocka_unit_test(b9_fork_in_caller_mode),
      cmocka_unit_test(b9_fork_under_load_never_hangs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
