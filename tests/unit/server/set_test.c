/* Key sets: granted whole or not at all, in arrival order; one token; released whole. */
#include "unit/server/framed.h"

#define assert_held_by(s, keys, token) assert_held_by_(s, keys, token, __FILE__, __LINE__)
/* Each of the keys is held by exactly this token (0: free). */
static void assert_held_by_(struct stage *s, const char *keys, uint64_t token, const char *file,
                            int line) {
  struct tkt_msg words = framed_request(TKT_MSG_ACQUIRE, 1, keys);
  for (size_t i = 0; i < words.key_count; i++) {
    char key[TKT_KEY_MAX + 1];
    unsigned count;
    snprintf(key, sizeof key, "%.*s", (int)words.keys[i].len, (const char *)words.keys[i].data);
    _assert_int_equal(holder_of(s, key, &count), token, file, line);
    _assert_int_equal(count, token != 0, file, line);
  }
}

static void one_token_covers_the_set(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s);
  uint64_t token = take_all(c, 1, "a b c", 5);
  assert_held_by(&s, "a b c", token);
  assert_int_equal(tkt_server_stats(s.server).keys_held, 3);
  /* One change names all of it. */
  assert_int_equal(changes_of(&s, TKT_CHANGE_GRANT, token), 1);
  assert_int_equal(last_change(&s)->key_count, 3);
  assert_true(take_all(c, 2, "d", 5) > token);
  give_back_all(c, 3, "a b c", token);
  turn(&s);
  expect_set_released(c, 3);
  assert_held_by(&s, "a b c", 0);
  assert_int_equal(changes_of(&s, TKT_CHANGE_RELEASE, token), 1);
  assert_int_equal(last_change(&s)->key_count, 3);
  give_back_all(c, 4, "a b c", token);
  turn(&s);
  expect_reply_to(c, TKT_MSG_NOT_CURRENT, 4);
  stage_close(&s);
}

static void a_set_of_one_key_is_answered_as_a_set(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s), *d = join_framed(&s);
  uint64_t token = take_all(c, 1, " k", 5);
  ask_for(d, 1, " k", 5, 5);
  give_back_all(c, 2, " k", token);
  turn(&s);
  expect_set_released(c, 2);
  token = expect_set_granted(d, 1);
  give_back_all(d, 2, "k", token); /* the same thing as a single key */
  turn(&s);
  expect_single_released(d, 2);
  assert_empty(s.server);
  stage_close(&s);
}

static void wait_0_takes_all_or_times_out(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s), *d = join(&s);
  uint64_t token = take(d, 1, "b", 5);
  ask_for(c, 1, "a b c", 0, 5);
  turn(&s);
  expect_reply_to(c, TKT_MSG_TIMED_OUT, 1);
  assert_held_by(&s, "a c", 0);
  assert_int_equal(s.server->locks.count, 1);
  give_back(d, token, "b");
  turn(&s);
  expect_released(d, token, "b");
  token = take_all(c, 2, "a b c", 5);
  assert_held_by(&s, "a b c", token);
  stage_close(&s);
}

/* It holds nothing while it waits: a free key of it can be had by an earlier one only. */
static void a_waiting_set_keeps_later_ones_from_its_free_keys(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *holder = join_framed(&s), *set = join_framed(&s), *late = join_framed(&s);
  uint64_t b = take_all(holder, 1, "b", 100);
  ask_for(set, 1, "a b", 50, 5);
  ask_for(late, 1, "a", 0, 5); /* wait 0 obeys the same rule */
  ask_for(late, 2, "a", 50, 5);
  turn(&s);
  expect_reply_to(late, TKT_MSG_TIMED_OUT, 1);
  expect_nothing(late);
  expect_nothing(set);
  assert_held_by(&s, "a", 0);
  give_back_all(holder, 2, "b", b);
  turn(&s);
  expect_single_released(holder, 2);
  uint64_t token = expect_set_granted(set, 1);
  assert_held_by(&s, "a b", token);
  expect_nothing(late);
  give_back_all(set, 2, "a b", token);
  turn(&s);
  expect_set_released(set, 2);
  expect_single_granted(late, 2);
  stage_close(&s);
}

static void a_release_and_all_it_makes_possible_travel_in_one_batch(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s), *d = join_framed(&s);
  uint64_t token = take_all(c, 1, "a b c d", 50);
  ask_for(d, 1, "b", 50, 5);
  ask_for(d, 2, "c d", 50, 5);
  turn(&s);
  uint64_t batch = s.storage.last_batch;
  give_back_all(c, 2, "a b c d", token);
  turn(&s);
  expect_set_released(c, 2);
  expect_single_granted(d, 1);
  expect_set_granted(d, 2);
  assert_int_equal(s.storage.last_batch, batch + 1);
  stage_close(&s);
}

