#include "unit/client/fixture.h"

static void start_close(struct fixture *f, struct tkt_call *call) {
  memset(call, 0, sizeof *call);
  tkt_client_close(f->client, call, f->now);
}

static void b7_an_idle_client_closes_at_once(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call close, again;
  start_close(&f, &close);
  turn(&f);
  assert_int_equal(close.outcome, TKT_OK);
  assert_true(tkt_client_finished(f.client));
  assert_int_equal(open_sessions(&f), 0);
  assert_int_equal(tkt_client_next_deadline(f.client), TKT_NEVER);
  start_close(&f, &again); /* idempotent */
  assert_int_equal(again.outcome, TKT_OK);
  fix_end(&f);
}

static void b7_a_client_without_a_server_closes_at_once(void **state) {
  (void)state;
  for (int silent = 0; silent < 2; silent++) {
    struct fixture f;
    fix_init(&f);
    f.refuse = true;
    f.silent = silent;
    fix_new(&f);
    turn(&f);
    struct tkt_call close;
    start_close(&f, &close);
    turn(&f);
    assert_int_equal(close.outcome, TKT_OK);
    assert_int_equal(open_sessions(&f), 0);
    pass(&f, 20 * TKT_S);
    assert_int_equal(f.peer_count, 2);
    fix_end(&f);
  }
}

static void b7_unsent_end_as_closed_sent_as_indeterminate_at_once(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.config.max_in_flight = 4;
  fix_new(&f);
  turn(&f);
  struct tkt_call sent, paused, queued[6], ready = {0}, close;
  struct tkt_msg msg;
  send_acquire(&f, &sent, "k", 60, 60, &msg);
  size_t peer = send_acquire(&f, &paused, "k", 60, 60, &msg);
  reply(&f, peer, TKT_MSG_TIMED_OUT, msg.id, 0, "k"); /* withdrawn: paused, unsent */
  for (int i = 0; i < 6; i++)
    acquire(&f, &queued[i], "k", 60, 60);
  tkt_client_wait_ready(f.client, &ready, TKT_S, f.now);
  start_close(&f, &close);
  assert_int_equal(sent.outcome, TKT_INDETERMINATE);
  assert_int_equal(paused.outcome, TKT_CLOSED);
  for (int i = 0; i < 6; i++)
    assert_int_equal(queued[i].outcome, TKT_CLOSED);
  assert_int_equal(close.outcome, TKT_PENDING);
  struct tkt_call late;
  acquire(&f, &late, "k", 5, 60);
  assert_int_equal(late.outcome, TKT_CLOSED);
  turn(&f);
  assert_int_equal(requests_left(&f), 0);
  fix_end(&f);
}

static void b7_sessions_with_sent_acquires_are_half_closed_and_read(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call sent, close;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &sent, "k", 60, 60, &msg);
  start_close(&f, &close);
  turn(&f);
  assert_true(f.peers[peer].shut);
  assert_false(f.peers[peer].closed);
  assert_int_equal(close.outcome, TKT_PENDING);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 19, "k"); /* a late grant goes back, on a new session */
  turn(&f);
  size_t other = find_request(&f, &msg);
  assert_true(other != peer);
  assert_int_equal(msg.kind, TKT_MSG_RELEASE);
  assert_int_equal(msg.token, 19);
  tkt_session_eof(f.peers[peer].session, f.now);
  turn(&f);
  assert_int_equal(close.outcome, TKT_PENDING);
  reply(&f, other, TKT_MSG_RELEASED, 0, 19, "k");
  turn(&f);
  assert_int_equal(close.outcome, TKT_OK);
  assert_int_equal(open_sessions(&f), 0);
  fix_end(&f);
}

static void b7_running_releases_end_before_it_does(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call release, close;
  struct tkt_msg msg;
  start_release(&f, &release, ticket);
  start_close(&f, &close);
  turn(&f);
  assert_int_equal(close.outcome, TKT_PENDING);
  size_t peer = find_request(&f, &msg);
  assert_int_equal(msg.token, 8);
  assert_false(f.peers[peer].shut);
  reply(&f, peer, TKT_MSG_RELEASED, 0, 8, "k");
  assert_int_equal(release.outcome, TKT_OK);
  turn(&f);
  assert_int_equal(close.outcome, TKT_OK);
  fix_end(&f);
}

static void b7_it_ends_after_5_s_whatever_happens(void **state) {
  (void)state;
  for (int reachable = 0; reachable < 2; reachable++) {
    struct fixture f;
    fix_start(&f);
    struct tkt_ticket *ticket = hold(&f, "k", 8);
    struct tkt_call sent, release, close;
    struct tkt_msg msg;
    send_acquire(&f, &sent, "k", 60, 60, &msg);
    f.refuse = !reachable;
    start_release(&f, &release, ticket);
    start_close(&f, &close);
    pass(&f, 4900 * TKT_MS);
    assert_int_equal(close.outcome, TKT_PENDING);
    pass(&f, 110 * TKT_MS);
    assert_int_equal(close.outcome, TKT_OK);
    assert_int_equal(release.outcome, TKT_INDETERMINATE);
    assert_int_equal(open_sessions(&f), 0);
    assert_true(tkt_client_finished(f.client));
    fix_end(&f);
  }
}

