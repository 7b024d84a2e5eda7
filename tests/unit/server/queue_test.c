#include "unit/server/stage.h"

static void fair_order_is_order_of_arrival_over_sessions(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s), *c = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  ask(b, 2, "k", 60, 10);
  ask(c, 3, "k", 60, 10);
  ask(b, 4, "k", 60, 10);
  ask(a, 5, "k", 60, 10);
  turn(&s);
  expect_nothing(a);
  expect_nothing(b);
  expect_nothing(c);
  struct client *order[] = {b, c, b, a};
  uint64_t owner = 2;
  for (size_t i = 0; i < 4; i++, owner++) {
    struct client *before = i ? order[i - 1] : a;
    give_back(before, token, "k");
    turn(&s);
    assert_int_equal(s.turns, 1);
    expect_released(before, token, "k");
    uint64_t next = expect_granted(order[i], owner, "k");
    assert_true(next > token);
    token = next;
    for (size_t j = 0; j < 3; j++)
      expect_nothing(&s.clients[j]);
  }
  stage_close(&s);
}

static void release_and_the_grant_it_makes_possible_travel_in_one_batch(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  ask(b, 2, "k", 60, 10);
  turn(&s);
  uint64_t batches = s.storage.last_batch;
  give_back(a, token, "k");
  turn(&s);
  assert_int_equal(s.storage.last_batch, batches + 1);
  const struct noted_change *grant = last_change(&s), *release = grant - 1;
  assert_int_equal(release->kind, TKT_CHANGE_RELEASE);
  assert_int_equal(release->token, token);
  assert_int_equal(grant->kind, TKT_CHANGE_GRANT);
  assert_int_equal(grant->batch, release->batch);
  stage_close(&s);
}

static void many_requests_of_one_turn_are_one_batch(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  ask(a, 1, "k1", 0, 10);
  ask(b, 2, "k2", 0, 10);
  ask(a, 3, "k3", 5, 10);
  turn(&s);
  assert_int_equal(s.storage.last_batch, 1);
  assert_int_equal(s.storage.count, 3);
  expect_granted(a, 1, "k1");
  expect_granted(a, 3, "k3");
  expect_granted(b, 2, "k2");
  stage_close(&s);
}

static void wait_0_is_granted_where_it_heads_and_the_key_is_free(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  /* Freed in the same turn, nobody waits: granted, and in the same batch. */
  give_back(a, token, "k");
  ask(b, 2, "k", 0, 10);
  turn(&s);
  expect_released(a, token, "k");
  assert_true(expect_granted(b, 2, "k") > token);
  stage_close(&s);
}

static void wait_0_is_told_T_at_once_and_never_queues(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  ask(b, 2, "k", 0, 10);
  turn(&s);
  expect_timed_out(b, 2, "k");
  assert_int_equal(tkt_server_stats(s.server).waiters, 0);
  give_back(a, token, "k");
  turn(&s);
  expect_nothing(b);
  stage_close(&s);
}

static void wait_0_does_not_overtake_a_queue_whose_key_was_just_freed(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s), *c = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  ask(b, 2, "k", 60, 10);
  turn(&s);
  give_back(a, token, "k");
  ask(c, 3, "k", 0, 10);
  turn(&s);
  expect_timed_out(c, 3, "k");
  expect_granted(b, 2, "k");
  stage_close(&s);
}

static void wait_ends_with_T_not_before_its_time(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  take(a, 1, "k", 250);
  ask(b, 2, "k", 3, 10);
  turn(&s);
  advance(&s, 3 * TKT_S - 1);
  expect_nothing(b);
  assert_true(tkt_server_next_deadline(s.server) <= s.now + 2 * TKT_MS);
  advance(&s, 2 * TKT_MS);
  expect_timed_out(b, 2, "k");
  assert_int_equal(tkt_server_stats(s.server).timeouts, 1);
  assert_int_equal(tkt_server_stats(s.server).waiters, 0);
  stage_close(&s);
}

static void wait_above_255_counts_as_255(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  take(a, 1, "k", 250);
  ask(b, 2, "j", 0, 250);
  turn(&s);
  expect_granted(b, 2, "j");
  ask(b, 3, "k", 300, 10);
  turn(&s);
  /* The holder's lease is 250 s: keep it alive so that the wait decides. */
  advance(&s, 200 * TKT_S);
  ask(a, 1, "k", 0, 250);
  turn(&s);
  expect_granted(a, 1, "k");
  advance(&s, 54 * TKT_S);
  expect_nothing(b);
  advance(&s, 2 * TKT_S);
  expect_timed_out(b, 3, "k");
  stage_close(&s);
}

