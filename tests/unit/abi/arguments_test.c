/* NULL and bad arguments everywhere: a clear answer, nothing started, nothing crashed. */
#include "unit/abi/abi_test.h"

#include <errno.h>
#include <limits.h>
#include <sys/mman.h>

static void null_handles_are_refused(void **state) {
  (void)state;
  const int invalid = TICKETING_E_INVALID_ARGUMENT;
  ticketing_op *op = (ticketing_op *)(uintptr_t)1;
  ticketing_ticket *ticket = (ticketing_ticket *)(uintptr_t)1;
  ticketing_queue *queue = (ticketing_queue *)(uintptr_t)1;
  ticketing_broker *broker = (ticketing_broker *)(uintptr_t)1;
  ticketing_key key = {"k", 1};
  ticketing_acquire_params p = params_for(&key, 1);
  char message[TICKETING_MESSAGE_SIZE] = "";

  assert_int_equal(ticketing_options_new(NULL), invalid);
  assert_true(strlen(ticketing_options_message(NULL)) > 0);
  assert_int_equal(ticketing_options_add_address(NULL, "a:1"), invalid);
  assert_int_equal(ticketing_options_set_token(NULL, "a", 1), invalid);
  assert_int_equal(ticketing_options_set_io_mode(NULL, 0), invalid);
  assert_int_equal(ticketing_options_set_max_in_flight(NULL, 1), invalid);
  assert_int_equal(ticketing_options_set_max_unsent(NULL, 1), invalid);
  assert_int_equal(ticketing_options_set_cancel_keeps_session(NULL, 1), invalid);
  ticketing_options_free(NULL);

  assert_int_equal(ticketing_broker_open(NULL, &broker), invalid);
  assert_null(broker);
  assert_int_equal(ticketing_connect(NULL, &broker), invalid);
  assert_int_equal(ticketing_connect("127.0.0.1:5225", NULL), invalid);
  assert_int_equal(ticketing_broker_close(NULL), invalid);
  assert_int_equal(ticketing_broker_close_start(NULL, NULL, NULL, &op), invalid);
  assert_null(op);
  assert_int_equal(ticketing_broker_wait_ready(NULL, 0), invalid);
  assert_int_equal(ticketing_broker_wait_ready_start(NULL, 0, NULL, NULL, &op), invalid);
  assert_int_equal(ticketing_broker_fd(NULL), -1);
  assert_int_equal(ticketing_broker_dispatch(NULL, 0), invalid);
  assert_int_equal(ticketing_broker_flush(NULL), invalid);
  assert_int_equal(ticketing_broker_counters(NULL, NULL, 0), 0);
  ticketing_broker_free(NULL);

  assert_int_equal(ticketing_queue_new(NULL, &queue), invalid);
  assert_null(queue);
  assert_int_equal(ticketing_queue_fd(NULL), -1);
  assert_int_equal(ticketing_queue_next(NULL, &op), invalid);
  assert_int_equal(ticketing_queue_wait(NULL, 0, &op), invalid);
  ticketing_queue_free(NULL);

  assert_int_equal(ticketing_acquire(NULL, &p, &ticket, message), invalid);
  assert_null(ticket);
  assert_true(strlen(message) > 0);
  assert_int_equal(ticketing_acquire_start(NULL, &p, NULL, NULL, &op, NULL), invalid);
  assert_int_equal(ticketing_release(NULL, &key, 1, 1, NULL), invalid);
  assert_int_equal(ticketing_release_start(NULL, &key, 1, 1, NULL, NULL, &op, NULL), invalid);

  assert_int_equal(ticketing_op_kind(NULL), invalid);
  assert_null(ticketing_op_user(NULL));
  assert_int_equal(ticketing_op_status(NULL), invalid);
  assert_int_equal(ticketing_op_wait(NULL, 0), invalid);
  assert_int_equal(ticketing_op_take_ticket(NULL, &ticket), invalid);
  assert_true(ticketing_op_message(NULL, message, sizeof message) > 0);
  assert_true(ticketing_op_message(NULL, NULL, 0) > 0);
  assert_int_equal(ticketing_op_attempts(NULL), 0);
  ticketing_op_wake(NULL);
  ticketing_op_cancel(NULL);
  ticketing_op_free(NULL);

  assert_int_equal(ticketing_ticket_token(NULL), 0);
  assert_int_equal(ticketing_ticket_key_count(NULL), 0);
  assert_null(ticketing_ticket_key(NULL, 0).data);
  assert_int_equal(ticketing_ticket_valid_until_ns(NULL), 0);
  assert_int_equal(ticketing_ticket_remaining_ns(NULL), 0);
  assert_int_equal(ticketing_ticket_release(NULL, NULL), invalid);
  assert_int_equal(ticketing_ticket_release_start(NULL, NULL, NULL, &op), invalid);
  assert_int_equal(ticketing_ticket_watch_start(NULL, 0, NULL, NULL, &op), invalid);
  ticketing_ticket_detach(NULL);
  ticketing_ticket_free(NULL);
}

