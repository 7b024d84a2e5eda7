#include "unit/server/stage.h"

static void release_needs_the_exact_token_and_key(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  give_back(a, token + 1, "k");
  give_back(a, token, "other");
  give_back(a, 0, "k");
  give_back(a, UINT64_MAX, "k");
  turn(&s);
  expect_not_current(a, token + 1, "k");
  expect_not_current(a, token, "other");
  expect_not_current(a, 0, "k");
  expect_not_current(a, UINT64_MAX, "k");
  assert_int_equal(holder_of(&s, "k", NULL), token);
  assert_int_equal(tkt_server_stats(s.server).not_current, 4);
  give_back(a, token, "k");
  turn(&s);
  expect_released(a, token, "k");
  assert_int_equal(holder_of(&s, "k", NULL), 0);
  stage_close(&s);
}

static void a_release_repeated_later_leaves_the_newer_hold_alone(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  uint64_t old = take(a, 1, "k", 10);
  give_back(a, old, "k");
  turn(&s);
  expect_released(a, old, "k");
  uint64_t token = take(a, 2, "k", 10);
  give_back(a, old, "k");
  turn(&s);
  expect_not_current(a, old, "k");
  assert_int_equal(holder_of(&s, "k", NULL), token);
  stage_close(&s);
}

static void any_session_may_release_by_token(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  give_back(b, token, "k");
  turn(&s);
  expect_released(b, token, "k");
  expect_nothing(a);
  stage_close(&s);
}

static void a_second_release_in_the_same_turn_gets_the_same_answer(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  give_back(a, token, "k");
  give_back(b, token, "k");
  turn(&s);
  expect_released(a, token, "k");
  expect_released(b, token, "k");
  assert_int_equal(changes_of(&s, TKT_CHANGE_RELEASE, token), 1);
  stage_close(&s);
}

static void a_second_release_while_in_commit_gets_the_same_answer(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  s.storage.answer = TKT_COMMIT_PENDING;
  give_back(a, token, "k");
  turn(&s);
  give_back(b, token, "k");
  turn(&s);
  expect_nothing(a);
  expect_nothing(b);
  assert_int_equal(s.storage.last_batch, 2);
  decide(&s, 2, TKT_COMMIT_DONE);
  expect_released(a, token, "k");
  expect_released(b, token, "k");
  give_back(b, token, "k");
  turn(&s);
  expect_not_current(b, token, "k");
  stage_close(&s);
}

static void a_key_whose_release_is_in_commit_is_not_free(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  s.storage.answer = TKT_COMMIT_PENDING;
  give_back(a, token, "k");
  turn(&s);
  ask(b, 2, "k", 0, 10);
  ask(b, 3, "k", 60, 10);
  turn(&s);
  expect_timed_out(b, 2, "k");
  expect_nothing(b);
  s.storage.answer = TKT_COMMIT_DONE;
  decide(&s, 2, TKT_COMMIT_DONE);
  expect_released(a, token, "k");
  expect_granted(b, 3, "k");
  stage_close(&s);
}

static void session_reads_R_before_the_A_that_its_release_made_possible(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  ask(a, 2, "k", 60, 10);
  turn(&s);
  give_back(a, token, "k");
  turn(&s);
  expect_released(a, token, "k");
  expect_granted(a, 2, "k");
  stage_close(&s);
}

static void release_of_a_grant_in_commit_is_not_current(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 1, "k", 0, 10);
  turn(&s);
  give_back(b, 100, "k"); /* nobody can have been told this token */
  turn(&s);
  expect_not_current(b, 100, "k");
  decide(&s, 1, TKT_COMMIT_DONE);
  assert_int_equal(expect_granted(a, 1, "k"), 100);
  stage_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(release_needs_the_exact_token_and_key),
      cmocka_unit_test(a_release_repeated_later_leaves_the_newer_hold_alone),
      cmocka_unit_test(any_session_may_release_by_token),
      cmocka_unit_test(a_second_release_in_the_same_turn_gets_the_same_answer),
      cmocka_unit_test(a_second_release_while_in_commit_gets_the_same_answer),
      cmocka_unit_test(a_key_whose_release_is_in_commit_is_not_free),
      cmocka_unit_test(session_reads_R_before_the_A_that_its_release_made_possible),
      cmocka_unit_test(release_of_a_grant_in_commit_is_not_current),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