static void a_waiter_in_the_middle_leaves_without_disturbing_the_order(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 60);
  ask(b, 2, "k", 60, 10);
  ask(b, 3, "k", 1, 10);
  ask(b, 4, "k", 60, 10);
  turn(&s);
  advance(&s, 2 * TKT_S);
  expect_timed_out(b, 3, "k");
  give_back(a, token, "k");
  turn(&s);
  token = expect_granted(b, 2, "k");
  give_back(b, token, "k");
  turn(&s);
  expect_released(b, token, "k");
  expect_granted(b, 4, "k");
  stage_close(&s);
}

static void head_times_out_and_the_next_takes_its_place(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s), *c = join(&s);
  uint64_t token = take(a, 1, "k", 60);
  ask(b, 2, "k", 1, 10);
  ask(c, 3, "k", 60, 10);
  turn(&s);
  /* The wait of the head ends in the very turn the key is freed: both are answered. */
  s.now += 2 * TKT_S;
  give_back(a, token, "k");
  turn(&s);
  expect_timed_out(b, 2, "k");
  expect_granted(c, 3, "k");
  stage_close(&s);
}

static void keys_do_not_disturb_each_other(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t k = take(a, 1, "k", 60), j = take(a, 2, "j", 60);
  ask(b, 3, "k", 60, 10);
  ask(b, 4, "j", 60, 10);
  turn(&s);
  give_back(a, j, "j");
  turn(&s);
  expect_granted(b, 4, "j");
  expect_nothing(b);
  give_back(a, k, "k");
  turn(&s);
  expect_granted(b, 3, "k");
  stage_close(&s);
}

static void tokens_grow_over_all_keys_from_the_first(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  s.config.first_token = 5000;
  stage_start(&s);
  struct client *a = join(&s);
  uint64_t last = take(a, 1, "x", 10);
  assert_int_equal(last, 5000);
  for (uint64_t owner = 2; owner < 50; owner++) {
    char key[16];
    snprintf(key, sizeof key, "key%u", (unsigned)owner % 7);
    uint64_t token = take(a, owner, key, 10);
    assert_true(token > last);
    last = token;
    give_back(a, token, key);
    turn(&s);
    expect_released(a, token, key);
  }
  assert_int_equal(tkt_server_stats(s.server).next_token, last + 1);
  stage_close(&s);
}

static void tokens_stay_below_2_to_the_53(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  s.config.first_token = (UINT64_C(1) << 53) - 1;
  stage_start(&s);
  struct client *a = join(&s);
  assert_int_equal(take(a, 1, "x", 10), (UINT64_C(1) << 53) - 1);
  ask(a, 2, "y", 0, 10);
  turn(&s);
  expect_busy(a, 2, "y");
  assert_int_equal(tkt_server_stats(s.server).keys_held, 1);
  stage_close(&s);
}

static void first_token_0_still_gives_tokens_that_are_not_0(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  s.config.first_token = 0;
  stage_start(&s);
  assert_int_equal(take(join(&s), 1, "x", 10), 1);
  stage_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fair_order_is_order_of_arrival_over_sessions),
      cmocka_unit_test(release_and_the_grant_it_makes_possible_travel_in_one_batch),
      cmocka_unit_test(many_requests_of_one_turn_are_one_batch),
      cmocka_unit_test(wait_0_is_granted_where_it_heads_and_the_key_is_free),
      cmocka_unit_test(wait_0_is_told_T_at_once_and_never_queues),
      cmocka_unit_test(wait_0_does_not_overtake_a_queue_whose_key_was_just_freed),
      cmocka_unit_test(wait_ends_with_T_not_before_its_time),
      cmocka_unit_test(wait_above_255_counts_as_255),
      cmocka_unit_test(a_waiter_in_the_middle_leaves_without_disturbing_the_order),
      cmocka_unit_test(head_times_out_and_the_next_takes_its_place),
      cmocka_unit_test(keys_do_not_disturb_each_other),
      cmocka_unit_test(tokens_grow_over_all_keys_from_the_first),
      cmocka_unit_test(tokens_stay_below_2_to_the_53),
      cmocka_unit_test(first_token_0_still_gives_tokens_that_are_not_0),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
