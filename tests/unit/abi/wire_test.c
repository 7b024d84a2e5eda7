/* Options of the wire, and key sets where servers speak wire 2. */
#include "unit/abi/abi_test.h"

static void options_of_the_wire_are_checked(void **state) {
  (void)state;
  const int invalid = TICKETING_E_INVALID_ARGUMENT;
  ticketing_options *options;
  unsigned char identity[TICKETING_IDENTITY_SIZE] = {1};
  assert_int_equal(ticketing_options_set_wire(NULL, 2), invalid);
  assert_int_equal(ticketing_options_set_cluster_identity(NULL, identity, sizeof identity),
                   invalid);
  assert_int_equal(ticketing_options_new(&options), TICKETING_OK);
  assert_int_equal(ticketing_options_set_wire(options, 1), invalid);
  assert_non_null(strstr(ticketing_options_message(options), "wire 1"));
  assert_int_equal(ticketing_options_set_wire(options, -3), invalid);
  assert_int_equal(ticketing_options_set_wire(options, 256 + 2), invalid);
  assert_int_equal(ticketing_options_set_wire(options, TICKETING_WIRE_2), TICKETING_OK);
  assert_string_equal(ticketing_options_message(options), "");
  assert_int_equal(ticketing_options_set_cluster_identity(options, identity, 31), invalid);
  assert_non_null(strstr(ticketing_options_message(options), "31 bytes"));
  assert_int_equal(ticketing_options_set_cluster_identity(options, NULL, sizeof identity), invalid);
  assert_int_equal(ticketing_options_set_cluster_identity(options, identity, sizeof identity),
                   TICKETING_OK);
  assert_int_equal(ticketing_options_set_cluster_identity(options, NULL, 0), TICKETING_OK);
  ticketing_options_free(options);
}

static void b3_wire_3_takes_1_3_or_5_addresses(void **state) {
  (void)state;
  static const char *const addresses[] = {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3",
                                          "127.0.0.1:4", "127.0.0.1:5", "127.0.0.1:6"};
  ticketing_options *options;
  assert_int_equal(ticketing_options_new(&options), TICKETING_OK);
  assert_int_equal(ticketing_options_set_wire(options, TICKETING_WIRE_3), TICKETING_OK);
  for (size_t i = 0; i < 6; i++) {
    ticketing_broker *broker;
    assert_int_equal(ticketing_options_add_address(options, addresses[i]), TICKETING_OK);
    int rc = ticketing_broker_open(options, &broker);
    assert_int_equal(rc, i % 2 ? TICKETING_E_UNSUPPORTED : TICKETING_OK);
    ticketing_broker_free(broker);
  }
  ticketing_options_free(options);
}

static void sets_are_unsupported_where_the_server_speaks_wire_2(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_key keys[] = {{"a", 1}, {"b", 1}};
  ticketing_acquire_params params = params_for(keys, 5);
  ticketing_ticket *ticket;
  char message[TICKETING_MESSAGE_SIZE] = "";
  params.key_count = 2;
  assert_int_equal(ticketing_acquire(f.broker, &params, &ticket, message), TICKETING_E_UNSUPPORTED);
  assert_null(ticket);
  assert_non_null(strstr(message, "wire 2"));
  assert_int_equal(ticketing_release(f.broker, keys, 2, 7, message), TICKETING_E_UNSUPPORTED);
  assert_int_equal(atomic_load(&f.server->acquires), 0);
  end_fixture(&f);
}

static void a_forced_wire_3_does_not_take_a_server_of_wire_2(void **state) {
  (void)state;
  struct fixture f = {.server = lock_server_start()};
  ticketing_options *options;
  assert_int_equal(ticketing_options_new(&options), TICKETING_OK);
  assert_int_equal(ticketing_options_add_address(options, f.server->address), TICKETING_OK);
  assert_int_equal(ticketing_options_set_wire(options, TICKETING_WIRE_3), TICKETING_OK);
  assert_int_equal(ticketing_broker_open(options, &f.broker), TICKETING_OK);
  ticketing_options_free(options);
  ticketing_log_entry entry = TICKETING_LOG_ENTRY_INIT;
  bool said = false;
  while (!said) {
    if (ticketing_broker_log_next(f.broker, &entry) == TICKETING_OK)
      said = strstr(entry.text, "only wire 3 is allowed") != NULL;
    else
      assert_int_equal(ticketing_broker_wait_ready(f.broker, TICKETING_MILLISECOND),
                       TICKETING_E_TIMEOUT);
  }
  end_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_of_the_wire_are_checked),
      cmocka_unit_test(b3_wire_3_takes_1_3_or_5_addresses),
      cmocka_unit_test(sets_are_unsupported_where_the_server_speaks_wire_2),
      cmocka_unit_test(a_forced_wire_3_does_not_take_a_server_of_wire_2),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
