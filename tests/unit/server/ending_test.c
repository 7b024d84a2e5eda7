#include "unit/server/stage.h"

static void half_close_withdraws_as_one_event_and_tells_each_T(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s), *c = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  ask(b, 2, "k", 60, 10);
  ask(b, 3, "k", 60, 10);
  ask(c, 4, "k", 60, 10);
  turn(&s);
  /* The release arrives in the turn of the half-close, and before it. */
  give_back(a, token, "k");
  half_close(b);
  turn(&s);
  expect_timed_out(b, 2, "k");
  expect_timed_out(b, 3, "k");
  expect_nothing(b);
  assert_true(b->closed);
  assert_false(b->shut); /* it had closed its side: nothing to linger for */
  expect_granted(c, 4, "k");
  assert_int_equal(tkt_server_stats(s.server).withdrawn, 2);
  stage_close(&s);
}

static void bytes_before_the_eof_are_applied_first(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  uint64_t token = take(a, 1, "k", 10);
  ask(b, 2, "k", 60, 10);
  turn(&s);
  give_back(a, token, "k");
  ask(a, 3, "j", 60, 10);
  half_close(a);
  turn(&s);
  expect_timed_out(a, 3, "j"); /* no grant was decided for it yet */
  expect_released(a, token, "k");
  expect_nothing(a);
  assert_true(a->closed);
  expect_granted(b, 2, "k");
  assert_int_equal(holder_of(&s, "j", NULL), 0);
  assert_int_equal(changes_of(&s, TKT_CHANGE_GRANT, token + 1), 0);
  stage_close(&s);
}

static void request_that_ended_in_the_turn_it_came_leaves_the_key_to_the_next(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  ask(a, 1, "k", 60, 10);
  ask(b, 2, "k", 60, 10);
  vanish(a);
  turn(&s);
  expect_granted(b, 2, "k");
  assert_int_equal(s.storage.count, 1);
  assert_true(a->closed);
  expect_nothing(a);
  stage_close(&s);
}

static void grants_stay_when_their_session_ends(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s), *c = join(&s);
  uint64_t k = take(a, 1, "k", 30), j = take(b, 2, "j", 30);
  half_close(a);
  vanish(b);
  turn(&s);
  assert_true(a->closed);
  assert_true(b->closed);
  assert_int_equal(holder_of(&s, "k", NULL), k);
  assert_int_equal(holder_of(&s, "j", NULL), j);
  give_back(c, k, "k");
  turn(&s);
  expect_released(c, k, "k");
  advance(&s, 31 * TKT_S);
  assert_int_equal(holder_of(&s, "j", NULL), 0);
  stage_close(&s);
}

static void unsent_grant_is_taken_back_when_its_session_dies(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  a->blocked = true;
  ask(a, 1, "k", 0, 100);
  turn(&s);
  assert_int_equal(holder_of(&s, "k", NULL), 100);
  ask(b, 2, "k", 60, 10);
  turn(&s);
  expect_nothing(b);
  vanish(a);
  turn(&s);
  assert_int_equal(changes_of(&s, TKT_CHANGE_RELEASE, 100), 1);
  expect_granted(b, 2, "k");
  assert_int_equal(tkt_server_stats(s.server).taken_back, 1);
  assert_int_equal(tkt_server_stats(s.server).releases, 0);
  stage_close(&s);
}

static void grant_of_which_one_byte_left_is_not_taken_back(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  a->takes = 1;
  ask(a, 1, "k", 0, 100);
  turn(&s);
  assert_int_equal(unread(a), 1);
  vanish(a);
  turn(&s);
  assert_int_equal(holder_of(&s, "k", NULL), 100);
  assert_int_equal(tkt_server_stats(s.server).taken_back, 0);
  ask(b, 2, "k", 0, 10);
  turn(&s);
  expect_timed_out(b, 2, "k");
  stage_close(&s);
}

/* A TLS stream may let bytes leave that it does not say it took. */
static void grant_that_was_handed_over_counts_as_told(void **state) {
  (void)state;
  for (int named = 0; named < 2; named++) {
    struct stage s;
    stage_open(&s);
    struct client *a = join(&s);
    a->blocked = true;
    ask(a, 1, "first", 0, 100);
    ask(a, 2, "k", 0, 100);
    turn(&s);
    const size_t first = 1 + 8 + 8 + 5 + 1; /* the reply that names the other key */
    assert_int_equal(tkt_peer_output(a->peer).len, first + 1 + 8 + 8 + 1 + 1);
    tkt_server_handed(s.server, a->peer, named ? first + 1 : first);
    assert_int_equal(tkt_peer_wants(a->peer), TKT_PEER_WRITE); /* nothing was consumed */
    assert_int_equal(tkt_peer_output(a->peer).len, first + 1 + 8 + 8 + 1 + 1);
    vanish(a);
    tkt_server_handed(s.server, a->peer, 1); /* harmless by now */
    turn(&s);
    assert_int_equal(holder_of(&s, "first", NULL), 100);
    assert_int_equal(holder_of(&s, "k", NULL), named ? 101 : 0);
    assert_int_equal(tkt_server_stats(s.server).taken_back, !named);
    stage_close(&s);
  }
}

