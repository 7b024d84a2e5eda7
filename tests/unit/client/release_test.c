#include "unit/client/fixture.h"

static void r1_release_names_the_exact_token(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "key", UINT64_C(0x123456789abc));
  struct tkt_call call;
  struct tkt_msg msg;
  start_release(&f, &call, ticket);
  turn(&f);
  size_t peer = find_request(&f, &msg);
  assert_int_equal(msg.kind, TKT_MSG_RELEASE);
  assert_int_equal(msg.token, UINT64_C(0x123456789abc));
  assert_true(tkt_span_equal(msg.keys[0], tkt_span_str("key")));
  reply(&f, peer, TKT_MSG_RELEASED, 0, UINT64_C(0x123456789abc), "key");
  assert_int_equal(call.outcome, TKT_OK);
  assert_int_equal(call.detail.attempts, 1);
  fix_end(&f);
}

static void r1_an_unanswered_attempt_moves_to_another_session_after_2_s(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call call;
  struct tkt_msg msg;
  start_release(&f, &call, ticket);
  turn(&f);
  size_t first = find_request(&f, &msg);
  pass(&f, 1990 * TKT_MS);
  assert_int_equal(requests_left(&f), 0);
  pass(&f, 30 * TKT_MS);
  size_t second = find_request(&f, &msg);
  assert_true(second != first);
  assert_int_equal(msg.token, 8);
  reply(&f, second, TKT_MSG_NOT_CURRENT, 0, 8, "k");
  assert_int_equal(call.outcome, TKT_NOT_CURRENT);
  assert_int_equal(call.detail.attempts, 2);     /* R2: it may be the echo of our own success */
  reply(&f, first, TKT_MSG_RELEASED, 0, 8, "k"); /* swallowed */
  turn(&f);
  assert_int_equal(open_sessions(&f), 2);
  struct tkt_call again;
  start_release(&f, &again, ticket);
  assert_int_equal(again.outcome, TKT_OK); /* the late R tells that it was ours */
  fix_end(&f);
}

static void r1_never_two_of_one_token_on_one_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call call;
  start_release(&f, &call, ticket);
  pass(&f, 4990 * TKT_MS);
  assert_int_equal(call.outcome, TKT_PENDING);
  for (size_t i = 0; i < 2; i++) {
    expect_request(&f, i, TKT_MSG_RELEASE);
    expect_silence(&f, i);
  }
  assert_int_equal(f.peer_count, 2);
  fix_end(&f);
}

static void r1_r2_it_ends_after_5_s_as_indeterminate_and_the_ticket_stays(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call call, again;
  start_release(&f, &call, ticket);
  pass(&f, 4990 * TKT_MS);
  assert_int_equal(call.outcome, TKT_PENDING);
  pass(&f, 15 * TKT_MS);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  assert_int_equal(call.detail.attempts, 2);
  turn(&f);
  assert_int_equal(open_sessions(&f), 2); /* R6 */
  /* R3: a new call has a new 5 s; the late reply of an earlier attempt settles it. */
  start_release(&f, &again, ticket);
  pass(&f, 3 * TKT_S);
  assert_int_equal(again.outcome, TKT_PENDING);
  reply(&f, 0, TKT_MSG_RELEASED, 0, 8, "k");
  assert_int_equal(again.outcome, TKT_OK);
  fix_end(&f);
}

static void r2_never_sent_is_not_connected_and_the_ticket_stays(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  f.refuse = true;
  for (size_t i = 0; i < 2; i++)
    tkt_session_eof(f.peers[i].session, f.now);
  struct tkt_call call, again;
  start_release(&f, &call, ticket);
  pass(&f, 5010 * TKT_MS);
  assert_int_equal(call.outcome, TKT_NOT_CONNECTED);
  assert_int_equal(call.detail.attempts, 0);
  f.refuse = false;
  pass(&f, 4 * TKT_S);
  start_release(&f, &again, ticket);
  turn(&f);
  struct tkt_msg msg;
  size_t peer = find_request(&f, &msg);
  reply(&f, peer, TKT_MSG_RELEASED, 0, 8, "k");
  assert_int_equal(again.outcome, TKT_OK);
  fix_end(&f);
}