static void null_places_are_refused(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  const int invalid = TICKETING_E_INVALID_ARGUMENT;
  ticketing_key key = {"k", 1};
  ticketing_acquire_params p = params_for(&key, 1);
  ticketing_queue *queue;
  ticketing_op *op;
  ticketing_ticket *ticket;
  assert_int_equal(ticketing_queue_new(f.broker, NULL), invalid);
  assert_int_equal(ticketing_queue_new(f.broker, &queue), TICKETING_OK);
  assert_int_equal(ticketing_queue_next(queue, NULL), invalid);
  assert_int_equal(ticketing_queue_wait(queue, 0, NULL), invalid);
  assert_int_equal(ticketing_acquire(f.broker, &p, NULL, NULL), invalid);
  assert_int_equal(ticketing_acquire(f.broker, NULL, &ticket, NULL), invalid);
  assert_int_equal(ticketing_acquire_start(f.broker, &p, NULL, NULL, NULL, NULL), invalid);
  assert_int_equal(ticketing_broker_close_start(f.broker, NULL, NULL, NULL), invalid);
  assert_int_equal(ticketing_broker_wait_ready_start(f.broker, 0, NULL, NULL, NULL), invalid);
  assert_int_equal(ticketing_release_start(f.broker, &key, 1, 1, NULL, NULL, NULL, NULL), invalid);
  ticketing_ticket *held = must_acquire(f.broker, "k");
  assert_int_equal(ticketing_ticket_release_start(held, NULL, NULL, NULL), invalid);
  assert_int_equal(ticketing_ticket_watch_start(held, -1, NULL, NULL, &op), invalid);
  assert_int_equal(ticketing_ticket_watch_start(held, 0, NULL, NULL, NULL), invalid);
  op = start_acquire(f.broker, "l", 1, NULL, NULL);
  assert_int_equal(ticketing_op_take_ticket(op, NULL), invalid);
  ticketing_op_free(op);
  ticketing_ticket_free(held);
  ticketing_counter none[1];
  assert_true(ticketing_broker_counters(f.broker, none, 0) > 10);
  assert_int_equal(ticketing_broker_counters(f.broker, NULL, 4), 0);
  ticketing_queue_free(queue);
  end_fixture(&f);
}

static void negative_timeouts_are_refused(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_CALLER);
  const int invalid = TICKETING_E_INVALID_ARGUMENT;
  ticketing_queue *queue;
  ticketing_op *op;
  assert_int_equal(ticketing_queue_new(f.broker, &queue), TICKETING_OK);
  assert_int_equal(ticketing_broker_wait_ready(f.broker, -1), invalid);
  assert_int_equal(ticketing_broker_wait_ready(f.broker, INT64_MIN), invalid);
  assert_int_equal(ticketing_broker_dispatch(f.broker, -1), invalid);
  assert_int_equal(ticketing_queue_wait(queue, -1, &op), invalid);
  op = start_acquire(f.broker, "k", 1, NULL, NULL);
  assert_int_equal(ticketing_op_wait(op, -1), invalid);
  ticketing_op_free(op);
  ticketing_queue_free(queue);
  end_fixture(&f);
}

static void refused(ticketing_broker *broker, const ticketing_acquire_params *p, int code,
                    const char *named, const char *value) {
  ticketing_ticket *ticket;
  char message[TICKETING_MESSAGE_SIZE] = "";
  assert_int_equal(ticketing_acquire(broker, p, &ticket, message), code);
  assert_null(ticket);
  assert_non_null(strstr(message, named));
  assert_non_null(strstr(message, value));
}

