/* The broker's log, through the public interface. */
#include "unit/abi/abi_test.h"

static void sessions_that_came_up_stand_in_the_log(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_log_entry entry = TICKETING_LOG_ENTRY_INIT;
  bool usable = false;
  int64_t before = 0;
  while (ticketing_broker_log_next(f.broker, &entry) == TICKETING_OK) {
    assert_true(entry.at_ns >= before && entry.at_ns <= ticketing_now_ns());
    before = entry.at_ns;
    assert_int_equal(entry.lost, 0);
    assert_true(entry.level >= TICKETING_LOG_DEBUG && entry.level <= TICKETING_LOG_ERROR);
    assert_non_null(strstr(entry.text, f.server->address));
    usable = usable || (strstr(entry.text, "usable") && entry.level == TICKETING_LOG_INFO);
  }
  assert_true(usable);
  assert_int_equal(entry.size, sizeof entry);
  end_fixture(&f);
}

static void bad_entries_are_refused(void **state) {
  (void)state;
  struct fixture f = start_fixture(TICKETING_IO_THREAD);
  ticketing_log_entry entry = TICKETING_LOG_ENTRY_INIT;
  assert_int_equal(ticketing_broker_log_next(NULL, &entry), TICKETING_E_INVALID_ARGUMENT);
  assert_int_equal(ticketing_broker_log_next(f.broker, NULL), TICKETING_E_INVALID_ARGUMENT);
  entry.size = 8;
  assert_int_equal(ticketing_broker_log_next(f.broker, &entry), TICKETING_E_INVALID_ARGUMENT);
  struct {
    ticketing_log_entry entry;
    char newer[16];
  } grown;
  memset(&grown, 'n', sizeof grown);
  grown.entry.size = sizeof grown; /* of a header that came later */
  assert_int_equal(ticketing_broker_log_next(f.broker, &grown.entry), TICKETING_OK);
  assert_int_equal(grown.newer[0], 'n');
  end_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sessions_that_came_up_stand_in_the_log),
      cmocka_unit_test(bad_entries_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
