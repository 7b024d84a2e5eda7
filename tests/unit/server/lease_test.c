#include "unit/server/stage.h"

static void lease_is_kept_a_500th_longer_and_then_ends(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 50);
  assert_true(last_change(&s)->lease_ns == 50 * TKT_S + 100 * TKT_MS);
  ask(b, 2, "k", 200, 10);
  turn(&s);
  advance(&s, 50 * TKT_S + 99 * TKT_MS);
  expect_nothing(b);
  assert_int_equal(holder_of(&s, "k", NULL), token);
  advance(&s, 3 * TKT_MS);
  assert_true(expect_granted(b, 2, "k") > token);
  assert_int_equal(tkt_server_stats(s.server).expiries, 1);
  stage_close(&s);
}

static void expiry_and_the_next_grant_travel_in_one_batch(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 1);
  ask(b, 2, "k", 200, 10);
  turn(&s);
  advance(&s, 2 * TKT_S);
  const struct noted_change *grant = last_change(&s), *expiry = grant - 1;
  assert_int_equal(expiry->kind, TKT_CHANGE_EXPIRE);
  assert_int_equal(expiry->token, token);
  assert_int_equal(grant->kind, TKT_CHANGE_GRANT);
  assert_int_equal(grant->batch, expiry->batch);
  stage_close(&s);
}

static void release_after_expiry_is_not_current(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  uint64_t token = take(a, 1, "k", 1);
  advance(&s, 2 * TKT_S);
  give_back(a, token, "k");
  turn(&s);
  expect_not_current(a, token, "k");
  stage_close(&s);
}

static void release_that_arrives_before_the_expiry_is_noticed_counts(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  uint64_t token = take(a, 1, "k", 1);
  s.now += 2 * TKT_S;
  give_back(a, token, "k");
  turn(&s);
  expect_released(a, token, "k");
  assert_int_equal(changes_of(&s, TKT_CHANGE_RELEASE, token), 1);
  assert_int_equal(changes_of(&s, TKT_CHANGE_EXPIRE, token), 0);
  stage_close(&s);
}

static void lease_runs_from_the_commit_not_from_the_request(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 1, "k", 0, 10);
  turn(&s);
  advance(&s, 30 * TKT_S);
  expect_nothing(a);
  s.storage.answer = TKT_COMMIT_DONE;
  decide(&s, 1, TKT_COMMIT_DONE);
  uint64_t token = expect_granted(a, 1, "k");
  advance(&s, 10 * TKT_S);
  assert_int_equal(holder_of(&s, "k", NULL), token);
  advance(&s, 30 * TKT_MS);
  assert_int_equal(holder_of(&s, "k", NULL), 0);
  stage_close(&s);
}

static void lease_0_and_251_are_refused_with_bad_lease_and_1_and_250_are_not(void **state) {
  (void)state;
  const uint16_t bad[] = {0, 251, 65535};
  for (size_t i = 0; i < 3; i++) {
    struct stage s;
    stage_open(&s);
    struct client *a = join(&s);
    ask(a, 1, "k", 0, bad[i]);
    turn(&s);
    expect_error(a, TKT_WIRE_ERROR_BAD_LEASE);
    assert_true(a->shut);
    assert_int_equal(holder_of(&s, "k", NULL), 0);
    stage_close(&s);
  }
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  take(a, 1, "k", 1);
  take(a, 2, "j", 250);
  stage_close(&s);
}

static void thousands_of_leases_end_each_at_its_own_time(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  char key[16];
  for (unsigned i = 0; i < 2500; i++) {
    snprintf(key, sizeof key, "k%u", i);
    ask(a, i + 1, key, 0, (uint16_t)(1 + i % 250));
  }
  turn(&s);
  assert_int_equal(tkt_server_stats(s.server).keys_held, 2500);
  for (unsigned second = 1; second <= 250; second++) {
    /* 1/500 of the lease and a tick of the wheel later, all of that length have ended. */
    s.now = 1000 * TKT_S + second * TKT_S + second * 2 * TKT_MS + 2 * TKT_MS;
    turn(&s);
    assert_int_equal(tkt_server_stats(s.server).keys_held, 2500 - 10 * second);
  }
  stage_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lease_is_kept_a_500th_longer_and_then_ends),
      cmocka_unit_test(expiry_and_the_next_grant_travel_in_one_batch),
      cmocka_unit_test(release_after_expiry_is_not_current),
      cmocka_unit_test(release_that_arrives_before_the_expiry_is_noticed_counts),
      cmocka_unit_test(lease_runs_from_the_commit_not_from_the_request),
      cmocka_unit_test(lease_0_and_251_are_refused_with_bad_lease_and_1_and_250_are_not),
      cmocka_unit_test(thousands_of_leases_end_each_at_its_own_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