/* Whatever takes the set out of its queues, each of its keys is looked at again. */
static void withdrawing_a_set_looks_again_at_each_key(void **state) {
  (void)state;
  for (int how = 0; how < 4; how++) {
    struct stage s;
    stage_open(&s);
    struct client *holder = join_framed(&s), *set = join_framed(&s), *late = join_framed(&s);
    uint64_t b = take_all(holder, 1, "b", 200);
    ask_for(set, 1, "a b c", 10, 5);
    ask_for(late, 1, "a", 50, 5);
    ask_for(late, 2, "c", 50, 5);
    ask_for(late, 3, "a c", 50, 5);
    ask_for(late, 4, "b", 50, 5);
    turn(&s);
    expect_nothing(late);
    if (how == 0) half_close(set);
    if (how == 1) vanish(set);
    if (how == 2) s.now += 10 * TKT_S;
    if (how == 3) ask_for(set, 0, "x", 0, 5); /* closes the session */
    turn(&s);
    if (how != 1) expect_reply_to(set, TKT_MSG_TIMED_OUT, 1);
    uint64_t a = expect_single_granted(late, 1), c = expect_single_granted(late, 2);
    expect_nothing(late);
    give_back_all(late, 5, "a", a);
    turn(&s);
    expect_single_released(late, 5);
    expect_nothing(late);
    give_back_all(late, 6, "c", c);
    give_back_all(holder, 6, "b", b);
    turn(&s);
    expect_single_released(holder, 6);
    expect_single_released(late, 6);
    struct tkt_msg first, second;
    assert_true(next_reply(late, &first) && next_reply(late, &second));
    assert_true(first.kind == TKT_MSG_GRANTED && second.kind == TKT_MSG_GRANTED);
    assert_int_equal(first.id + second.id, 3 + 4);
    stage_close(&s);
  }
}

/* Granted in this very turn, then its session ends: all its keys are there for the next. */
static void a_set_undone_in_its_turn_leaves_no_key_behind(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *set = join_framed(&s), *late = join_framed(&s);
  ask_for(set, 1, "a b c", 0, 5);
  ask_for(late, 1, "b", 9, 5);
  ask_for(late, 2, "c", 9, 5);
  half_close(set);
  turn(&s);
  expect_reply_to(set, TKT_MSG_TIMED_OUT, 1);
  expect_single_granted(late, 1);
  expect_single_granted(late, 2);
  assert_held_by(&s, "a", 0);
  assert_int_equal(s.server->sets.count, 0);
  stage_close(&s);
}

static void crossing_sets_are_granted_in_arrival_order(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s);
  static const char *const keys[] = {"a b", "b c", "a c", "c d", "a b c d"};
  enum { SETS = sizeof keys / sizeof *keys };
  uint64_t tokens[SETS + 1];
  for (uint64_t id = 1; id <= SETS; id++)
    ask_for(c, id, keys[id - 1], 50, 50);
  turn(&s);
  /* "c d" does not pass "b c" though d is free and c not held. */
  tokens[1] = expect_set_granted(c, 1);
  expect_nothing(c);
  for (uint64_t id = 1; id < SETS; id++) {
    give_back_all(c, 100 + id, keys[id - 1], tokens[id]);
    turn(&s);
    expect_set_released(c, 100 + id);
    tokens[id + 1] = expect_set_granted(c, id + 1);
    expect_nothing(c);
  }
  stage_close(&s);
}

static void the_lease_of_a_set_ends_for_all_its_keys(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s), *d = join_framed(&s);
  uint64_t token = take_all(c, 1, "a b", 5);
  ask_for(d, 1, "a", 50, 5);
  ask_for(d, 2, "b", 50, 5);
  advance(&s, 5 * TKT_S + 9 * TKT_MS); /* kept 1/500 longer */
  expect_nothing(d);
  assert_held_by(&s, "a b", token);
  advance(&s, 3 * TKT_MS);
  expect_single_granted(d, 1);
  expect_single_granted(d, 2);
  assert_int_equal(changes_of(&s, TKT_CHANGE_EXPIRE, token), 1);
  give_back_all(c, 2, "a b", token);
  turn(&s);
  expect_reply_to(c, TKT_MSG_NOT_CURRENT, 2);
  stage_close(&s);
}

/* --- release whole -------------------------------------------------------------------------------
 */

