/* Wire 3, several addresses: slots, the hint, requests that move. */
#include "unit/client/fixture.h"

static void m5_b2_moved_goes_to_the_leader_and_so_does_what_comes_later(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed_cluster(&f, 3);
  struct tkt_call call, later[5];
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  size_t leader = (peer + 1) % 3;
  reply_id(&f, peer, TKT_MSG_MOVED, msg.id, 0, false, (uint8_t)leader);
  pass(&f, 12 * TKT_MS);
  assert_int_equal(find_request(&f, &msg), leader);
  for (int i = 0; i < 5; i++)
    assert_int_equal(send_acquire(&f, &later[i], "b", 5, 60, &msg), leader);
  assert_false(f.peers[peer].closed);
  fix_end(&f);
}

static void m5_moved_to_nobody_drops_the_hint(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed_cluster(&f, 3);
  struct tkt_call calls[6];
  struct tkt_msg msg;
  reply_id(&f, 0, TKT_MSG_LEADER, 0, 0, false, 2);
  assert_int_equal(send_acquire(&f, &calls[0], "a", 5, 60, &msg), 2);
  reply_id(&f, 2, TKT_MSG_MOVED, msg.id, 0, false, TKT_SLOT_NONE);
  pass(&f, 12 * TKT_MS);
  requests_left(&f);
  unsigned seen = 0;
  for (int i = 1; i < 6; i++)
    seen |= 1u << send_acquire(&f, &calls[i], "a", 5, 60, &msg);
  assert_int_equal(seen, 7); /* round robin */
  fix_end(&f);
}

static void m6_a_notice_sets_the_hint_and_keeps_the_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed_cluster(&f, 3);
  struct tkt_call calls[3];
  struct tkt_msg msg;
  for (uint8_t slot = 0; slot < 3; slot++) {
    reply_id(&f, 1, TKT_MSG_LEADER, 0, 0, false, slot);
    assert_int_equal(send_acquire(&f, &calls[slot], "a", 5, 60, &msg), slot);
  }
  reply_id(&f, 1, TKT_MSG_LEADER, 0, 0, false, TKT_SLOT_NONE); /* drops it */
  unsigned seen = 0;
  struct tkt_call more[3];
  for (int i = 0; i < 3; i++)
    seen |= 1u << send_acquire(&f, &more[i], "a", 5, 60, &msg);
  assert_int_equal(seen, 7);
  assert_int_equal(counter(&f, "leader_notices"), 4);
  assert_int_equal(counter(&f, "protocol_faults"), 0);
  assert_int_equal(open_sessions(&f), 3);
  fix_end(&f);
}

static void m6_a_notice_frees_what_waits_for_a_blocked_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed_cluster(&f, 3);
  struct tkt_call first, call;
  struct tkt_msg msg;
  reply_id(&f, 0, TKT_MSG_LEADER, 0, 0, false, 1);
  f.peers[1].room = 0;
  acquire(&f, &first, "a", 5, 60);
  turn(&f);
  acquire(&f, &call, "b", 5, 60);
  turn(&f);
  assert_int_equal(requests_left(&f), 0);
  reply_id(&f, 0, TKT_MSG_LEADER, 0, 0, false, 2);
  turn(&f);
  assert_int_equal(find_request(&f, &msg), 2);
  assert_int_equal(find_request(&f, &msg), 2);
  fix_end(&f);
}

static void m5_a_redirect_frees_what_waits_for_a_blocked_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed_cluster(&f, 3);
  struct tkt_call sent, call;
  struct tkt_msg msg;
  reply_id(&f, 0, TKT_MSG_LEADER, 0, 0, false, 1);
  assert_int_equal(send_acquire(&f, &sent, "a", 5, 60, &msg), 1);
  f.peers[1].room = 0;
  acquire(&f, &call, "b", 5, 60);
  turn(&f);
  assert_int_equal(requests_left(&f), 0);
  reply_id(&f, 1, TKT_MSG_MOVED, msg.id, 0, false, 2);
  turn(&f);
  assert_int_equal(find_request(&f, &msg), 2);
  assert_true(tkt_span_equal(msg.keys[0], tkt_span_str("b")));
  fix_end(&f);
}

static void m6_a_heartbeat_with_the_same_leader_changes_nothing(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed_cluster(&f, 5);
  struct tkt_call calls[8];
  struct tkt_msg msg;
  for (int i = 0; i < 8; i++) {
    reply_id(&f, (size_t)i % 5, TKT_MSG_LEADER, 0, 0, false, 4);
    assert_int_equal(send_acquire(&f, &calls[i], "a", 5, 60, &msg), 4);
  }
  assert_int_equal(open_sessions(&f), 5);
  fix_end(&f);
}