static void a8_refusals_name_argument_value_and_range(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  const int invalid = TICKETING_E_INVALID_ARGUMENT, unsupported = TICKETING_E_UNSUPPORTED;
  ticketing_key key = {"k", 1};
  ticketing_acquire_params p = params_for(&key, 1);
  p.wait_ns = 256 * TICKETING_SECOND;
  refused(f.broker, &p, unsupported, "wait", "256");
  p.wait_ns = -1;
  refused(f.broker, &p, invalid, "wait", "255");
  p = params_for(&key, 1);
  p.lease_ns = 251 * TICKETING_SECOND;
  refused(f.broker, &p, unsupported, "lease", "251");
  p.lease_ns = 0;
  refused(f.broker, &p, invalid, "lease", "250");
  p = params_for(&key, 1);
  p.budget_ns = p.lease_ns + 1;
  refused(f.broker, &p, invalid, "budget", "30");
  p.budget_ns = INT64_MIN;
  refused(f.broker, &p, invalid, "budget", "negative");
  ticketing_key bad[] = {{"a b", 3}, {"", 0}, {"\xff", 1}, {NULL, 5}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    p = params_for(&bad[i], 1);
    refused(f.broker, &p, invalid, "key", "128");
  }
  char longest[129];
  memset(longest, 'x', sizeof longest);
  ticketing_key too_long = {longest, 129};
  p = params_for(&too_long, 1);
  refused(f.broker, &p, invalid, "129", "128");
  p.key_count = 0;
  refused(f.broker, &p, invalid, "keys", "16");
  p.key_count = SIZE_MAX;
  refused(f.broker, &p, invalid, "keys", "16");
  p.keys = NULL;
  p.key_count = 1;
  refused(f.broker, &p, invalid, "keys", "16");
  char message[TICKETING_MESSAGE_SIZE] = "";
  assert_int_equal(ticketing_release(f.broker, &key, 1, 0, message), invalid);
  assert_non_null(strstr(message, "token"));
  assert_int_equal(atomic_load(&f.server->acquires), 0);
  assert_int_equal(atomic_load(&f.server->releases), 0);
  end_fixture(&f);
}

static void options_refuse_by_name_and_keep_what_they_had(void **state) {
  (void)state;
  ticketing_options *o;
  const int invalid = TICKETING_E_INVALID_ARGUMENT;
  assert_int_equal(ticketing_options_new(&o), TICKETING_OK);
  assert_string_equal(ticketing_options_message(o), "");
  ticketing_broker *broker;
  assert_int_equal(ticketing_broker_open(o, &broker), invalid); /* no address */
  const char *bad[] = {"host", "host:", "host:0", "host:65536", "::1:5225", "", "[::1]", ":1"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    assert_int_equal(ticketing_options_add_address(o, bad[i]), invalid);
    assert_non_null(strstr(ticketing_options_message(o), "address"));
  }
  assert_int_equal(ticketing_options_add_address(o, NULL), invalid);
  char address[32];
  for (int i = 1; i <= 6; i++) {
    snprintf(address, sizeof address, "127.0.0.1:%d", i);
    assert_int_equal(ticketing_options_add_address(o, address), TICKETING_OK);
    assert_string_equal(ticketing_options_message(o), "");
    assert_int_equal(ticketing_options_add_address(o, address), invalid);
    assert_non_null(strstr(ticketing_options_message(o), i < 6 ? "twice" : "1 to 6"));
  }
  assert_int_equal(ticketing_options_add_address(o, "127.0.0.1:7"), invalid);
  assert_int_equal(ticketing_options_set_io_mode(o, 2), invalid);
  assert_int_equal(ticketing_options_set_max_in_flight(o, 0), invalid);
  assert_int_equal(ticketing_options_set_max_in_flight(o, 16385), invalid);
  assert_non_null(strstr(ticketing_options_message(o), "16385"));
  assert_int_equal(ticketing_options_set_max_in_flight(o, 16384), TICKETING_OK);
  assert_int_equal(ticketing_options_set_max_unsent(o, 1000001), invalid);
  assert_int_equal(ticketing_options_set_max_unsent(o, 0), TICKETING_OK);
  assert_int_equal(ticketing_options_set_cancel_keeps_session(o, 2), invalid);
  assert_int_equal(ticketing_options_set_token(o, NULL, 3), invalid);
  assert_int_equal(ticketing_options_set_token(o, "secret", 6), TICKETING_OK);
  assert_int_equal(ticketing_options_set_token(o, NULL, 0), TICKETING_OK);
  ticketing_options_free(o);
}

