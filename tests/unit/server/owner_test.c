#include "unit/server/framed.h"

static void same_owner_gets_the_same_token_on_the_newest_session(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 7, "k", 10);
  ask(b, 7, "k", 0, 10);
  turn(&s);
  assert_int_equal(expect_granted(b, 7, "k"), token);
  expect_nothing(a);
  unsigned count;
  holder_of(&s, "k", &count);
  assert_int_equal(count, 1);
  stage_close(&s);
}

static void same_owner_extends_the_lease_as_a_committed_change(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  uint64_t token = take(a, 7, "k", 10);
  advance(&s, 8 * TKT_S);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 7, "k", 0, 20);
  turn(&s);
  expect_nothing(a);
  assert_int_equal(last_change(&s)->kind, TKT_CHANGE_EXTEND);
  assert_int_equal(last_change(&s)->token, token);
  assert_true(last_change(&s)->lease_ns == 20 * TKT_S + 40 * TKT_MS);
  s.storage.answer = TKT_COMMIT_DONE;
  decide(&s, 2, TKT_COMMIT_DONE);
  assert_int_equal(expect_granted(a, 7, "k"), token);
  advance(&s, 20 * TKT_S);
  assert_int_equal(holder_of(&s, "k", NULL), token);
  advance(&s, 42 * TKT_MS);
  assert_int_equal(holder_of(&s, "k", NULL), 0);
  stage_close(&s);
}

static void same_owner_with_a_shorter_lease_changes_nothing_and_shortens_nothing(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  uint64_t token = take(a, 7, "k", 100);
  ask(a, 7, "k", 0, 5);
  turn(&s);
  assert_int_equal(expect_granted(a, 7, "k"), token);
  assert_int_equal(s.storage.last_batch, 1);
  advance(&s, 99 * TKT_S);
  assert_int_equal(holder_of(&s, "k", NULL), token);
  stage_close(&s);
}

static void lease_does_not_end_while_its_extension_is_in_commit(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  uint64_t token = take(a, 7, "k", 10);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 7, "k", 0, 20);
  turn(&s);
  advance(&s, 15 * TKT_S);
  assert_int_equal(holder_of(&s, "k", NULL), token);
  s.storage.answer = TKT_COMMIT_DONE;
  decide(&s, 2, TKT_COMMIT_DONE);
  assert_int_equal(expect_granted(a, 7, "k"), token);
  assert_int_equal(changes_of(&s, TKT_CHANGE_EXPIRE, token), 0);
  stage_close(&s);
}

static void failed_extension_is_busy_and_the_old_lease_goes_on(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  uint64_t token = take(a, 7, "k", 10);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 7, "k", 0, 20);
  turn(&s);
  advance(&s, 15 * TKT_S);
  s.storage.answer = TKT_COMMIT_DONE;
  decide(&s, 2, TKT_COMMIT_FAILED);
  expect_busy(a, 7, "k");
  turn(&s); /* that lease is over by now */
  assert_int_equal(holder_of(&s, "k", NULL), 0);
  assert_int_equal(changes_of(&s, TKT_CHANGE_EXPIRE, token), 1);
  stage_close(&s);
}

static void grant_in_commit_counts_as_the_holder(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 7, "k", 0, 10);
  turn(&s);
  ask(b, 7, "k", 0, 10);
  turn(&s);
  expect_nothing(b);
  assert_int_equal(s.storage.last_batch, 1); /* the lease in commit is long enough */
  decide(&s, 1, TKT_COMMIT_DONE);
  assert_int_equal(expect_granted(b, 7, "k"), 100);
  expect_nothing(a);
  stage_close(&s);
}

static void grant_in_commit_is_extended_for_a_longer_lease(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 7, "k", 0, 10);
  turn(&s);
  ask(b, 7, "k", 0, 30);
  turn(&s);
  assert_int_equal(s.storage.last_batch, 2);
  decide(&s, 1, TKT_COMMIT_DONE);
  expect_nothing(a);
  expect_nothing(b);
  s.storage.answer = TKT_COMMIT_DONE;
  decide(&s, 2, TKT_COMMIT_DONE);
  uint64_t token = expect_granted(b, 7, "k");
  advance(&s, 30 * TKT_S);
  assert_int_equal(holder_of(&s, "k", NULL), token);
  stage_close(&s);
}

static void grant_that_fails_takes_its_extension_in_commit_along(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 7, "k", 0, 10);
  turn(&s);
  ask(b, 7, "k", 0, 30);
  turn(&s);
  decide(&s, 1, TKT_COMMIT_FAILED);
  expect_busy(b, 7, "k");
  assert_int_equal(holder_of(&s, "k", NULL), 0);
  decide(&s, 2, TKT_COMMIT_FAILED);
  expect_nothing(a);
  expect_nothing(b);
  stage_close(&s);
}