static void r1_a_lost_session_makes_it_try_again_with_growing_pauses(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call call;
  struct tkt_msg msg;
  start_release(&f, &call, ticket);
  turn(&f);
  size_t first = find_request(&f, &msg);
  tkt_session_eof(f.peers[first].session, f.now);
  turn(&f);
  assert_int_equal(requests_left(&f), 0); /* 10 ms */
  pass(&f, 12 * TKT_MS);
  size_t second = find_request(&f, &msg);
  assert_int_equal(msg.token, 8);
  assert_true(second != first);
  reply(&f, second, TKT_MSG_RELEASED, 0, 8, "k");
  assert_int_equal(call.outcome, TKT_OK);
  assert_int_equal(call.detail.attempts, 2);
  fix_end(&f);
}

static void r1_an_unsent_attempt_moves_at_once(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  f.peers[0].room = f.peers[1].room = 0;
  struct tkt_call call;
  start_release(&f, &call, ticket);
  turn(&f);
  unblock(&f, 1, SIZE_MAX);
  expect_request(&f, 1, TKT_MSG_RELEASE);
  reply(&f, 1, TKT_MSG_RELEASED, 0, 8, "k");
  assert_int_equal(call.outcome, TKT_OK);
  assert_int_equal(call.detail.attempts, 1);
  unblock(&f, 0, SIZE_MAX);
  expect_silence(&f, 0);
  fix_end(&f);
}

static void r3_a_release_joins_one_that_runs_and_does_not_extend_it(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call first, second, third;
  start_release(&f, &first, ticket);
  turn(&f);
  pass(&f, 3 * TKT_S);
  start_release(&f, &second, ticket);
  start_release(&f, &third, ticket);
  pass(&f, 1990 * TKT_MS);
  tkt_client_cancel(f.client, &third, f.now); /* for this caller alone */
  assert_int_equal(third.outcome, TKT_CANCELLED);
  assert_int_equal(second.outcome, TKT_PENDING);
  pass(&f, 15 * TKT_MS);
  assert_int_equal(first.outcome, TKT_INDETERMINATE);
  assert_int_equal(second.outcome, TKT_INDETERMINATE);
  fix_end(&f);
}

static void r3_a_released_ticket_ends_as_it_ended_then(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call first, second;
  struct tkt_msg msg;
  start_release(&f, &first, ticket);
  turn(&f);
  size_t peer = find_request(&f, &msg);
  reply(&f, peer, TKT_MSG_NOT_CURRENT, 0, 8, "k");
  start_release(&f, &second, ticket);
  assert_int_equal(second.outcome, TKT_NOT_CURRENT);
  turn(&f);
  assert_int_equal(requests_left(&f), 0);
  fix_end(&f);
}

static void r3_dropping_a_held_ticket_releases_it_once_in_the_background(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  tkt_client_drop(f.client, ticket, f.now);
  turn(&f);
  struct tkt_msg msg;
  size_t peer = find_request(&f, &msg);
  assert_int_equal(msg.token, 8);
  reply(&f, peer, TKT_MSG_RELEASED, 0, 8, "k");
  assert_int_equal(counter(&f, "tickets"), 0);
  pass(&f, 20 * TKT_S);
  assert_int_equal(requests_left(&f), 0);
  fix_end(&f);
}

static void r3_a_background_release_is_bounded(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  f.refuse = true;
  for (size_t i = 0; i < 2; i++)
    tkt_session_eof(f.peers[i].session, f.now);
  tkt_client_drop(f.client, ticket, f.now);
  pass(&f, 4990 * TKT_MS);
  assert_int_equal(counter(&f, "releases_under_way"), 1);
  pass(&f, 15 * TKT_MS);
  assert_int_equal(counter(&f, "releases_under_way"), 0);
  assert_int_equal(counter(&f, "tickets"), 0);
  f.refuse = false;
  pass(&f, 10 * TKT_S);
  assert_int_equal(requests_left(&f), 0);
  fix_end(&f);
}