static void m10_slots_that_cannot_be_end_the_session(void **state) {
  (void)state;
  static const struct {
    bool cluster;
    uint8_t slot;
  } bad[] = {{true, 3}, {true, 254}, {false, 0}, {false, 1}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    for (int moved = 0; moved < 2; moved++) {
      struct fixture f;
      if (bad[i].cluster)
        fix_start_framed_cluster(&f, 3);
      else
        fix_start_framed(&f);
      struct tkt_call call;
      struct tkt_msg msg;
      size_t peer = send_acquire(&f, &call, "a", 5, 60, &msg);
      reply_id(&f, peer, moved ? TKT_MSG_MOVED : TKT_MSG_LEADER, msg.id, 0, false, bad[i].slot);
      turn(&f);
      assert_true(f.peers[peer].closed);
      assert_int_equal(call.outcome, TKT_INDETERMINATE);
      for (size_t p = 0; p < f.peer_count; p++)
        assert_true(f.peers[p].address < f.config.address_count);
      fix_end(&f);
    }
}

static void m7_no_leader_drops_the_hint_and_asks_the_others(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed_cluster(&f, 3);
  struct tkt_call call;
  struct tkt_msg msg;
  reply_id(&f, 0, TKT_MSG_LEADER, 0, 0, false, 1);
  size_t peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  assert_int_equal(peer, 1);
  unsigned asked = 0;
  for (int i = 0; i < 6; i++) {
    asked |= 1u << peer;
    reply_error(&f, peer, msg.id, TKT_WIRE_ERROR_NO_LEADER);
    pass(&f, 102 * TKT_MS);
    peer = find_request(&f, &msg);
  }
  assert_int_equal(asked, 7);
  assert_int_equal(call.outcome, TKT_PENDING);
  assert_int_equal(f.peer_count, 3);
  fix_end(&f);
}

static void m5_b2_a_release_moves_with_the_leader(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed_cluster(&f, 3);
  struct tkt_call call, release;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  reply_id(&f, peer, TKT_MSG_GRANTED, msg.id, 7, false, 0);
  struct tkt_ticket *t;
  assert_int_equal(tkt_client_take(f.client, &call, f.now, &t), TKT_OK);
  start_release(&f, &release, t);
  turn(&f);
  peer = find_request(&f, &msg);
  size_t leader = (peer + 2) % 3;
  reply_id(&f, peer, TKT_MSG_MOVED, msg.id, 0, false, (uint8_t)leader);
  pass(&f, 12 * TKT_MS);
  assert_int_equal(find_request(&f, &msg), leader);
  assert_int_equal(msg.kind, TKT_MSG_RELEASE);
  reply_id(&f, leader, TKT_MSG_RELEASED, msg.id, 0, false, 0);
  assert_int_equal(release.outcome, TKT_OK);
  tkt_client_drop(f.client, t, f.now);
  fix_end(&f);
}

static void b2_the_hint_is_dropped_with_its_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed_cluster(&f, 3);
  struct tkt_call call;
  struct tkt_msg msg;
  reply_id(&f, 0, TKT_MSG_LEADER, 0, 0, false, 1);
  f.silent = true;
  tkt_session_eof(f.peers[1].session, f.now);
  size_t peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  assert_true(peer == 0 || peer == 2);
  fix_end(&f);
}

static void m5_a_leader_without_a_session_leaves_the_others_in_use(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed_cluster(&f, 3);
  struct tkt_call call;
  struct tkt_msg msg;
  f.silent = true;
  tkt_session_eof(f.peers[1].session, f.now);
  turn(&f);
  size_t peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  reply_id(&f, peer, TKT_MSG_MOVED, msg.id, 0, false, 1);
  pass(&f, 12 * TKT_MS);
  size_t next = find_request(&f, &msg); /* it is answered again, with pauses, until it is up */
  assert_true(next == 0 || next == 2);
  f.silent = false;
  reply_id(&f, next, TKT_MSG_MOVED, msg.id, 0, false, 1);
  pass(&f, 22 * TKT_MS);
  next = find_request(&f, &msg);
  reply_id(&f, next, TKT_MSG_GRANTED, msg.id, 7, false, 0);
  assert_int_equal(call.outcome, TKT_OK);
  fix_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(m5_b2_moved_goes_to_the_leader_and_so_does_what_comes_later),
      TEST(m5_moved_to_nobody_drops_the_hint),
      TEST(m6_a_notice_sets_the_hint_and_keeps_the_session),
      TEST(m6_a_notice_frees_what_waits_for_a_blocked_session),
      TEST(m5_a_redirect_frees_what_waits_for_a_blocked_session),
      TEST(m6_a_heartbeat_with_the_same_leader_changes_nothing),
      TEST(m10_slots_that_cannot_be_end_the_session),
      TEST(m7_no_leader_drops_the_hint_and_asks_the_others),
      TEST(m5_b2_a_release_moves_with_the_leader),
      TEST(b2_the_hint_is_dropped_with_its_session),
      TEST(m5_a_leader_without_a_session_leaves_the_others_in_use),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