static void grant_that_fails_takes_its_staged_extension_along(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 7, "k", 0, 10);
  turn(&s);
  ask(a, 7, "k", 0, 30);
  tkt_server_committed(s.server, 1, TKT_COMMIT_FAILED, s.now);
  turn(&s);
  expect_busy(a, 7, "k");
  assert_int_equal(s.storage.last_batch, 1);
  assert_int_equal(holder_of(&s, "k", NULL), 0);
  stage_close(&s);
}

static void repeated_in_the_same_turn_it_is_one_change_with_the_longest_lease(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  ask(a, 7, "k", 0, 10);
  ask(b, 7, "k", 0, 40);
  ask(b, 7, "k", 0, 20);
  turn(&s);
  assert_int_equal(s.storage.count, 1);
  assert_true(last_change(&s)->lease_ns == 40 * TKT_S + 80 * TKT_MS);
  expect_granted(b, 7, "k");
  expect_nothing(b);
  expect_nothing(a);
  stage_close(&s);
}

static void queued_waiter_moves_and_keeps_its_place(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s), *c = join(&s);
  uint64_t token = take(a, 1, "k", 200);
  ask(b, 2, "k", 5, 10);
  ask(c, 3, "k", 60, 10);
  turn(&s);
  ask(c, 2, "k", 100, 33); /* the second waiter's session now, first in the queue still */
  turn(&s);
  assert_int_equal(tkt_server_stats(s.server).waiters, 2);
  advance(&s, 10 * TKT_S); /* the old wait would be over: the new one counts */
  expect_nothing(b);
  expect_nothing(c);
  vanish(b); /* and the old session takes nothing along */
  turn(&s);
  give_back(a, token, "k");
  turn(&s);
  expect_granted(c, 2, "k");
  expect_nothing(c);
  assert_true(last_change(&s)->lease_ns == 33 * TKT_S + 66 * TKT_MS);
  stage_close(&s);
}

/* Late bytes of a connection that was given up may move it away from the one that is alive. */
static void waiter_goes_back_where_it_came_from_if_its_session_ends(void **state) {
  (void)state;
  for (int ends = 0; ends < 2; ends++) {
    struct stage s;
    stage_open(&s);
    struct client *a = join(&s), *old = join(&s), *alive = join(&s);
    uint64_t token = take(a, 1, "k", 200);
    ask(alive, 2, "k", 60, 50);
    ask(a, 3, "k", 60, 10);
    turn(&s);
    ask(old, 2, "k", 60, 10);
    ends ? vanish(old) : half_close(old);
    turn(&s);
    assert_int_equal(tkt_server_stats(s.server).waiters, 2);
    assert_int_equal(tkt_server_stats(s.server).withdrawn, 0);
    if (!ends) expect_nothing(old);
    give_back(a, token, "k");
    turn(&s);
    expect_released(a, token, "k");
    expect_granted(alive, 2, "k");                        /* and it has kept its place */
    assert_true(last_change(&s)->lease_ns >= 50 * TKT_S); /* it counts on what it asked for */
    expect_nothing(a);
    stage_close(&s);
  }
}

static void waiter_does_not_go_back_to_a_session_that_ended_first(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s), *c = join(&s);
  take(a, 1, "k", 200);
  ask(b, 2, "k", 60, 10);
  turn(&s);
  ask(c, 2, "k", 60, 10);
  turn(&s);
  vanish(b);
  turn(&s);
  assert_int_equal(tkt_server_stats(s.server).sessions, 2);
  half_close(c);
  turn(&s);
  expect_timed_out(c, 2, "k");
  assert_int_equal(tkt_server_stats(s.server).waiters, 0);
  stage_close(&s);
}

static void waiter_goes_back_once(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s), *c = join(&s);
  take(a, 1, "k", 200);
  ask(b, 2, "k", 60, 10);
  turn(&s);
  ask(c, 2, "k", 60, 10);
  turn(&s);
  ask(b, 2, "k", 60, 10);
  turn(&s);
  half_close(b); /* to c, where it came from last */
  turn(&s);
  expect_nothing(b);
  half_close(c);
  turn(&s);
  expect_timed_out(c, 2, "k");
  assert_int_equal(tkt_server_stats(s.server).waiters, 0);
  stage_close(&s);
}

static void queued_waiter_that_comes_again_with_wait_0_is_told_T_on_the_new_session(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s), *c = join(&s);
  uint64_t token = take(a, 1, "k", 200);
  ask(b, 2, "k", 60, 10);
  turn(&s);
  ask(c, 2, "k", 0, 10);
  turn(&s);
  expect_timed_out(c, 2, "k");
  expect_nothing(b);
  assert_int_equal(tkt_server_stats(s.server).waiters, 0);
  give_back(a, token, "k");
  turn(&s);
  assert_int_equal(holder_of(&s, "k", NULL), 0);
  stage_close(&s);
}

static void head_that_comes_again_with_wait_0_as_the_key_falls_free_is_granted(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 200);
  ask(b, 2, "k", 60, 10);
  turn(&s);
  give_back(a, token, "k");
  ask(b, 2, "k", 0, 10);
  turn(&s);
  expect_granted(b, 2, "k");
  expect_nothing(b);
  stage_close(&s);
}

