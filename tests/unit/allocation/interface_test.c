/* The public interface with each allocation refused in turn, in both modes, against a lock server
 * on a thread of its own: every call answers with the right code, handles come and go, nothing is
 * left, and the same broker grants again once memory is back. */
#include "unit/abi/abi_test.h"

#include "unit/allocation/allocator.h"

enum { ROUNDS = 3, TRIES_AFTERWARDS = 2 * ALLOCATOR_A_FEW };

struct flow {
  struct lock_server *server;
  int mode;
};

static void one_of(int rc, const int *codes, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (rc == codes[i]) return;
  fail_msg("%s", ticketing_error_name(rc));
}
#define ONE_OF(rc, ...)                                                                            \
  one_of((rc), (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* A start: it started, or there was no memory for it and nothing did. */
static bool started(int rc, ticketing_op *const *op) {
  ONE_OF(rc, TICKETING_OK, TICKETING_E_NO_MEMORY);
  assert_int_equal(rc == TICKETING_OK, *op != NULL);
  return rc == TICKETING_OK;
}

/* An op that was started ends; with a queue it is reported there, once. */
static int end_of(ticketing_op *op, ticketing_queue *queue) {
  ticketing_op *reported = NULL;
  if (queue) {
    assert_int_equal(ticketing_queue_wait(queue, 20 * TICKETING_SECOND, &reported), TICKETING_OK);
    assert_ptr_equal(reported, op);
  } else {
    assert_int_equal(ticketing_op_wait(op, 20 * TICKETING_SECOND), TICKETING_OK);
  }
  char text[TICKETING_MESSAGE_SIZE];
  assert_true(ticketing_op_message(op, text, sizeof text) > 0);
  return ticketing_op_status(op);
}

static void release(ticketing_ticket *ticket, ticketing_queue *queue) {
  ticketing_op *op = NULL;
  if (started(ticketing_ticket_release_start(ticket, queue, NULL, &op), &op)) {
    ONE_OF(end_of(op, queue), TICKETING_OK, TICKETING_NOT_CURRENT, TICKETING_E_NO_MEMORY,
           TICKETING_E_INDETERMINATE);
    ticketing_op_free(op);
  }
}

static void acquire_by_op(ticketing_broker *broker, ticketing_queue *queue, bool release_it) {
  static unsigned number;
  char text[32];
  snprintf(text, sizeof text, "by-op-%u", number++);
  ticketing_key key = {text, strlen(text)};
  ticketing_acquire_params params = params_for(&key, 5);
  ticketing_op *op = NULL;
  ticketing_ticket *ticket = NULL;
  if (!started(ticketing_acquire_start(broker, &params, queue, NULL, &op, NULL), &op)) return;
  int rc = end_of(op, queue);
  ONE_OF(rc, TICKETING_OK, TICKETING_E_NO_MEMORY, TICKETING_E_INDETERMINATE, TICKETING_E_TIMEOUT);
  assert_int_equal(ticketing_op_take_ticket(op, &ticket), rc);
  ticketing_op_free(op);
  if (!ticket) return;
  if (release_it) release(ticket, queue);
  ticketing_ticket_free(ticket);
}

/* Always another key: where a session is lost for want of memory, a grant on its way stays with the
 * server (R5), and this one knows no leases. */
static int acquire_blocking(ticketing_broker *broker) {
  static unsigned number;
  char message[TICKETING_MESSAGE_SIZE], text[32];
  snprintf(text, sizeof text, "blocking-%u", number++);
  ticketing_key key = {text, strlen(text)};
  ticketing_acquire_params params = params_for(&key, 5);
  ticketing_ticket *ticket = NULL;
  int rc = ticketing_acquire(broker, &params, &ticket, message);
  ONE_OF(rc, TICKETING_OK, TICKETING_E_NO_MEMORY, TICKETING_E_INDETERMINATE, TICKETING_E_TIMEOUT);
  assert_int_equal(rc == TICKETING_OK, ticket != NULL);
  if (!ticket) return rc;
  ONE_OF(ticketing_ticket_release(ticket, message), TICKETING_OK, TICKETING_NOT_CURRENT,
         TICKETING_E_NO_MEMORY, TICKETING_E_INDETERMINATE);
  ticketing_ticket_free(ticket);
  return rc;
}

/* Memory is back: what has come apart comes together again. */
static void works_again(ticketing_broker *broker) {
  int rc = TICKETING_OK;
  for (int i = 0; i < TRIES_AFTERWARDS; i++) {
    rc = ticketing_broker_wait_ready(broker, 20 * TICKETING_SECOND);
    ONE_OF(rc, TICKETING_OK, TICKETING_E_NO_MEMORY);
    if (rc == TICKETING_OK) rc = acquire_blocking(broker);
    if (rc == TICKETING_OK) return;
  }
  fail_msg("no acquire is granted any more: %s", ticketing_error_name(rc));
}

static int open_the_broker(const struct flow *f, ticketing_broker **broker) {
  ticketing_options *options = NULL;
  int rc = ticketing_options_new(&options);
  ONE_OF(rc, TICKETING_OK, TICKETING_E_NO_MEMORY);
  assert_int_equal(rc == TICKETING_OK, options != NULL);
  if (!options) return rc;
  rc = ticketing_options_add_address(options, f->server->address);
  if (rc == TICKETING_OK) rc = ticketing_options_set_token(options, "secret", 6);
  if (rc == TICKETING_OK) rc = ticketing_options_set_io_mode(options, f->mode);
  if (rc == TICKETING_OK) rc = ticketing_broker_open(options, broker);
  ticketing_options_free(options);
  ONE_OF(rc, TICKETING_OK, TICKETING_E_NO_MEMORY);
  assert_int_equal(rc == TICKETING_OK, *broker != NULL);
  return rc;
}

static void whole_flow(void *context) {
  const struct flow *f = context;
  ticketing_broker *broker = NULL;
  ticketing_queue *queue = NULL;
  ticketing_op *op = NULL;
  if (open_the_broker(f, &broker) != TICKETING_OK) {
    assert_true(allocator_restore());
    return;
  }
  ONE_OF(ticketing_broker_wait_ready(broker, 20 * TICKETING_SECOND), TICKETING_OK,
         TICKETING_E_NO_MEMORY);
  int rc = ticketing_queue_new(broker, &queue);
  ONE_OF(rc, TICKETING_OK, TICKETING_E_NO_MEMORY);
  assert_int_equal(rc == TICKETING_OK, queue != NULL);
  for (int i = 0; i < ROUNDS; i++) {
    acquire_by_op(broker, queue, i % 2);
    acquire_blocking(broker);
  }
  ticketing_key key = {"somebody-else", 13};
  ONE_OF(ticketing_release(broker, &key, 1, 4711, NULL), TICKETING_NOT_CURRENT,
         TICKETING_E_NO_MEMORY, TICKETING_E_INDETERMINATE);
  works_again(broker);
  if (started(ticketing_broker_close_start(broker, queue, NULL, &op), &op)) {
    assert_int_equal(end_of(op, queue), TICKETING_OK);
    ticketing_op_free(op);
  }
  ONE_OF(ticketing_broker_close(broker), TICKETING_OK, TICKETING_E_NO_MEMORY);
  ticketing_queue_free(queue);
  ticketing_broker_free(broker);
}

static void survives(int mode) {
  struct flow f = {.server = lock_server_start(), .mode = mode};
  allocator_exempt(f.server->thread);
  size_t n = allocator_try_each(whole_flow, &f);
  print_message("%zu allocations\n", n);
  assert_in_range(n, 15, 100000);
  lock_server_stop(f.server);
}

static void thread_broker_survives_every_refused_allocation(void **state) {
  (void)state;
  survives(TICKETING_IO_THREAD);
}

static void caller_broker_survives_every_refused_allocation(void **state) {
  (void)state;
  survives(TICKETING_IO_CALLER);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(thread_broker_survives_every_refused_allocation),
      cmocka_unit_test(caller_broker_survives_every_refused_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