static void other_keys_than_the_granted_are_a_mismatch(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s), *line = join(&s);
  uint64_t set = take_all(c, 1, "a b c", 50), single = take_all(c, 2, "k", 50);
  static const char *const wrong[] = {"a b",   "a b c d", "a b d", "b c", "x y",
                                      "x y z", "a",       "c",     " a",  "x"};
  enum { WRONG = sizeof wrong / sizeof *wrong };
  uint64_t id = 10;
  for (size_t i = 0; i < WRONG; i++, id++) {
    give_back_all(c, id, wrong[i], set);
    turn(&s);
    expect_error_to(c, id, TKT_WIRE_ERROR_GROUP_MISMATCH);
  }
  give_back_all(c, id, "j k", single);
  turn(&s);
  expect_error_to(c, id++, TKT_WIRE_ERROR_GROUP_MISMATCH);
  /* Wire 2 has no sets: what it names is not current. */
  give_back(line, set, "a");
  turn(&s);
  expect_not_current(line, set, "a");
  /* Nothing was released by any of that, and the session is as it was. */
  assert_held_by(&s, "a b c", set);
  assert_held_by(&s, "k", single);
  assert_int_equal(s.server->locks.count, 4);
  give_back_all(c, id, "a b c", set);
  turn(&s);
  expect_set_released(c, id++);
  /* Gone, so there is no group to mismatch. */
  give_back_all(c, id, "a b", set);
  turn(&s);
  expect_reply_to(c, TKT_MSG_NOT_CURRENT, id);
  stage_close(&s);
}

static void releases_of_one_set_in_commit_get_the_same_answer(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s), *d = join_framed(&s);
  uint64_t token = take_all(c, 1, "a b", 50);
  s.storage.answer = TKT_COMMIT_PENDING;
  give_back_all(c, 2, "a b", token);
  give_back_all(d, 1, "a b", token);
  give_back_all(d, 2, "a", token);
  turn(&s);
  expect_error_to(d, 2, TKT_WIRE_ERROR_GROUP_MISMATCH);
  expect_nothing(c);
  decide(&s, s.storage.last_batch, TKT_COMMIT_DONE);
  expect_set_released(c, 2);
  expect_set_released(d, 1);
  assert_empty(s.server);
  stage_close(&s);
}

/* Grants of wire 3 and of sets match no owner of wire 2. */
static void owners_match_no_grant_of_wire_3(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s), *line = join(&s);
  take_all(c, 7, "a", 50);
  take_all(c, 8, "b c", 50);
  ask_for(c, 9, "a", 50, 5);
  ask(line, 7, "a", 0, 5);
  ask(line, 8, "b", 0, 5);
  ask(line, 9, "a", 0, 5);
  turn(&s);
  expect_timed_out(line, 7, "a");
  expect_timed_out(line, 8, "b");
  expect_timed_out(line, 9, "a");
  expect_nothing(c);
  assert_int_equal(tkt_server_stats(s.server).waiters, 1);
  stage_close(&s);
}

/* --- limits --------------------------------------------------------------------------------------
 */

static void limits_count_each_key(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  s.config.limits.keys = 4;
  s.config.limits.waiters_per_key = 1;
  s.config.limits.waiters = 3;
  stage_start(&s);
  struct client *c = join_framed(&s);
  ask_for(c, 1, "a b c d e", 0, 50);
  turn(&s);
  expect_reply_to(c, TKT_MSG_BUSY, 1);
  assert_int_equal(s.server->locks.count, 0);
  take_all(c, 2, "a b c", 50);
  ask_for(c, 3, "c d", 50, 50);  /* waits */
  ask_for(c, 4, "a d", 50, 50);  /* one waits at d */
  ask_for(c, 5, "b d e", 9, 50); /* no room for e */
  ask_for(c, 6, "a b", 50, 50);  /* waits */
  ask_for(c, 7, "b", 50, 50);    /* one waits at b */
  turn(&s);
  expect_reply_to(c, TKT_MSG_BUSY, 4);
  expect_reply_to(c, TKT_MSG_BUSY, 5);
  expect_reply_to(c, TKT_MSG_BUSY, 7);
  expect_nothing(c);
  struct tkt_server_stats stats = tkt_server_stats(s.server);
  assert_int_equal(stats.busy_keys, 2);
  assert_int_equal(stats.busy_waiters_per_key, 2);
  assert_int_equal(stats.waiters, 2);
  stage_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_token_covers_the_set),
      cmocka_unit_test(a_set_of_one_key_is_answered_as_a_set),
      cmocka_unit_test(wait_0_takes_all_or_times_out),
      cmocka_unit_test(a_waiting_set_keeps_later_ones_from_its_free_keys),
      cmocka_unit_test(a_release_and_all_it_makes_possible_travel_in_one_batch),
      cmocka_unit_test(withdrawing_a_set_looks_again_at_each_key),
      cmocka_unit_test(a_set_undone_in_its_turn_leaves_no_key_behind),
      cmocka_unit_test(crossing_sets_are_granted_in_arrival_order),
      cmocka_unit_test(the_lease_of_a_set_ends_for_all_its_keys),
      cmocka_unit_test(other_keys_than_the_granted_are_a_mismatch),
      cmocka_unit_test(releases_of_one_set_in_commit_get_the_same_answer),
      cmocka_unit_test(owners_match_no_grant_of_wire_3),
      cmocka_unit_test(limits_count_each_key),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
