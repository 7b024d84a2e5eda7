/* Whole flows with every allocation failing in turn: each call answers, nothing crashes, and what
 * comes after works. The test replaces the allocator, so sanitizers, which do the same, skip it. */
#include "unit/abi/abi_test.h"

#include <errno.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REPLACED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define REPLACED 0
#endif
#endif
#ifndef REPLACED
#define REPLACED 1
#endif

#if REPLACED
static atomic_long countdown = -1; /* allocations until one fails; below 0: none does */
static atomic_bool failed;         /* one did */
static pthread_t exempt;           /* the server's thread */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static bool fails(void) {
  if (atomic_load(&countdown) < 0 || pthread_equal(pthread_self(), exempt)) return false;
  if (atomic_fetch_sub(&countdown, 1) != 0) return false;
  atomic_store(&failed, true);
  errno = ENOMEM;
  return true;
}

__attribute__((visibility("default"))) void *malloc(size_t size) {
  return fails() ? NULL : __libc_malloc(size);
}
__attribute__((visibility("default"))) void *calloc(size_t count, size_t size) {
  return fails() ? NULL : __libc_calloc(count, size);
}
__attribute__((visibility("default"))) void *realloc(void *old, size_t size) {
  return fails() ? NULL : __libc_realloc(old, size);
}
#endif

/* A result an allocation that failed may lead to. */
static void plausible(int rc) {
  switch (rc) {
  case TICKETING_OK:
  case TICKETING_NOT_CURRENT:
  case TICKETING_E_NO_MEMORY:
  case TICKETING_E_SYSTEM:
  case TICKETING_E_NOT_CONNECTED:
  case TICKETING_E_TIMEOUT:
  case TICKETING_E_INDETERMINATE:
  case TICKETING_E_CLOSED:
    return;
  default:
    fail_msg("%s", ticketing_error_name(rc));
  }
}

static void acquire_and_release(ticketing_broker *broker, ticketing_queue *queue) {
  ticketing_key key = {"k", 1};
  ticketing_acquire_params p = params_for(&key, 2);
  ticketing_op *op, *release;
  ticketing_ticket *ticket = NULL;
  int rc = ticketing_acquire_start(broker, &p, queue, NULL, &op, NULL);
  plausible(rc);
  if (rc != TICKETING_OK) return;
  assert_int_equal(ticketing_op_wait(op, TICKETING_FOREVER), TICKETING_OK);
  rc = ticketing_op_take_ticket(op, &ticket);
  plausible(rc);
  ticketing_op_free(op);
  if (rc != TICKETING_OK) return;
  rc = ticketing_ticket_release_start(ticket, queue, NULL, &release);
  plausible(rc);
  if (rc == TICKETING_OK) {
    assert_int_equal(ticketing_op_wait(release, TICKETING_FOREVER), TICKETING_OK);
    plausible(ticketing_op_status(release));
    ticketing_op_free(release);
  }
  ticketing_ticket_free(ticket);
}

static void whole_flow(const char *address, int mode) {
  ticketing_options *options;
  ticketing_broker *broker = NULL;
  ticketing_queue *queue = NULL;
  int rc = ticketing_options_new(&options);
  plausible(rc);
  if (rc != TICKETING_OK) return;
  rc = ticketing_options_add_address(options, address);
  if (rc == TICKETING_OK) rc = ticketing_options_set_token(options, "secret", 6);
  if (rc == TICKETING_OK) rc = ticketing_options_set_io_mode(options, mode);
  if (rc == TICKETING_OK) rc = ticketing_broker_open(options, &broker);
  plausible(rc);
  ticketing_options_free(options);
  if (rc != TICKETING_OK) {
    assert_null(broker);
    return;
  }
  rc = ticketing_broker_wait_ready(broker, 10 * TICKETING_SECOND);
  plausible(rc);
  rc = ticketing_queue_new(broker, &queue);
  plausible(rc);
  for (int i = 0; i < 2; i++)
    acquire_and_release(broker, queue);
  ticketing_key key = {"k", 1};
  rc = ticketing_release(broker, &key, 1, 4711, NULL);
  plausible(rc);
  plausible(ticketing_broker_close(broker));
  ticketing_queue_free(queue);
  ticketing_broker_free(broker);
}

static void every_allocation_in_turn(int mode) {
#if !REPLACED
  (void)mode;
  (void)plausible;
  (void)whole_flow;
  skip();
#else
  struct lock_server *server = lock_server_start();
  exempt = server->thread;
  whole_flow(server->address, mode); /* warms up what is made once a process, in libcrypto */
  long n = 0;
  do {
    atomic_store(&failed, false);
    atomic_store(&countdown, n++);
    whole_flow(server->address, mode);
    atomic_store(&countdown, -1);
    EVENTUALLY(atomic_load(&server->held_now) == 0);
  } while (atomic_load(&failed));
  assert_true(n > 10); /* there were allocations, and each failed once */
  lock_server_stop(server);
#endif
}

static void every_allocation_fails_once_in_thread_mode(void **state) {
  (void)state;
  every_allocation_in_turn(TICKETING_IO_THREAD);
}
static void every_allocation_fails_once_in_caller_mode(void **state) {
  (void)state;
  every_allocation_in_turn(TICKETING_IO_CALLER);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_allocation_fails_once_in_thread_mode),
      cmocka_unit_test(every_allocation_fails_once_in_caller_mode),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
