#include "unit/client/fixture.h"

static void s3_cancel_before_send_is_cancelled_and_sends_nothing(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  acquire(&f, &call, "k", 5, 60);
  tkt_client_cancel(f.client, &call, f.now);
  assert_int_equal(call.outcome, TKT_CANCELLED);
  assert_ptr_equal(tkt_client_next_done(f.client), &call);
  assert_null(tkt_client_next_done(f.client));
  turn(&f);
  assert_int_equal(requests_left(&f), 0);
  assert_int_equal(open_sessions(&f), 2);
  fix_end(&f);
}

static void s3_cancel_after_send_is_indeterminate_and_half_closes_the_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  tkt_client_cancel(f.client, &call, f.now);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  turn(&f);
  assert_true(f.peers[peer].shut);
  assert_false(f.peers[peer].closed);
  assert_int_equal(f.peer_count, 3); /* the successor is dialled at once */
  tkt_session_eof(f.peers[peer].session, f.now);
  turn(&f);
  assert_true(f.peers[peer].closed);
  fix_end(&f);
}

static void s3_it_is_read_for_at_most_2_s(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  tkt_client_cancel(f.client, &call, f.now);
  pass(&f, 1900 * TKT_MS);
  assert_false(f.peers[peer].closed);
  pass(&f, 200 * TKT_MS);
  assert_true(f.peers[peer].closed);
  fix_end(&f);
}

static void s3_a_late_grant_of_the_cancelled_request_is_released(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  tkt_client_cancel(f.client, &call, f.now);
  turn(&f);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 41, "k");
  turn(&f);
  size_t other = find_request(&f, &msg);
  assert_true(other != peer);
  assert_int_equal(msg.kind, TKT_MSG_RELEASE);
  assert_int_equal(msg.token, 41);
  fix_end(&f);
}

static void s3_neighbours_take_the_replies_that_still_come(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call calls[6];
  struct tkt_msg msgs[6];
  size_t peers[6];
  for (int i = 0; i < 6; i++)
    peers[i] = send_acquire(&f, &calls[i], "k", 5, 60, &msgs[i]);
  assert_int_equal(peers[0], peers[2]);
  assert_int_equal(peers[0], peers[4]);
  tkt_client_cancel(f.client, &calls[0], f.now);
  turn(&f);
  reply(&f, peers[2], TKT_MSG_GRANTED, msgs[2].id, 17, "k");
  assert_int_equal(calls[2].outcome, TKT_OK);
  reply(&f, peers[4], TKT_MSG_TIMED_OUT, msgs[4].id, 0, "k"); /* withdrawn: goes on elsewhere */
  assert_int_equal(calls[4].outcome, TKT_PENDING);
  tkt_session_eof(f.peers[peers[0]].session, f.now);
  turn(&f);
  assert_int_equal(calls[4].outcome, TKT_PENDING);
  pass(&f, 20 * TKT_MS);
  struct tkt_msg again;
  size_t second = find_request(&f, &again);
  reply(&f, second, TKT_MSG_GRANTED, again.id, 18, "k");
  assert_int_equal(calls[4].outcome, TKT_OK);
  assert_int_equal(calls[1].outcome, TKT_PENDING); /* on the other session: untouched */
  fix_end(&f);
}

static void s3_unanswered_neighbours_are_indeterminate_at_the_end(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call calls[3];
  struct tkt_msg msgs[3];
  for (int i = 0; i < 3; i++)
    send_acquire(&f, &calls[i], "k", 5, 60, &msgs[i]);
  tkt_client_cancel(f.client, &calls[0], f.now);
  turn(&f);
  assert_int_equal(calls[2].outcome, TKT_PENDING);
  pass(&f, 2100 * TKT_MS);
  assert_int_equal(calls[2].outcome, TKT_INDETERMINATE);
  fix_end(&f);
}

static void s3_a_closing_session_takes_no_new_request(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call, more[8];
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  tkt_client_cancel(f.client, &call, f.now);
  for (int i = 0; i < 8; i++)
    acquire(&f, &more[i], "k", 5, 60);
  turn(&f);
  expect_silence(&f, peer);
  assert_int_equal(requests_left(&f), 8);
  fix_end(&f);
}