static void r3_dropping_while_it_runs_lets_it_run(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call call;
  struct tkt_msg msg;
  start_release(&f, &call, ticket);
  tkt_client_drop(f.client, ticket, f.now);
  turn(&f);
  size_t peer = find_request(&f, &msg);
  reply(&f, peer, TKT_MSG_RELEASED, 0, 8, "k");
  assert_int_equal(call.outcome, TKT_OK);
  assert_int_equal(counter(&f, "tickets"), 0);
  assert_int_equal(requests_left(&f), 0);
  fix_end(&f);
}

static void r4_a_full_acquire_queue_neither_drops_nor_delays_a_release(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.config.max_in_flight = 64;
  f.config.max_unsent = 0;
  fix_new(&f);
  turn(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call calls[64], refused, release;
  for (int i = 0; i < 64; i++)
    acquire(&f, &calls[i], "k", 60, 60);
  acquire(&f, &refused, "k", 60, 60);
  assert_int_equal(refused.outcome, TKT_CLIENT_CAPACITY);
  start_release(&f, &release, ticket);
  turn(&f);
  struct tkt_msg msg;
  size_t releases_first = 0;
  for (size_t i = 0; i < 2; i++) {
    assert_true(server_next(&f, i, &msg));
    releases_first += msg.kind == TKT_MSG_RELEASE; /* in front of all acquires of its session */
  }
  assert_int_equal(releases_first, 1);
  fix_end(&f);
}

static void r4_release_by_token_uses_the_unreserved_part(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  enum { UNRESERVED = 1024 };
  static struct tkt_call calls[UNRESERVED];
  for (int i = 0; i < UNRESERVED; i++)
    start_release_exact(&f, &calls[i], "key", (uint64_t)(1000 + i));
  struct tkt_call over, reserved;
  start_release_exact(&f, &over, "key", 5000);
  assert_int_equal(over.outcome, TKT_CLIENT_CAPACITY);
  assert_int_equal(over.detail.limit, UNRESERVED);
  start_release(&f, &reserved, ticket);
  assert_int_equal(reserved.outcome, TKT_PENDING);
  turn(&f);
  int sent = 0;
  struct tkt_msg msg;
  for (size_t p = 0; p < 2; p++)
    for (; server_next(&f, p, &msg); sent++)
      if (msg.token >= 1000) reply(&f, p, TKT_MSG_NOT_CURRENT, 0, msg.token, "key");
  assert_int_equal(sent, UNRESERVED + 1);
  for (int i = 0; i < UNRESERVED; i++)
    assert_int_equal(calls[i].outcome, TKT_NOT_CURRENT);
  start_release_exact(&f, &over, "key", 5000);
  assert_int_equal(over.outcome, TKT_PENDING);
  fix_end(&f);
}

static void r4_release_by_token_of_our_own_ticket_joins_it(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call by_ticket, by_token;
  struct tkt_msg msg;
  start_release_exact(&f, &by_token, "k", 8);
  start_release(&f, &by_ticket, ticket);
  turn(&f);
  size_t peer = find_request(&f, &msg);
  assert_int_equal(requests_left(&f), 0);
  reply(&f, peer, TKT_MSG_RELEASED, 0, 8, "k");
  assert_int_equal(by_token.outcome, TKT_OK);
  assert_int_equal(by_ticket.outcome, TKT_OK);
  fix_end(&f);
}

static void r6_a_release_that_gave_up_leaves_a_tombstone_for_10_s(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call call;
  start_release(&f, &call, ticket);
  pass(&f, 5010 * TKT_MS);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  pass(&f, 9900 * TKT_MS);
  assert_false(f.peers[0].shut);
  assert_false(f.peers[1].shut);
  pass(&f, 200 * TKT_MS); /* S5: then its sessions close as S3 does */
  assert_true(f.peers[0].shut);
  assert_true(f.peers[1].shut);
  fix_end(&f);
}

static void r6_a_late_answer_tells_the_ticket(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call call, again;
  start_release(&f, &call, ticket);
  pass(&f, 5010 * TKT_MS);
  reply(&f, 0, TKT_MSG_RELEASED, 0, 8, "k");
  reply(&f, 1, TKT_MSG_NOT_CURRENT, 0, 8, "k");
  start_release(&f, &again, ticket);
  assert_int_equal(again.outcome, TKT_OK);
  pass(&f, 20 * TKT_S);
  assert_int_equal(f.peer_count, 2);
  tkt_client_drop(f.client, ticket, f.now);
  assert_int_equal(counter(&f, "tickets"), 0);
  fix_end(&f);
}

static void field_1_a_repeated_release_never_hits_a_newer_hold(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *old = hold(&f, "k", 8);
  struct tkt_call call, later;
  struct tkt_msg msg;
  start_release(&f, &call, old);
  turn(&f);
  size_t peer = find_request(&f, &msg);
  tkt_session_eof(f.peers[peer].session, f.now); /* its reply is lost */
  hold(&f, "k", 9);
  pass(&f, 20 * TKT_MS);
  find_request(&f, &msg);
  assert_int_equal(msg.kind, TKT_MSG_RELEASE);
  assert_int_equal(msg.token, 8);
  start_release(&f, &later, old);
  turn(&f);
  struct tkt_msg other;
  for (size_t i = 0; i < f.peer_count; i++)
    while (server_next(&f, i, &other))
      assert_int_equal(other.token, 8);
  fix_end(&f);
}

static void a_reply_for_a_token_in_flight_elsewhere_closes_that_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call call;
  struct tkt_msg msg;
  start_release(&f, &call, ticket);
  turn(&f);
  size_t peer = find_request(&f, &msg);
  reply(&f, 1 - peer, TKT_MSG_RELEASED, 0, 8, "k");
  assert_int_equal(call.outcome, TKT_PENDING);
  turn(&f);
  assert_true(f.peers[1 - peer].closed);
  reply(&f, peer, TKT_MSG_RELEASED, 0, 8, "k");
  assert_int_equal(call.outcome, TKT_OK);
  fix_end(&f);
}

