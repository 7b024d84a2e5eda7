#include "unit/server/stage.h"

static void replies_are_withheld_until_the_batch_is_decided(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 1, "k", 0, 10);
  turn(&s);
  unsigned count;
  assert_int_equal(holder_of(&s, "k", &count), 100);
  assert_int_equal(count, 1);
  expect_nothing(a);
  ask(b, 2, "k", 0, 10); /* occupied already */
  turn(&s);
  expect_timed_out(b, 2, "k");
  decide(&s, 1, TKT_COMMIT_DONE);
  assert_int_equal(expect_granted(a, 1, "k"), 100);
  stage_close(&s);
}

static void grant_in_commit_is_never_answered_T(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  ask(b, 2, "k", 1, 10);
  turn(&s);
  s.storage.answer = TKT_COMMIT_PENDING;
  give_back(a, token, "k");
  turn(&s);
  advance(&s, 100 * TKT_S); /* the wait ends in commit */
  expect_nothing(b);
  decide(&s, 2, TKT_COMMIT_DONE);
  expect_granted(b, 2, "k");
  expect_nothing(b);
  stage_close(&s);
}

static void failed_acquire_is_busy_and_the_key_free_again(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 1, "k", 0, 10);
  turn(&s);
  ask(b, 2, "k", 60, 10);
  turn(&s);
  s.storage.answer = TKT_COMMIT_DONE;
  decide(&s, 1, TKT_COMMIT_FAILED);
  expect_busy(a, 1, "k");
  expect_granted(b, 2, "k");
  assert_int_equal(tkt_server_stats(s.server).busy_storage, 1);
  assert_non_null(a->peer); /* the session goes on */
  stage_close(&s);
}

static void storage_that_fails_at_once_answers_the_whole_queue_busy(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 1, "k", 0, 10);
  turn(&s);
  ask(b, 2, "k", 60, 10);
  ask(b, 3, "k", 60, 10);
  turn(&s);
  s.storage.answer = TKT_COMMIT_FAILED;
  decide(&s, 1, TKT_COMMIT_FAILED);
  expect_busy(a, 1, "k");
  expect_busy(b, 2, "k");
  expect_busy(b, 3, "k");
  assert_int_equal(tkt_server_stats(s.server).keys_held, 0);
  stage_close(&s);
}

static void failed_release_closes_the_session_and_the_hold_goes_on(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  ask(a, 3, "k", 60, 10); /* withdrawn with the session, and told so */
  turn(&s);
  s.storage.answer = TKT_COMMIT_FAILED;
  give_back(a, token, "k");
  turn(&s);
  assert_true(a->shut);
  /* The grant that would have travelled with it failed too. */
  expect_busy(a, 3, "k");
  expect_nothing(a);
  assert_int_equal(holder_of(&s, "k", NULL), token);
  s.storage.answer = TKT_COMMIT_DONE;
  give_back(b, token, "k");
  turn(&s);
  expect_released(b, token, "k");
  stage_close(&s);
}

static void failed_release_keeps_the_lease_running(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  s.storage.answer = TKT_COMMIT_PENDING;
  give_back(a, token, "k");
  turn(&s);
  s.storage.answer = TKT_COMMIT_DONE;
  decide(&s, 2, TKT_COMMIT_FAILED);
  advance(&s, 9 * TKT_S);
  assert_int_equal(holder_of(&s, "k", NULL), token);
  advance(&s, 2 * TKT_S);
  assert_int_equal(holder_of(&s, "k", NULL), 0);
  stage_close(&s);
}

static void unknown_acquire_closes_the_session_and_occupies_the_key_for_a_full_lease(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t held = take(b, 9, "other", 60);
  ask(a, 5, "other", 60, 10);
  turn(&s);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 1, "k", 0, 10);
  turn(&s);
  advance(&s, 7 * TKT_S);
  s.storage.answer = TKT_COMMIT_DONE;
  decide(&s, 2, TKT_COMMIT_UNKNOWN);
  expect_timed_out(a, 5, "other"); /* queued waiters are told first */
  expect_nothing(a);
  assert_true(a->shut);
  ask(b, 2, "k", 60, 10);
  ask(b, 1, "k", 0, 10); /* the same owner: but nobody knows whether it holds */
  turn(&s);
  expect_timed_out(b, 1, "k");
  advance(&s, 10 * TKT_S);
  expect_nothing(b);
  advance(&s, 30 * TKT_MS);
  assert_true(expect_granted(b, 2, "k") > held);
  stage_close(&s);
}

static void unknown_grant_can_be_released_by_its_exact_token(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  s.storage.answer = TKT_COMMIT_UNKNOWN;
  ask(a, 1, "k", 0, 10);
  turn(&s);
  assert_true(a->shut);
  s.storage.answer = TKT_COMMIT_DONE;
  give_back(b, 100, "k");
  turn(&s);
  expect_released(b, 100, "k");
  assert_int_equal(holder_of(&s, "k", NULL), 0);
  stage_close(&s);
}