static void s3_requests_queued_there_go_elsewhere(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call, queued[4];
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  for (int i = 0; i < 4; i++)
    acquire(&f, &queued[i], "k", 5, 60); /* some stand on its queue */
  tkt_client_cancel(f.client, &call, f.now);
  turn(&f);
  expect_silence(&f, peer);
  assert_int_equal(requests_left(&f), 4);
  fix_end(&f);
}

static void s3_cancels_on_a_closing_session_cost_nothing_more(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call calls[5];
  struct tkt_msg msgs[5];
  for (int i = 0; i < 5; i++)
    send_acquire(&f, &calls[i], "k", 5, 60, &msgs[i]);
  for (int i = 0; i < 5; i += 2) {
    tkt_client_cancel(f.client, &calls[i], f.now);
    assert_int_equal(calls[i].outcome, TKT_INDETERMINATE);
  }
  turn(&f);
  assert_int_equal(f.peer_count, 3);
  assert_int_equal(counter(&f, "sessions_closed_by_client"), 1);
  fix_end(&f);
}

static void s3_option_keeps_the_session(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.config.cancel_keeps_session = true;
  fix_new(&f);
  turn(&f);
  struct tkt_call calls[4];
  struct tkt_msg msgs[4];
  size_t peers[4];
  for (int i = 0; i < 4; i++)
    peers[i] = send_acquire(&f, &calls[i], "k", 5, 60, &msgs[i]);
  tkt_client_cancel(f.client, &calls[0], f.now);
  tkt_client_cancel(f.client, &calls[1], f.now);
  assert_int_equal(calls[0].outcome, TKT_INDETERMINATE);
  turn(&f);
  assert_int_equal(open_sessions(&f), 2);
  assert_int_equal(f.peer_count, 2);
  /* S5: the tombstones swallow a T and send a late grant back. */
  reply(&f, peers[0], TKT_MSG_TIMED_OUT, msgs[0].id, 0, "k");
  reply(&f, peers[1], TKT_MSG_GRANTED, msgs[1].id, 66, "k");
  turn(&f);
  struct tkt_msg msg;
  find_request(&f, &msg);
  assert_int_equal(msg.kind, TKT_MSG_RELEASE);
  assert_int_equal(msg.token, 66);
  assert_int_equal(calls[2].outcome, TKT_PENDING);
  assert_int_equal(open_sessions(&f), 2);
  fix_end(&f);
}

