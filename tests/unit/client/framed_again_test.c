/* Wire 3: answers after which a request is tried again, elsewhere or anew. */
#include "unit/client/framed.h"

static void m5_moved_answers_one_request_and_keeps_the_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call moved, neighbour;
  struct tkt_msg msg, other;
  size_t peer = send_acquire(&f, &moved, "a", 5, 60, &msg);
  do {
    if (send_acquire(&f, &neighbour, "b", 5, 60, &other) == peer) break;
    tkt_client_forget(f.client, &neighbour, f.now);
  } while (true);
  reply_id(&f, peer, TKT_MSG_MOVED, msg.id, 0, false, TKT_SLOT_NONE);
  turn(&f);
  assert_false(f.peers[peer].closed || f.peers[peer].shut);
  assert_int_equal(moved.outcome, TKT_PENDING);
  assert_int_equal(requests_left(&f), 0); /* M11: not before the pause */
  pass(&f, 12 * TKT_MS);
  struct tkt_msg again;
  find_request(&f, &again);
  assert_int_equal(again.kind, TKT_MSG_ACQUIRE);
  assert_true(tkt_span_equal(again.keys[0], tkt_span_str("a")));
  reply_id(&f, peer, TKT_MSG_GRANTED, other.id, 7, false, 0);
  assert_int_equal(neighbour.outcome, TKT_OK);
  fix_end(&f);
}

static void m11_s7_pauses_double_to_100_ms_and_the_wait_shrinks(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "a", 1, 60, &msg);
  assert_int_equal(msg.wait_s, 1);
  static const int pauses[] = {10, 20, 40, 80, 100, 100};
  for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
    reply_id(&f, peer, TKT_MSG_MOVED, msg.id, 0, false, TKT_SLOT_NONE);
    pass(&f, (pauses[i] - 2) * TKT_MS);
    assert_int_equal(requests_left(&f), 0);
    pass(&f, 4 * TKT_MS);
    peer = find_request(&f, &msg);
  }
  pass(&f, 5 * TKT_S);
  assert_int_equal(call.outcome, TKT_PENDING);
  reply_id(&f, peer, TKT_MSG_MOVED, msg.id, 0, false, TKT_SLOT_NONE);
  assert_int_equal(call.outcome, TKT_TIMEOUT); /* not processed, and its wait is over */
  struct tkt_call tried;
  peer = send_acquire(&f, &tried, "a", 4, 60, &msg);
  assert_int_equal(msg.wait_s, 4);
  pass(&f, 2500 * TKT_MS);
  reply_id(&f, peer, TKT_MSG_MOVED, msg.id, 0, false, TKT_SLOT_NONE);
  pass(&f, 20 * TKT_MS);
  find_request(&f, &msg);
  assert_int_equal(msg.wait_s, 2);
  fix_end(&f);
}

static void m5_wait_0_may_be_tried_elsewhere_for_5_s(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "a", 0, 60, &msg);
  reply_id(&f, peer, TKT_MSG_MOVED, msg.id, 0, false, TKT_SLOT_NONE);
  pass(&f, 20 * TKT_MS);
  peer = find_request(&f, &msg);
  assert_int_equal(msg.wait_s, 0);
  reply_id(&f, peer, TKT_MSG_GRANTED, msg.id, 7, false, 0);
  assert_int_equal(call.outcome, TKT_OK);
  fix_end(&f);
}