static void wire_2_carries_one_key(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_key keys[] = {{"b", 1}, {"a", 1}, {"b", 1}};
  ticketing_acquire_params p = params_for(keys, 1);
  p.key_count = 3;
  refused(f.broker, &p, TICKETING_E_UNSUPPORTED, "keys", "wire 2");
  keys[1] = keys[0]; /* repeated keys count once (A5) */
  ticketing_ticket *ticket;
  assert_int_equal(ticketing_acquire(f.broker, &p, &ticket, NULL), TICKETING_OK);
  assert_int_equal(ticketing_ticket_key_count(ticket), 1);
  ticketing_ticket_free(ticket);
  char message[TICKETING_MESSAGE_SIZE] = "";
  keys[1].data = "a";
  assert_int_equal(ticketing_release(f.broker, keys, 3, 1, message), TICKETING_E_UNSUPPORTED);
  end_fixture(&f);
}

/* Memory of exactly `size` bytes, right before a page that must not be touched. */
static void *at_the_edge(size_t size) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(two != MAP_FAILED);
  assert_int_equal(mprotect(two + page, page, PROT_NONE), 0);
  return two + page - size;
}

static void params_of_the_first_version_are_read_to_their_end_and_no_further(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  enum { FIRST = offsetof(ticketing_acquire_params, budget_ns) + sizeof(int64_t) };
  ticketing_key key = {"k", 1};
  ticketing_acquire_params p = params_for(&key, 1);
  ticketing_ticket *ticket;
  ticketing_acquire_params *edge = at_the_edge(FIRST);
  p.size = FIRST;
  memcpy(edge, &p, FIRST);
  assert_int_equal(ticketing_acquire(f.broker, edge, &ticket, NULL), TICKETING_OK);
  ticketing_ticket_free(ticket);
  end_fixture(&f);
}

static void params_of_a_later_version_are_taken_while_the_rest_is_zero(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_key key = {"k", 1};
  struct {
    ticketing_acquire_params known;
    uint64_t later;
  } p = {params_for(&key, 1), 0};
  p.known.size = sizeof p;
  ticketing_ticket *ticket;
  char message[TICKETING_MESSAGE_SIZE] = "";
  assert_int_equal(ticketing_acquire(f.broker, &p.known, &ticket, message), TICKETING_OK);
  ticketing_ticket_free(ticket);
  p.later = UINT64_C(1) << 63;
  assert_int_equal(ticketing_acquire(f.broker, &p.known, &ticket, message),
                   TICKETING_E_UNSUPPORTED);
  assert_non_null(strstr(message, "params"));
  size_t bad[] = {0, 8, sizeof p.known - 1, 4097, SIZE_MAX};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    p.known.size = bad[i];
    assert_int_equal(ticketing_acquire(f.broker, &p.known, &ticket, message),
                     TICKETING_E_INVALID_ARGUMENT);
    assert_non_null(strstr(message, "size"));
  }
  end_fixture(&f);
}

static void every_result_has_name_text_and_advice(void **state) {
  (void)state;
  for (int code = -17; code <= 2; code++) {
    assert_int_equal(strncmp(ticketing_error_name(code), "TICKETING_", 10), 0);
    assert_true(strlen(ticketing_error_text(code)) > 3);
    assert_true(strlen(ticketing_error_advice(code)) > 3);
    assert_null(strchr(ticketing_error_text(code), '.'));
  }
  assert_string_equal(ticketing_error_name(TICKETING_E_BUSY), "TICKETING_E_BUSY");
  assert_string_equal(ticketing_error_name(3), "?");
  assert_string_equal(ticketing_error_name(INT_MIN), "?");
  assert_true(strlen(ticketing_error_text(99)) > 0 && strlen(ticketing_error_advice(99)) > 0);
  assert_string_equal(ticketing_version(), TICKETING_VERSION);
  assert_int_equal(ticketing_version_number(), 1000);
  assert_true(ticketing_now_ns() > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(null_handles_are_refused),
      cmocka_unit_test(null_places_are_refused),
      cmocka_unit_test(negative_timeouts_are_refused),
      cmocka_unit_test(a8_refusals_name_argument_value_and_range),
      cmocka_unit_test(options_refuse_by_name_and_keep_what_they_had),
      cmocka_unit_test(wire_2_carries_one_key),
      cmocka_unit_test(params_of_the_first_version_are_read_to_their_end_and_no_further),
      cmocka_unit_test(params_of_a_later_version_are_taken_while_the_rest_is_zero),
      cmocka_unit_test(every_result_has_name_text_and_advice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