static void s5_a_tombstone_ends_with_its_deadline_and_closes_the_session(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.config.cancel_keeps_session = true;
  fix_new(&f);
  turn(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  tkt_client_cancel(f.client, &call, f.now);
  pass(&f, 9900 * TKT_MS);
  assert_false(f.peers[peer].shut);
  pass(&f, 200 * TKT_MS);
  assert_true(f.peers[peer].shut);
  fix_end(&f);
}

static void s5_tombstones_of_a_session_are_bounded(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.config.cancel_keeps_session = true;
  f.config.max_in_flight = 16;
  fix_new(&f);
  turn(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  for (int i = 0; i < 2 * TKT_TOMBSTONES_MAX - 2; i++) {
    send_acquire(&f, &call, "k", 5, 60, &msg); /* its slot is free again each time */
    tkt_client_cancel(f.client, &call, f.now);
    assert_int_equal(call.outcome, TKT_INDETERMINATE);
  }
  turn(&f);
  assert_int_equal(f.peer_count, 2);
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  tkt_client_cancel(f.client, &call, f.now);
  turn(&f);
  assert_true(f.peers[peer].shut);
  assert_false(f.peers[1 - peer].shut);
  fix_end(&f);
}

static void s3_cancel_of_a_granted_untaken_acquire_releases_it(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 23, "k");
  tkt_client_cancel(f.client, &call, f.now);
  assert_int_equal(call.outcome, TKT_OK);
  struct tkt_ticket *ticket;
  assert_int_equal(tkt_client_take(f.client, &call, f.now, &ticket), TKT_CANCELLED);
  assert_null(ticket);
  turn(&f);
  find_request(&f, &msg);
  assert_int_equal(msg.kind, TKT_MSG_RELEASE);
  assert_int_equal(msg.token, 23);
  assert_int_equal(open_sessions(&f), 2);
  fix_end(&f);
}

static void cancel_of_an_ended_call_changes_nothing(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  reply(&f, peer, TKT_MSG_BUSY, msg.id, 0, "k");
  tkt_client_cancel(f.client, &call, f.now);
  assert_int_equal(call.outcome, TKT_BUSY);
  assert_ptr_equal(tkt_client_next_done(f.client), &call);
  tkt_client_cancel(f.client, &call, f.now);
  assert_null(tkt_client_next_done(f.client));
  fix_end(&f);
}

static void forget_leaves_no_pointer_at_any_stage(void **state) {
  (void)state;
  for (int stage = 0; stage < 5; stage++) {
    struct fixture f;
    fix_start(&f);
    struct tkt_call *call = malloc(sizeof *call);
    struct tkt_msg msg;
    acquire(&f, call, "k", 5, 60);
    size_t peer = 0;
    if (stage >= 1) {
      turn(&f);
      peer = find_request(&f, &msg);
    }
    if (stage >= 2) reply(&f, peer, TKT_MSG_GRANTED, msg.id, 3, "k");
    if (stage >= 3) assert_ptr_equal(tkt_client_next_done(f.client), call);
    if (stage == 4) memset(call, 0, sizeof *call); /* never started */
    tkt_client_forget(f.client, call, f.now);
    memset(call, 0xdd, sizeof *call);
    free(call);
    assert_null(tkt_client_next_done(f.client));
    turn(&f);
    if (stage == 2 || stage == 3) { /* G3 */
      find_request(&f, &msg);
      assert_int_equal(msg.kind, TKT_MSG_RELEASE);
    }
    pass(&f, 20 * TKT_S);
    fix_end(&f);
  }
}

static void s5_answered_tombstones_do_not_count(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.config.cancel_keeps_session = true;
  fix_new(&f);
  turn(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  for (int i = 0; i < 3 * TKT_TOMBSTONES_MAX; i++) {
    size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
    tkt_client_cancel(f.client, &call, f.now);
    reply(&f, peer, TKT_MSG_TIMED_OUT, msg.id, 0, "k");
  }
  turn(&f);
  assert_int_equal(f.peer_count, 2);
  assert_int_equal(open_sessions(&f), 2);
  fix_end(&f);
}

static void s3_what_was_queued_goes_to_an_idle_session_at_once(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call cancelled, other, queued;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &cancelled, "k", 5, 60, &msg);
  send_acquire(&f, &other, "k", 5, 60, &msg);
  acquire(&f, &queued, "q", 5, 60); /* for `peer`, by turns */
  f.silent = true;                  /* the successor does not come up */
  tkt_client_cancel(f.client, &cancelled, f.now);
  turn(&f);
  msg = expect_request(&f, 1 - peer, TKT_MSG_ACQUIRE);
  assert_true(tkt_span_equal(msg.keys[0], tkt_span_str("q")));
  fix_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(s3_cancel_before_send_is_cancelled_and_sends_nothing),
      TEST(s3_cancel_after_send_is_indeterminate_and_half_closes_the_session),
      TEST(s3_it_is_read_for_at_most_2_s),
      TEST(s3_a_late_grant_of_the_cancelled_request_is_released),
      TEST(s3_neighbours_take_the_replies_that_still_come),
      TEST(s3_unanswered_neighbours_are_indeterminate_at_the_end),
      TEST(s3_a_closing_session_takes_no_new_request),
      TEST(s3_requests_queued_there_go_elsewhere),
      TEST(s3_cancels_on_a_closing_session_cost_nothing_more),
      TEST(s3_option_keeps_the_session),
      TEST(s5_a_tombstone_ends_with_its_deadline_and_closes_the_session),
      TEST(s5_tombstones_of_a_session_are_bounded),
      TEST(s3_cancel_of_a_granted_untaken_acquire_releases_it),
      TEST(cancel_of_an_ended_call_changes_nothing),
      TEST(forget_leaves_no_pointer_at_any_stage),
      TEST(s5_answered_tombstones_do_not_count),
      TEST(s3_what_was_queued_goes_to_an_idle_session_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