static void r3_an_adopted_attempt_counts_as_sent(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call first, second;
  start_release(&f, &first, ticket);
  pass(&f, 5010 * TKT_MS); /* one in flight on each session */
  start_release(&f, &second, ticket);
  pass(&f, 5010 * TKT_MS);
  assert_int_equal(second.outcome, TKT_INDETERMINATE);
  assert_int_equal(second.detail.attempts, 2);
  fix_end(&f);
}

static void r1_an_answered_release_sends_no_further_attempt(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call call;
  struct tkt_msg msg;
  start_release(&f, &call, ticket);
  turn(&f);
  size_t peer = find_request(&f, &msg);
  f.now += 2010 * TKT_MS;
  tkt_client_tick(f.client, f.now); /* the pause begins */
  f.now += 20 * TKT_MS;
  tkt_client_tick(f.client, f.now); /* a further attempt stands ready, nothing was written */
  reply(&f, peer, TKT_MSG_RELEASED, 0, 8, "k");
  assert_int_equal(call.outcome, TKT_OK);
  turn(&f);
  assert_int_equal(requests_left(&f), 0);
  tkt_client_drop(f.client, ticket, f.now);
  assert_int_equal(counter(&f, "tickets"), 0);
  fix_end(&f);
}

static void r1_a_session_that_comes_up_takes_the_next_attempt(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  f.silent = true;
  tkt_session_eof(f.peers[1].session, f.now);
  pass(&f, 200 * TKT_MS);
  assert_int_equal(f.peer_count, 3);
  struct tkt_call call;
  start_release(&f, &call, ticket);
  pass(&f, 3 * TKT_S); /* the only session does not answer, and gets no second one */
  expect_request(&f, 0, TKT_MSG_RELEASE);
  expect_silence(&f, 0);
  tkt_session_connected(f.peers[2].session, f.now);
  server_text(&f, 2, f.greeting);
  turn(&f);
  expect_request(&f, 2, TKT_MSG_RELEASE);
  fix_end(&f);
}