static void m7_errors_of_a_server_that_does_not_serve_are_tried_again(void **state) {
  (void)state;
  static const enum tkt_wire_error errors[] = {TKT_WIRE_ERROR_NO_LEADER, TKT_WIRE_ERROR_NOT_ACTIVE};
  for (int i = 0; i < 2; i++) {
    struct fixture f;
    fix_start_framed(&f);
    struct tkt_call call, release;
    struct tkt_msg msg;
    size_t peer = send_acquire(&f, &call, "a", 5, 60, &msg);
    reply_error(&f, peer, msg.id, errors[i]);
    assert_int_equal(call.outcome, TKT_PENDING);
    pass(&f, 12 * TKT_MS);
    peer = find_request(&f, &msg);
    reply_id(&f, peer, TKT_MSG_GRANTED, msg.id, 7, false, 0);
    struct tkt_ticket *t;
    assert_int_equal(tkt_client_take(f.client, &call, f.now, &t), TKT_OK);
    start_release(&f, &release, t);
    turn(&f);
    peer = find_request(&f, &msg);
    reply_error(&f, peer, msg.id, errors[i]);
    assert_int_equal(release.outcome, TKT_PENDING);
    pass(&f, 12 * TKT_MS);
    peer = find_request(&f, &msg);
    assert_int_equal(msg.kind, TKT_MSG_RELEASE);
    reply_id(&f, peer, TKT_MSG_RELEASED, msg.id, 0, false, 0);
    assert_int_equal(release.outcome, TKT_OK);
    assert_int_equal(release.detail.attempts, 2);
    assert_int_equal(open_sessions(&f), 2);
    assert_int_equal(f.peer_count, 2); /* no session was closed for it */
    tkt_client_drop(f.client, t, f.now);
    fix_end(&f);
  }
}

static void m12_uncertain_is_indeterminate_for_an_acquire_and_again_for_a_release(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call call, release;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  reply_id(&f, peer, TKT_MSG_UNCERTAIN, msg.id, 0, false, 0);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  says(&call, "the server itself cannot say");
  struct tkt_ticket *t = hold_framed(&f, false, 7);
  start_release(&f, &release, t);
  turn(&f);
  peer = find_request(&f, &msg);
  reply_id(&f, peer, TKT_MSG_UNCERTAIN, msg.id, 0, false, 0);
  assert_int_equal(release.outcome, TKT_PENDING);
  pass(&f, 12 * TKT_MS);
  peer = find_request(&f, &msg);
  reply_id(&f, peer, TKT_MSG_NOT_CURRENT, msg.id, 0, false, 0);
  assert_int_equal(release.outcome, TKT_NOT_CURRENT);
  assert_int_equal(open_sessions(&f), 2);
  tkt_client_drop(f.client, t, f.now);
  fix_end(&f);
}

static void s7_a_timeout_a_little_early_is_final(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call call, short_one;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  pass(&f, 4950 * TKT_MS);
  reply_id(&f, peer, TKT_MSG_TIMED_OUT, msg.id, 0, false, 0);
  assert_int_equal(call.outcome, TKT_TIMEOUT);
  peer = send_acquire(&f, &short_one, "a", 1, 60, &msg);
  pass(&f, 500 * TKT_MS);
  reply_id(&f, peer, TKT_MSG_TIMED_OUT, msg.id, 0, false, 0);
  assert_int_equal(short_one.outcome, TKT_TIMEOUT);
  fix_end(&f);
}

static void m3_a_timeout_far_too_early_starts_anew(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  pass(&f, 3900 * TKT_MS);
  reply_id(&f, peer, TKT_MSG_TIMED_OUT, msg.id, 0, false, 0);
  assert_int_equal(call.outcome, TKT_PENDING);
  pass(&f, 20 * TKT_MS);
  find_request(&f, &msg);
  assert_int_equal(msg.wait_s, 2);
  fix_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(m5_moved_answers_one_request_and_keeps_the_session),
      TEST(m11_s7_pauses_double_to_100_ms_and_the_wait_shrinks),
      TEST(m5_wait_0_may_be_tried_elsewhere_for_5_s),
      TEST(m7_errors_of_a_server_that_does_not_serve_are_tried_again),
      TEST(m12_uncertain_is_indeterminate_for_an_acquire_and_again_for_a_release),
      TEST(s7_a_timeout_a_little_early_is_final),
      TEST(m3_a_timeout_far_too_early_starts_anew),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
