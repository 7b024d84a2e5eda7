#include "unit/server/stage.h"

static void above_the_keys_an_acquire_is_busy_and_a_known_key_is_not(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  s.config.limits.keys = 2;
  stage_start(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k1", 10);
  take(a, 2, "k2", 10);
  ask(a, 3, "k3", 60, 10);
  ask(b, 4, "k2", 60, 10);
  turn(&s);
  expect_busy(a, 3, "k3");
  expect_nothing(b);
  assert_int_equal(tkt_server_stats(s.server).busy_keys, 1);
  give_back(a, token, "k1");
  turn(&s);
  expect_released(a, token, "k1");
  take(a, 5, "k3", 10); /* a free key takes no room */
  stage_close(&s);
}

static void above_the_waiters_an_acquire_is_busy_and_a_free_key_is_not(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  s.config.limits.waiters = 2;
  stage_start(&s);
  struct client *a = join(&s), *b = join(&s);
  take(a, 1, "k", 10);
  ask(b, 2, "k", 60, 10);
  ask(b, 3, "k", 60, 10);
  ask(b, 4, "k", 60, 10);
  ask(b, 5, "j", 60, 10);
  turn(&s);
  expect_busy(b, 4, "k");
  expect_granted(b, 5, "j");
  assert_int_equal(tkt_server_stats(s.server).busy_waiters, 1);
  assert_int_equal(tkt_server_stats(s.server).waiters, 2);
  stage_close(&s);
}

static void above_the_waiters_of_a_key_an_acquire_is_busy(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  s.config.limits.waiters_per_key = 1;
  stage_start(&s);
  struct client *a = join(&s), *b = join(&s);
  take(a, 1, "k", 10);
  take(a, 2, "j", 10);
  ask(b, 3, "k", 60, 10);
  ask(b, 4, "k", 60, 10);
  ask(b, 5, "j", 60, 10);
  turn(&s);
  expect_busy(b, 4, "k");
  expect_nothing(b);
  assert_int_equal(tkt_server_stats(s.server).busy_waiters_per_key, 1);
  stage_close(&s);
}

static void above_the_requests_of_a_session_an_acquire_is_busy(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  s.config.limits.requests_per_session = 2;
  stage_start(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  ask(b, 2, "k", 60, 10);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(b, 3, "j", 0, 10); /* in commit: counts as well */
  turn(&s);
  ask(b, 4, "l", 0, 10);
  turn(&s);
  expect_busy(b, 4, "l");
  assert_int_equal(tkt_server_stats(s.server).busy_requests, 1);
  /* Repetitions of its own requests are no further ones; taking over another session's is. */
  ask(b, 2, "k", 60, 10);
  ask(b, 3, "j", 0, 10);
  ask(a, 5, "k", 60, 10);
  turn(&s);
  expect_nothing(b);
  ask(b, 5, "k", 60, 10);
  ask(b, 1, "k", 0, 10);
  turn(&s);
  expect_busy(b, 5, "k");
  expect_busy(b, 1, "k");
  s.storage.answer = TKT_COMMIT_DONE;
  decide(&s, 2, TKT_COMMIT_DONE);
  expect_granted(b, 3, "j");
  give_back(a, token, "k");
  turn(&s);
  expect_granted(b, 2, "k");
  take(b, 6, "m", 10); /* answered ones do not count */
  stage_close(&s);
}

static void above_the_sessions_a_connection_is_refused_and_counted(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  s.config.limits.sessions = 2;
  stage_start(&s);
  struct client *a = join(&s);
  join(&s);
  assert_null(connect_raw(&s));
  assert_int_equal(tkt_server_stats(s.server).sessions_refused, 1);
  half_close(a);
  turn(&s);
  join(&s);
  assert_int_equal(tkt_server_stats(s.server).sessions, 2);
  stage_close(&s);
}

static void above_the_unauthenticated_a_connection_is_refused(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  s.config.limits.unauthenticated = 1;
  stage_start(&s);
  struct client *a = connect_raw(&s);
  turn(&s);
  assert_null(connect_raw(&s));
  read_greeting(a);
  prove(a, "123");
  turn(&s);
  assert_int_equal(tkt_server_stats(s.server).sessions_unauthenticated, 0);
  struct client *b = connect_raw(&s);
  assert_non_null(b);
  turn(&s);
  send_bytes(b, "nonsense\n", 9); /* refused, but not told yet: still counts */
  turn(&s);
  assert_null(connect_raw(&s));
  advance(&s, 1010 * TKT_MS);
  half_close(b);
  turn(&s);
  assert_true(b->closed);
  assert_non_null(connect_raw(&s));
  stage_close(&s);
}

static void default_limits_let_a_million_keys_be_held(void **state) {
  (void)state;
  assert_true(tkt_server_limits_default.keys >= 1000000);
  assert_true(tkt_server_limits_default.sessions >= 5000);
  assert_true(tkt_server_limits_default.unauthenticated >= 5000);
  assert_true(tkt_server_limits_default.waiters_per_key >= 10000);
  assert_true(tkt_server_limits_default.requests_per_session >= 16384);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(above_the_keys_an_acquire_is_busy_and_a_known_key_is_not),
      cmocka_unit_test(above_the_waiters_an_acquire_is_busy_and_a_free_key_is_not),
      cmocka_unit_test(above_the_waiters_of_a_key_an_acquire_is_busy),
      cmocka_unit_test(above_the_requests_of_a_session_an_acquire_is_busy),
      cmocka_unit_test(above_the_sessions_a_connection_is_refused_and_counted),
      cmocka_unit_test(above_the_unauthenticated_a_connection_is_refused),
      cmocka_unit_test(default_limits_let_a_million_keys_be_held),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