static void r1_the_2_s_of_an_attempt_run_from_its_sending(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  f.silent = true;
  for (size_t i = 0; i < 2; i++)
    tkt_session_eof(f.peers[i].session, f.now);
  pass(&f, 200 * TKT_MS);
  assert_int_equal(f.peer_count, 4);
  struct tkt_call call;
  start_release(&f, &call, ticket);
  pass(&f, 2500 * TKT_MS);
  for (size_t i = 2; i < 4; i++) {
    tkt_session_connected(f.peers[i].session, f.now);
    server_text(&f, i, f.greeting);
  }
  turn(&f);
  struct tkt_msg msg;
  size_t first = find_request(&f, &msg);
  assert_int_equal(requests_left(&f), 0);
  pass(&f, 1900 * TKT_MS);
  assert_int_equal(requests_left(&f), 0);
  pass(&f, 150 * TKT_MS);
  assert_true(find_request(&f, &msg) != first);
  fix_end(&f);
}

static void r1_a_full_session_takes_its_attempt_when_it_flows_again(void **state) {
  (void)state;
  for (int mute = 0; mute < 2; mute++) {
    struct fixture f;
    fix_start(&f);
    struct tkt_ticket *ticket = hold(&f, "k", 8);
    struct tkt_call call, filler[2];
    struct tkt_msg msg;
    start_release(&f, &call, ticket);
    turn(&f);
    size_t first = find_request(&f, &msg), full = 1 - first;
    f.peers[full].mute = mute;
    pass(&f, 1900 * TKT_MS);
    f.peers[full].room = 3; /* a frame begun: the session is full */
    for (int i = 0; i < 2; i++)
      acquire(&f, &filler[i], "x", 60, 60);
    turn(&f);
    pass(&f, 500 * TKT_MS); /* the attempt finds no session */
    unblock(&f, full, SIZE_MAX);
    int releases = 0;
    while (server_next(&f, full, &msg))
      releases += msg.kind == TKT_MSG_RELEASE;
    assert_int_equal(releases, 1);
    fix_end(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(r1_release_names_the_exact_token),
      TEST(r1_an_unanswered_attempt_moves_to_another_session_after_2_s),
      TEST(r1_never_two_of_one_token_on_one_session),
      TEST(r1_r2_it_ends_after_5_s_as_indeterminate_and_the_ticket_stays),
      TEST(r2_never_sent_is_not_connected_and_the_ticket_stays),
      TEST(r1_a_lost_session_makes_it_try_again_with_growing_pauses),
      TEST(r1_an_unsent_attempt_moves_at_once),
      TEST(r3_a_release_joins_one_that_runs_and_does_not_extend_it),
      TEST(r3_a_released_ticket_ends_as_it_ended_then),
      TEST(r3_dropping_a_held_ticket_releases_it_once_in_the_background),
      TEST(r3_a_background_release_is_bounded),
      TEST(r3_dropping_while_it_runs_lets_it_run),
      TEST(r4_a_full_acquire_queue_neither_drops_nor_delays_a_release),
      TEST(r4_release_by_token_uses_the_unreserved_part),
      TEST(r4_release_by_token_of_our_own_ticket_joins_it),
      TEST(r6_a_release_that_gave_up_leaves_a_tombstone_for_10_s),
      TEST(r6_a_late_answer_tells_the_ticket),
      TEST(field_1_a_repeated_release_never_hits_a_newer_hold),
      TEST(a_reply_for_a_token_in_flight_elsewhere_closes_that_session),
      TEST(r3_an_adopted_attempt_counts_as_sent),
      TEST(r1_an_answered_release_sends_no_further_attempt),
      TEST(r1_a_session_that_comes_up_takes_the_next_attempt),
      TEST(r1_the_2_s_of_an_attempt_run_from_its_sending),
      TEST(r1_a_full_session_takes_its_attempt_when_it_flows_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
