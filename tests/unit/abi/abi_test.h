/* What the tests of the public interface share: a server, a broker on it, short calls. */
#ifndef TESTS_UNIT_ABI_ABI_TEST_H
#define TESTS_UNIT_ABI_ABI_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ticketing.h>

#include "unit/abi/lock_server.h"

#if defined(__GNUC__)
#define MAYBE_UNUSED __attribute__((unused))
#else
#define MAYBE_UNUSED
#endif

/* Children of the tests start threads and exit beside running ones, which the sanitizers take for
 * mistakes: ThreadSanitizer is told so, and the leak check is left to the parent. */
const char *__tsan_default_options(void);
int __lsan_is_turned_off(void);
#define SEEN_BY_SANITIZERS __attribute__((visibility("default")))
static bool leaks_are_not_ours;
SEEN_BY_SANITIZERS const char *__tsan_default_options(void) {
  return "die_after_fork=0";
}
SEEN_BY_SANITIZERS int __lsan_is_turned_off(void) {
  return leaks_are_not_ours;
}

struct fixture {
  struct lock_server *server;
  ticketing_broker *broker;
};

static MAYBE_UNUSED ticketing_broker *open_broker(const char *address, int io_mode) {
  ticketing_options *options;
  ticketing_broker *broker = NULL;
  assert_int_equal(ticketing_options_new(&options), TICKETING_OK);
  assert_int_equal(ticketing_options_add_address(options, address), TICKETING_OK);
  assert_int_equal(ticketing_options_set_io_mode(options, io_mode), TICKETING_OK);
  assert_int_equal(ticketing_broker_open(options, &broker), TICKETING_OK);
  ticketing_options_free(options);
  return broker;
}

static MAYBE_UNUSED struct fixture start_fixture(int io_mode) {
  struct fixture f;
  f.server = lock_server_start();
  f.broker = open_broker(f.server->address, io_mode);
  assert_int_equal(ticketing_broker_wait_ready(f.broker, 10 * TICKETING_SECOND), TICKETING_OK);
  return f;
}

static MAYBE_UNUSED void end_fixture(struct fixture *f) {
  if (f->broker) {
    assert_int_equal(ticketing_broker_close(f->broker), TICKETING_OK);
    ticketing_broker_free(f->broker);
  }
  lock_server_stop(f->server);
}

static MAYBE_UNUSED ticketing_acquire_params params_for(const ticketing_key *key, int64_t wait_s) {
  ticketing_acquire_params p = TICKETING_ACQUIRE_PARAMS_INIT;
  p.keys = key;
  p.key_count = 1;
  p.wait_ns = wait_s * TICKETING_SECOND;
  p.lease_ns = 30 * TICKETING_SECOND;
  return p;
}

static MAYBE_UNUSED ticketing_op *start_acquire(ticketing_broker *broker, const char *name,
                                                int64_t wait_s, ticketing_queue *queue,
                                                void *user) {
  ticketing_key key = {name, strlen(name)};
  ticketing_acquire_params p = params_for(&key, wait_s);
  ticketing_op *op = NULL;
  assert_int_equal(ticketing_acquire_start(broker, &p, queue, user, &op, NULL), TICKETING_OK);
  assert_non_null(op);
  return op;
}

static MAYBE_UNUSED int acquire(ticketing_broker *broker, const char *name, int64_t wait_s,
                                ticketing_ticket **ticket, char *message) {
  ticketing_key key = {name, strlen(name)};
  ticketing_acquire_params p = params_for(&key, wait_s);
  return ticketing_acquire(broker, &p, ticket, message);
}

static MAYBE_UNUSED ticketing_ticket *must_acquire(ticketing_broker *broker, const char *name) {
  ticketing_ticket *ticket = NULL;
  char message[TICKETING_MESSAGE_SIZE] = "";
  int rc = acquire(broker, name, 20, &ticket, message);
  if (rc != TICKETING_OK)
    fail_msg("acquire of %s: %s (%s)", name, ticketing_error_name(rc), message);
  return ticket;
}

/* Polls a condition that another thread brings about; the limit only ends a hopeless wait. */
#define EVENTUALLY(condition)                                                                      \
  do {                                                                                             \
    bool met_ = false;                                                                             \
    for (int tries_ = 0; tries_ < 20000 && !(met_ = (condition)); tries_++)                        \
      usleep(1000);                                                                                \
    assert_true(met_);                                                                             \
  } while (0)

#endif