static void owner_0_matches_nothing(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 0, "k", 10);
  ask(b, 0, "k", 60, 10);
  ask(b, 0, "k", 60, 10);
  turn(&s);
  expect_nothing(b);
  assert_int_equal(tkt_server_stats(s.server).waiters, 2);
  give_back(a, token, "k");
  turn(&s);
  assert_true(expect_granted(b, 0, "k") > token);
  stage_close(&s);
}

static void same_owner_on_another_key_is_another_acquisition(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  uint64_t k = take(a, 7, "k", 10), j = take(a, 7, "j", 10);
  assert_true(j > k);
  stage_close(&s);
}

static void owner_whose_release_is_in_commit_queues_as_a_new_acquisition(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  uint64_t token = take(a, 7, "k", 10);
  s.storage.answer = TKT_COMMIT_PENDING;
  give_back(a, token, "k");
  turn(&s);
  ask(a, 7, "k", 60, 10);
  turn(&s);
  s.storage.answer = TKT_COMMIT_DONE;
  decide(&s, 2, TKT_COMMIT_DONE);
  expect_released(a, token, "k");
  assert_true(expect_granted(a, 7, "k") > token);
  stage_close(&s);
}

/* Queues that are searched and queues whose owners stand in the table, with waiters of wire 3 or
 * sets between them: an owner that comes again is the same waiter, moved. */
static void owner_is_found_in_queues_of_any_length(void **state) {
  (void)state;
  static const char *const between[] = {NULL, "k", "j k"};
  for (size_t length = 1; length <= 24; length++)
    for (int kind = 0; kind < 3; kind++) {
      struct stage s;
      stage_open(&s);
      struct client *a = join(&s), *b = join(&s), *framed = join_framed(&s);
      uint64_t token = take(a, 1, "k", 250), id = 0;
      for (size_t i = 0; i < length; i++) {
        ask(a, 100 + i, "k", 200, 10);
        if (kind) ask_for(framed, ++id, between[kind], 200, 10);
      }
      turn(&s);
      for (size_t i = 0; i < length; i++)
        ask(b, 100 + length - 1 - i, "k", 200, 10);
      ask(b, 99, "k", 0, 10); /* none of them */
      turn(&s);
      expect_timed_out(b, 99, "k");
      assert_int_equal(tkt_server_stats(s.server).waiters, length * (kind ? 2 : 1));
      /* In their old order, each on its newest session; whoever was granted last gives back. */
      bool set = false;
      for (size_t i = 0; i < length * (kind ? 2 : 1); i++) {
        bool theirs = kind && i % 2 == 1;
        if (set) {
          give_back_all(framed, ++id, "j k", token);
        } else {
          give_back(a, token, "k");
        }
        turn(&s);
        expect_kind_(set ? framed : a, TKT_MSG_RELEASED, __FILE__, __LINE__);
        if (theirs) {
          token = expect_kind_(framed, TKT_MSG_GRANTED, __FILE__, __LINE__).token;
        } else {
          token = expect_granted(b, 100 + (kind ? i / 2 : i), "k");
        }
        set = theirs && kind == 2;
      }
      stage_close(&s);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_owner_gets_the_same_token_on_the_newest_session),
      cmocka_unit_test(same_owner_extends_the_lease_as_a_committed_change),
      cmocka_unit_test(same_owner_with_a_shorter_lease_changes_nothing_and_shortens_nothing),
      cmocka_unit_test(lease_does_not_end_while_its_extension_is_in_commit),
      cmocka_unit_test(failed_extension_is_busy_and_the_old_lease_goes_on),
      cmocka_unit_test(grant_in_commit_counts_as_the_holder),
      cmocka_unit_test(grant_in_commit_is_extended_for_a_longer_lease),
      cmocka_unit_test(grant_that_fails_takes_its_extension_in_commit_along),
      cmocka_unit_test(grant_that_fails_takes_its_staged_extension_along),
      cmocka_unit_test(repeated_in_the_same_turn_it_is_one_change_with_the_longest_lease),
      cmocka_unit_test(queued_waiter_moves_and_keeps_its_place),
      cmocka_unit_test(waiter_goes_back_where_it_came_from_if_its_session_ends),
      cmocka_unit_test(waiter_does_not_go_back_to_a_session_that_ended_first),
      cmocka_unit_test(waiter_goes_back_once),
      cmocka_unit_test(queued_waiter_that_comes_again_with_wait_0_is_told_T_on_the_new_session),
      cmocka_unit_test(head_that_comes_again_with_wait_0_as_the_key_falls_free_is_granted),
      cmocka_unit_test(owner_is_found_in_queues_of_any_length),
      cmocka_unit_test(owner_0_matches_nothing),
      cmocka_unit_test(same_owner_on_another_key_is_another_acquisition),
      cmocka_unit_test(owner_whose_release_is_in_commit_queues_as_a_new_acquisition),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