static void bytes_of_an_earlier_reply_do_not_count_for_a_later_one(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  a->takes = 1 + 8 + 8 + 1 + 1; /* exactly the first A */
  ask(a, 1, "k", 0, 100);
  ask(a, 2, "j", 0, 100);
  turn(&s);
  expect_granted(a, 1, "k");
  vanish(a);
  turn(&s);
  assert_int_equal(holder_of(&s, "k", NULL), 100);
  assert_int_equal(holder_of(&s, "j", NULL), 0);
  assert_int_equal(tkt_server_stats(s.server).taken_back, 1);
  stage_close(&s);
}

static void grant_named_on_two_sessions_is_taken_back_when_neither_was_told(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  a->blocked = b->blocked = true;
  ask(a, 1, "k", 0, 100);
  turn(&s);
  ask(b, 1, "k", 0, 100);
  turn(&s);
  vanish(a);
  turn(&s);
  assert_int_equal(holder_of(&s, "k", NULL), 100); /* b may still be told */
  vanish(b);
  turn(&s);
  assert_int_equal(holder_of(&s, "k", NULL), 0);
  stage_close(&s);
}

static void grant_told_once_stays_though_its_second_reply_was_never_sent(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  take(a, 1, "k", 100);
  b->blocked = true;
  ask(b, 1, "k", 0, 100);
  turn(&s);
  vanish(b);
  turn(&s);
  assert_int_equal(holder_of(&s, "k", NULL), 100);
  stage_close(&s);
}

static void grant_committed_after_its_session_died_is_taken_back(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 1, "k", 0, 100);
  turn(&s);
  vanish(a);
  turn(&s);
  assert_true(a->closed);
  ask(b, 2, "k", 60, 10);
  turn(&s);
  assert_int_equal(holder_of(&s, "k", NULL), 100); /* in commit: nothing can be undone */
  s.storage.answer = TKT_COMMIT_DONE;
  decide(&s, 1, TKT_COMMIT_DONE);
  expect_granted(b, 2, "k");
  assert_int_equal(changes_of(&s, TKT_CHANGE_RELEASE, 100), 1);
  stage_close(&s);
}

static void taking_back_joins_a_release_and_keeps_the_hold_where_it_fails(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  a->blocked = true;
  ask(a, 1, "k", 0, 10);
  turn(&s);
  s.storage.answer = TKT_COMMIT_PENDING;
  vanish(a);
  turn(&s);
  give_back(b, 100, "k");
  turn(&s);
  s.storage.answer = TKT_COMMIT_DONE;
  decide(&s, 2, TKT_COMMIT_FAILED);
  assert_true(b->shut);
  assert_int_equal(holder_of(&s, "k", NULL), 100);
  advance(&s, 11 * TKT_S);
  assert_int_equal(holder_of(&s, "k", NULL), 0);
  stage_close(&s);
}

static void grant_released_before_its_reply_left_is_gone_for_good(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  a->blocked = true;
  ask(a, 1, "k", 0, 10);
  turn(&s);
  give_back(b, 100, "k");
  turn(&s);
  expect_released(b, 100, "k");
  a->blocked = false;
  ask(a, 2, "k", 0, 10);
  turn(&s);
  assert_int_equal(expect_granted(a, 1, "k"), 100);
  assert_int_equal(expect_granted(a, 2, "k"), 101);
  assert_int_equal(holder_of(&s, "k", NULL), 101);
  stage_close(&s);
}

static void slow_reader_is_closed_and_its_unsent_grants_taken_back(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  s.config.limits.output_bytes = 1000;
  stage_start(&s);
  struct client *a = join(&s), *b = join(&s);
  a->blocked = true;
  ask(a, 1, "k", 0, 100);
  turn(&s);
  for (uint64_t i = 0; i < 200 && !a->closed; i++) {
    give_back(a, 5, "nothing");
    turn(&s);
  }
  assert_true(a->closed);
  assert_int_equal(tkt_server_stats(s.server).slow_readers, 1);
  assert_int_equal(holder_of(&s, "k", NULL), 0);
  take(b, 2, "k", 10);
  stage_close(&s);
}

static void slow_reader_among_the_waiters_of_one_event_ends_alone(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  s.config.limits.output_bytes = 100;
  stage_start(&s);
  struct client *a = join(&s), *b = join(&s), *c = join(&s);
  take(a, 1, "k", 250);
  b->blocked = true;
  for (uint64_t i = 0; i < 50; i++)
    ask(b, 10 + i, "k", 1, 10);
  ask(c, 2, "k", 1, 10);
  turn(&s);
  advance(&s, 2 * TKT_S); /* all waits end, the output of one session overflows */
  assert_true(b->closed);
  expect_timed_out(c, 2, "k");
  assert_int_equal(tkt_server_stats(s.server).waiters, 0);
  stage_close(&s);
}

/* Its session breaks over the T of another wait, in the turn in which its key gets free: the grant
 * goes to the next at once, not to the broken one and back. */