static void unknown_hand_over_leaves_both_tokens_occupying(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s), *c = join(&s);
  uint64_t old = take(a, 1, "k", 20);
  ask(b, 2, "k", 60, 10);
  turn(&s);
  s.storage.answer = TKT_COMMIT_UNKNOWN;
  give_back(a, old, "k");
  turn(&s);
  s.storage.answer = TKT_COMMIT_DONE;
  assert_true(a->shut);
  assert_true(b->shut);
  expect_nothing(a);
  expect_nothing(b);
  unsigned count;
  holder_of(&s, "k", &count);
  assert_int_equal(count, 2);
  ask(c, 3, "k", 200, 10);
  turn(&s);
  give_back(c, old, "k"); /* one of the two is gone for sure: the other still counts */
  turn(&s);
  expect_released(c, old, "k");
  expect_nothing(c);
  advance(&s, 11 * TKT_S);
  expect_granted(c, 3, "k");
  stage_close(&s);
}

static void unknown_release_occupies_until_its_lease_ends(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 20);
  s.storage.answer = TKT_COMMIT_UNKNOWN;
  give_back(a, token, "k");
  turn(&s);
  s.storage.answer = TKT_COMMIT_DONE;
  assert_true(a->shut);
  expect_nothing(a);
  ask(b, 1, "k", 0, 10); /* the same owner: but it may hold nothing any more */
  turn(&s);
  expect_timed_out(b, 1, "k");
  ask(b, 2, "k", 60, 10);
  turn(&s);
  expect_nothing(b);
  advance(&s, 21 * TKT_S);
  expect_granted(b, 2, "k");
  stage_close(&s);
}

static void expiry_that_fails_is_tried_again_and_nothing_is_granted_before(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 1);
  s.storage.answer = TKT_COMMIT_FAILED;
  advance(&s, 2 * TKT_S);
  assert_int_equal(holder_of(&s, "k", NULL), token);
  ask(b, 2, "k", 60, 10);
  turn(&s);
  expect_nothing(b);
  assert_int_equal(tkt_server_stats(s.server).expiries, 0);
  s.storage.answer = TKT_COMMIT_DONE;
  advance(&s, 2 * TKT_S);
  expect_granted(b, 2, "k");
  assert_int_equal(changes_of(&s, TKT_CHANGE_EXPIRE, token), 2);
  assert_int_equal(tkt_server_stats(s.server).expiries, 1);
  stage_close(&s);
}

static void batches_may_be_decided_in_any_order(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  s.storage.answer = TKT_COMMIT_PENDING;
  for (uint64_t i = 1; i <= 20; i++) {
    char key[8];
    snprintf(key, sizeof key, "k%u", (unsigned)i);
    ask(a, i, key, 0, 10);
    turn(&s);
  }
  assert_int_equal(s.storage.last_batch, 20);
  for (uint64_t i = 20; i >= 1; i--) {
    char key[8];
    snprintf(key, sizeof key, "k%u", (unsigned)i);
    decide(&s, i, TKT_COMMIT_DONE);
    assert_int_equal(expect_granted(a, i, key), 99 + i);
  }
  decide(&s, 20, TKT_COMMIT_DONE); /* said twice: nothing to decide any more */
  decide(&s, 99, TKT_COMMIT_DONE);
  expect_nothing(a);
  stage_close(&s);
}

static void requests_in_commit_get_their_real_reply_after_the_half_close(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  uint64_t token = take(a, 1, "j", 60);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 2, "k", 0, 10);
  give_back(a, token, "j");
  turn(&s);
  half_close(a);
  turn(&s);
  advance(&s, 60 * TKT_S);
  assert_false(a->closed);
  s.storage.answer = TKT_COMMIT_DONE;
  decide(&s, 2, TKT_COMMIT_DONE);
  expect_granted(a, 2, "k");
  expect_released(a, token, "j");
  assert_true(a->closed);
  stage_close(&s);
}

static void server_can_go_with_everything_in_commit(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 10), other = take(a, 2, "j", 10);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 1, "k", 0, 60);
  ask(b, 3, "k", 60, 60);
  ask(b, 4, "l", 0, 60);
  give_back(b, other, "j");
  turn(&s);
  ask(b, 4, "l", 0, 61);
  vanish(b);
  turn(&s);
  give_back(a, token, "k"); /* and something staged */
  stage_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(replies_are_withheld_until_the_batch_is_decided),
      cmocka_unit_test(grant_in_commit_is_never_answered_T),
      cmocka_unit_test(failed_acquire_is_busy_and_the_key_free_again),
      cmocka_unit_test(storage_that_fails_at_once_answers_the_whole_queue_busy),
      cmocka_unit_test(failed_release_closes_the_session_and_the_hold_goes_on),
      cmocka_unit_test(failed_release_keeps_the_lease_running),
      cmocka_unit_test(unknown_acquire_closes_the_session_and_occupies_the_key_for_a_full_lease),
      cmocka_unit_test(unknown_grant_can_be_released_by_its_exact_token),
      cmocka_unit_test(unknown_hand_over_leaves_both_tokens_occupying),
      cmocka_unit_test(unknown_release_occupies_until_its_lease_ends),
      cmocka_unit_test(expiry_that_fails_is_tried_again_and_nothing_is_granted_before),
      cmocka_unit_test(batches_may_be_decided_in_any_order),
      cmocka_unit_test(requests_in_commit_get_their_real_reply_after_the_half_close),
      cmocka_unit_test(server_can_go_with_everything_in_commit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