static void b7_the_session_dialled_for_the_lane_backs_off(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call release, close;
  struct tkt_msg msg;
  start_release(&f, &release, ticket);
  turn(&f);
  size_t peer = find_request(&f, &msg);
  start_close(&f, &close);
  f.refuse = true;
  for (size_t i = 0; i < 2; i++)
    tkt_session_eof(f.peers[i].session, f.now);
  pass(&f, 2 * TKT_S);
  assert_in_range(f.peer_count, 4, 20);
  f.refuse = false;
  pass(&f, 2 * TKT_S);
  size_t other = find_request(&f, &msg);
  assert_true(other != peer);
  reply(&f, other, TKT_MSG_RELEASED, 0, 8, "k");
  assert_int_equal(release.outcome, TKT_OK);
  turn(&f);
  assert_int_equal(close.outcome, TKT_OK);
  fix_end(&f);
}

static void b7_grants_that_come_too_late_for_the_lane_do_not_prolong_it(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call release, close;
  start_release(&f, &release, ticket);
  turn(&f);
  start_close(&f, &close);
  pass(&f, 4 * TKT_S);
  for (size_t i = 0; i < f.peer_count; i++) /* found in the last read of the end */
    reply_unread(&f, i, TKT_MSG_GRANTED, 4711, 100 + i, "late");
  pass(&f, 1100 * TKT_MS);
  assert_int_equal(close.outcome, TKT_OK);
  assert_int_equal(open_sessions(&f), 0);
  fix_end(&f);
}

static void b7_held_tickets_are_not_released_and_say_closed(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *dropped = hold(&f, "a", 1), *kept = hold(&f, "b", 2);
  struct tkt_call close, release, exact;
  start_close(&f, &close);
  tkt_client_drop(f.client, dropped, f.now);
  start_release(&f, &release, kept);
  assert_int_equal(release.outcome, TKT_CLOSED);
  start_release_exact(&f, &exact, "c", 3);
  assert_int_equal(exact.outcome, TKT_CLOSED);
  turn(&f);
  assert_int_equal(requests_left(&f), 0);
  assert_int_equal(close.outcome, TKT_OK);
  start_release(&f, &release, kept);
  assert_int_equal(release.outcome, TKT_CLOSED);
  tkt_client_drop(f.client, kept, f.now);
  assert_int_equal(counter(&f, "tickets"), 0);
  fix_end(&f);
}

static void b7_a_second_close_joins_the_first(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call sent, first, second, third;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &sent, "k", 60, 60, &msg);
  start_close(&f, &first);
  start_close(&f, &second);
  start_close(&f, &third);
  tkt_client_cancel(f.client, &first, f.now); /* nobody waits; it goes on */
  assert_int_equal(first.outcome, TKT_CANCELLED);
  tkt_client_forget(f.client, &third, f.now);
  memset(&third, 0xdd, sizeof third);
  turn(&f);
  tkt_session_eof(f.peers[peer].session, f.now);
  turn(&f);
  assert_int_equal(second.outcome, TKT_OK);
  fix_end(&f);
}

static void b7_a_granted_untaken_acquire_can_still_be_taken(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call, other, close;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 4, "k");
  peer = send_acquire(&f, &other, "k", 5, 60, &msg);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 5, "k");
  start_close(&f, &close);
  struct tkt_ticket *ticket;
  assert_int_equal(tkt_client_take(f.client, &call, f.now, &ticket), TKT_OK);
  turn(&f);
  assert_int_equal(close.outcome, TKT_OK);
  tkt_client_forget(f.client, &other, f.now); /* nothing can be sent any more; nothing leaks */
  tkt_client_drop(f.client, ticket, f.now);
  assert_int_equal(counter(&f, "tickets"), 0);
  fix_end(&f);
}

static void b7_a_session_kept_for_the_lane_is_enough(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 8);
  struct tkt_call sent, release, close;
  struct tkt_msg msg;
  size_t half = send_acquire(&f, &sent, "k", 60, 60, &msg);
  start_release(&f, &release, ticket);
  turn(&f);
  size_t kept = find_request(&f, &msg);
  assert_true(kept != half);
  start_close(&f, &close);
  turn(&f);
  assert_true(f.peers[half].shut);
  assert_false(f.peers[kept].shut);
  assert_int_equal(f.peer_count, 2);
  reply(&f, kept, TKT_MSG_RELEASED, 0, 8, "k");
  tkt_session_eof(f.peers[half].session, f.now);
  turn(&f);
  assert_int_equal(close.outcome, TKT_OK);
  fix_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(b7_an_idle_client_closes_at_once),
      TEST(b7_a_client_without_a_server_closes_at_once),
      TEST(b7_unsent_end_as_closed_sent_as_indeterminate_at_once),
      TEST(b7_sessions_with_sent_acquires_are_half_closed_and_read),
      TEST(b7_running_releases_end_before_it_does),
      TEST(b7_it_ends_after_5_s_whatever_happens),
      TEST(b7_the_session_dialled_for_the_lane_backs_off),
      TEST(b7_grants_that_come_too_late_for_the_lane_do_not_prolong_it),
      TEST(b7_held_tickets_are_not_released_and_say_closed),
      TEST(b7_a_second_close_joins_the_first),
      TEST(b7_a_granted_untaken_acquire_can_still_be_taken),
      TEST(b7_a_session_kept_for_the_lane_is_enough),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