static void waiter_of_a_session_that_breaks_in_a_turn_is_not_granted_in_it(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  s.config.limits.output_bytes = 100;
  stage_start(&s);
  struct client *a = join(&s), *b = join(&s), *c = join(&s);
  uint64_t token = take(a, 1, "key", 2);
  take(a, 2, "other", 250);
  ask(b, 1, "other", 2, 10);
  ask(b, 2, "key", 60, 10);
  ask(c, 3, "key", 60, 10);
  turn(&s);
  b->blocked = true;
  for (uint64_t i = 0; tkt_peer_output(b->peer).len + 15 <= 100; i++) {
    ask(b, 10 + i, "other", 0, 10);
    turn(&s);
  }
  uint64_t batch = s.storage.last_batch;
  advance(&s, 3 * TKT_S);
  assert_true(b->closed);
  expect_granted(c, 3, "key");
  assert_int_equal(changes_of(&s, TKT_CHANGE_EXPIRE, token), 1);
  assert_int_equal(s.storage.last_batch, batch + 1);
  assert_int_equal(tkt_server_stats(s.server).taken_back, 0);
  assert_int_equal(tkt_server_stats(s.server).grants, 3);
  stage_close(&s);
}

static void ending_session_whose_output_is_not_taken_is_closed(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  a->blocked = true;
  give_back(a, 5, "nothing");
  half_close(a);
  turn(&s);
  assert_false(a->closed);
  advance(&s, 4 * TKT_S);
  assert_true(a->closed);
  stage_close(&s);
}

static void drain_tells_T_lets_replies_leave_and_ends_every_session(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s), *mute = connect_raw(&s);
  uint64_t token = take(a, 1, "k", 100);
  ask(b, 2, "k", 60, 10);
  turn(&s);
  tkt_server_drain(s.server, s.now);
  assert_null(connect_raw(&s));
  turn(&s);
  assert_true(mute->closed);
  expect_timed_out(b, 2, "k");
  assert_true(a->shut);
  assert_true(b->shut);
  assert_false(tkt_server_drained(s.server));
  half_close(a); /* the clients see our end and close theirs */
  turn(&s);
  assert_true(a->closed);
  advance(&s, 2 * TKT_S); /* b does not: it is closed after a while */
  assert_true(b->closed);
  assert_true(tkt_server_drained(s.server));
  assert_int_equal(holder_of(&s, "k", NULL), token);
  stage_close(&s);
}

static void drain_waits_for_what_is_in_commit(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  s.storage.answer = TKT_COMMIT_PENDING;
  ask(a, 1, "k", 0, 100);
  turn(&s);
  tkt_server_drain(s.server, s.now);
  turn(&s);
  assert_false(a->shut);
  decide(&s, 1, TKT_COMMIT_DONE);
  expect_granted(a, 1, "k");
  assert_true(a->shut);
  half_close(a);
  turn(&s);
  assert_true(tkt_server_drained(s.server));
  stage_close(&s);
}

static void input_after_the_end_changes_nothing(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  send_bytes(a, "?", 1);
  ask(a, 1, "k", 0, 10);
  turn(&s);
  expect_error(a, TKT_WIRE_ERROR_BAD_OP);
  ask(a, 2, "k", 0, 10);
  turn(&s);
  expect_nothing(a);
  half_close(a);
  turn(&s);
  assert_true(a->closed);
  assert_int_equal(tkt_server_stats(s.server).keys_held, 0);
  stage_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(half_close_withdraws_as_one_event_and_tells_each_T),
      cmocka_unit_test(bytes_before_the_eof_are_applied_first),
      cmocka_unit_test(request_that_ended_in_the_turn_it_came_leaves_the_key_to_the_next),
      cmocka_unit_test(grants_stay_when_their_session_ends),
      cmocka_unit_test(unsent_grant_is_taken_back_when_its_session_dies),
      cmocka_unit_test(grant_of_which_one_byte_left_is_not_taken_back),
      cmocka_unit_test(grant_that_was_handed_over_counts_as_told),
      cmocka_unit_test(waiter_of_a_session_that_breaks_in_a_turn_is_not_granted_in_it),
      cmocka_unit_test(bytes_of_an_earlier_reply_do_not_count_for_a_later_one),
      cmocka_unit_test(grant_named_on_two_sessions_is_taken_back_when_neither_was_told),
      cmocka_unit_test(grant_told_once_stays_though_its_second_reply_was_never_sent),
      cmocka_unit_test(grant_committed_after_its_session_died_is_taken_back),
      cmocka_unit_test(taking_back_joins_a_release_and_keeps_the_hold_where_it_fails),
      cmocka_unit_test(grant_released_before_its_reply_left_is_gone_for_good),
      cmocka_unit_test(slow_reader_is_closed_and_its_unsent_grants_taken_back),
      cmocka_unit_test(slow_reader_among_the_waiters_of_one_event_ends_alone),
      cmocka_unit_test(ending_session_whose_output_is_not_taken_is_closed),
      cmocka_unit_test(drain_tells_T_lets_replies_leave_and_ends_every_session),
      cmocka_unit_test(drain_waits_for_what_is_in_commit),
      cmocka_unit_test(input_after_the_end_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
