#include "unit/client/fixture.h"

static void m1_reply_before_the_write_returns_matches(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  acquire(&f, &call, "k", 5, 60);
  struct tkt_session *s = tkt_client_next_dirty(f.client);
  struct tkt_span out = tkt_session_output(s, f.now);
  struct tkt_msg msg;
  size_t used;
  assert_int_equal(tkt_wire2.decode(TKT_PHASE_REQUESTS, out, &msg, &used), TKT_DECODE_OK);
  uint64_t owner = msg.id;
  assert_true(owner != 0);
  tkt_session_handed(s, out.len); /* it may have left; the write has not returned */
  reply(&f, (size_t)(fix_peer_of(&f, s) - f.peers), TKT_MSG_GRANTED, owner, 7, "k");
  assert_int_equal(call.outcome, TKT_OK);
  tkt_session_written(s, out.len, f.now);
  turn(&f);
  assert_int_equal(open_sessions(&f), 2);
  fix_end(&f);
}

static void m2_replies_match_by_owner_never_in_order(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call calls[4];
  struct tkt_msg msgs[4];
  size_t peers[4];
  for (int i = 0; i < 4; i++)
    peers[i] = send_acquire(&f, &calls[i], "same", 5, 60, &msgs[i]);
  for (int i = 3; i >= 0; i--) {
    reply(&f, peers[i], i == 2 ? TKT_MSG_TIMED_OUT : TKT_MSG_GRANTED, msgs[i].id,
          (uint64_t)(100 + i), "same");
    f.now += i == 2 ? 0 : TKT_MS;
  }
  for (int i = 0; i < 4; i++) {
    if (i == 2) continue;
    assert_int_equal(calls[i].outcome, TKT_OK);
    assert_int_equal(tkt_ticket_token(calls[i].ticket), 100 + i);
  }
  assert_int_equal(calls[2].outcome, TKT_PENDING); /* an early T: withdrawn, starts anew */
  fix_end(&f);
}

static void m2_owner_alone_does_not_match(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "right", 5, 60, &msg);
  reply(&f, peer, TKT_MSG_BUSY, msg.id, 0, "wrong");
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  turn(&f);
  assert_true(f.peers[peer].closed);
  fix_end(&f);
}

static void m2_a_reply_on_another_session_does_not_match(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  reply(&f, 1 - peer, TKT_MSG_BUSY, msg.id, 0, "k");
  assert_int_equal(call.outcome, TKT_PENDING);
  turn(&f);
  assert_true(f.peers[1 - peer].closed);
  assert_false(f.peers[peer].closed);
  fix_end(&f);
}

static void m3_t_at_the_end_of_the_wait_is_timeout_and_keeps_the_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  assert_int_equal(msg.wait_s, 5);
  pass(&f, 5 * TKT_S);
  reply(&f, peer, TKT_MSG_TIMED_OUT, msg.id, 0, "k");
  assert_int_equal(call.outcome, TKT_TIMEOUT);
  assert_int_equal(call.detail.queued_ns, 5 * TKT_S);
  turn(&f);
  assert_false(f.peers[peer].closed);
  fix_end(&f);
}

static void m3_t_within_the_last_second_is_timeout(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  pass(&f, 4 * TKT_S);
  reply(&f, peer, TKT_MSG_TIMED_OUT, msg.id, 0, "k");
  assert_int_equal(call.outcome, TKT_TIMEOUT);
  fix_end(&f);
}

static void m3_early_t_means_withdrawn_and_starts_anew_with_a_new_owner(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg, again;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  pass(&f, 1500 * TKT_MS);
  reply(&f, peer, TKT_MSG_TIMED_OUT, msg.id, 0, "k");
  assert_int_equal(call.outcome, TKT_PENDING);
  turn(&f);
  assert_int_equal(requests_left(&f), 0); /* M11: a pause first */
  pass(&f, 20 * TKT_MS);
  size_t second = find_request(&f, &again);
  assert_int_equal(again.kind, TKT_MSG_ACQUIRE);
  assert_true(again.id != msg.id && again.id != 0);
  assert_int_equal(again.wait_s, 4); /* S7: what remains, rounded up */
  reply(&f, second, TKT_MSG_GRANTED, again.id, 9, "k");
  assert_int_equal(call.outcome, TKT_OK);
  assert_int_equal(call.detail.attempts, 2);
  assert_int_equal(counter(&f, "acquires_withdrawn_and_restarted"), 1);
  fix_end(&f);
}

static void m3_a_server_that_always_withdraws_ends_in_timeout_without_spinning(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  acquire(&f, &call, "k", 2, 60);
  turn(&f);
  int requests = 0;
  for (int i = 0; i < 5000 && call.outcome == TKT_PENDING; i++) {
    struct tkt_msg msg;
    for (size_t p = 0; p < f.peer_count; p++)
      while (server_next(&f, p, &msg)) {
        requests++;
        reply(&f, p, TKT_MSG_TIMED_OUT, msg.id, 0, "k");
      }
    pass(&f, TKT_MS);
  }
  assert_int_equal(call.outcome, TKT_TIMEOUT);
  assert_in_range(requests, 5, 40);
  fix_end(&f);
}

static void m3_cancel_while_paused_is_cancelled(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  reply(&f, peer, TKT_MSG_TIMED_OUT, msg.id, 0, "k");
  tkt_client_cancel(f.client, &call, f.now);
  assert_int_equal(call.outcome, TKT_CANCELLED);
  pass(&f, TKT_S);
  assert_int_equal(requests_left(&f), 0);
  assert_false(f.peers[peer].closed);
  fix_end(&f);
}

static void m3_n_is_a_value_and_keeps_the_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 77);
  struct tkt_call call;
  struct tkt_msg msg;
  start_release(&f, &call, ticket);
  turn(&f);
  size_t peer = find_request(&f, &msg);
  assert_int_equal(msg.token, 77);
  reply(&f, peer, TKT_MSG_NOT_CURRENT, 0, 77, "k");
  assert_int_equal(call.outcome, TKT_NOT_CURRENT);
  turn(&f);
  assert_int_equal(open_sessions(&f), 2);
  fix_end(&f);
}

static void m4_b_is_busy_at_once_without_retry(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  reply(&f, peer, TKT_MSG_BUSY, msg.id, 0, "k");
  assert_int_equal(call.outcome, TKT_BUSY);
  pass(&f, 10 * TKT_S);
  assert_int_equal(requests_left(&f), 0);
  assert_int_equal(open_sessions(&f), 2);
  fix_end(&f);
}

static void m8_other_errors_end_the_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  server_text(&f, peer, "Ebad_key\n");
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  assert_non_null(call.reason);
  turn(&f);
  assert_true(f.peers[peer].closed);
  fix_end(&f);
}

static void m8_unknown_malformed_and_oversized_replies_end_the_session(void **state) {
  (void)state;
  char oversized[300];
  memset(oversized, 'x', sizeof oversized);
  oversized[0] = 'M';
  const struct {
    const char *bytes;
    size_t len;
  } cases[] = {{"Z", 1}, {"\0", 1}, {oversized, sizeof oversized}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct fixture f;
    fix_start(&f);
    struct tkt_call call;
    struct tkt_msg msg;
    size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
    server_bytes(&f, peer, cases[i].bytes, cases[i].len);
    assert_int_equal(call.outcome, TKT_INDETERMINATE);
    turn(&f);
    assert_true(f.peers[peer].closed);
    fix_end(&f);
  }
}

static void m8_after_it_nothing_settles_but_grants_are_released(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call first, second;
  struct tkt_msg a, b;
  f.config.seed[0]++;
  size_t pa = send_acquire(&f, &first, "a", 5, 60, &a);
  size_t pb = send_acquire(&f, &second, "b", 5, 60, &b);
  assert_true(pa != pb);
  struct tkt_buf out = {0};
  uint8_t *room = tkt_buf_reserve(&out, 9, SIZE_MAX);
  memcpy(room, "Ebad_key\n", 9);
  tkt_buf_commit(&out, 9);
  struct tkt_msg granted = reply_msg(TKT_MSG_GRANTED, a.id, 55, "a");
  fix_encode(&tkt_wire2, &granted, &out);
  server_bytes(&f, pa, out.data, tkt_buf_len(&out));
  tkt_buf_release(&out);
  assert_int_equal(first.outcome, TKT_INDETERMINATE);
  assert_int_equal(second.outcome, TKT_PENDING);
  turn(&f);
  struct tkt_msg msg = expect_request(&f, pb, TKT_MSG_RELEASE);
  assert_int_equal(msg.token, 55);
  assert_true(tkt_span_equal(msg.keys[0], tkt_span_str("a")));
  fix_end(&f);
}

static void m9_unmatched_grant_is_released_and_the_session_closed(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  reply(&f, 0, TKT_MSG_GRANTED, 12345, 99, "stray");
  turn(&f);
  assert_true(f.peers[0].closed);
  struct tkt_msg msg = expect_request(&f, 1, TKT_MSG_RELEASE);
  assert_int_equal(msg.token, 99);
  assert_true(tkt_span_equal(msg.keys[0], tkt_span_str("stray")));
  reply(&f, 1, TKT_MSG_RELEASED, 0, 99, "stray");
  turn(&f);
  assert_false(f.peers[1].closed);
  assert_int_equal(counter(&f, "tickets"), 0);
  fix_end(&f);
}

static void m9_unmatched_replies_of_every_kind_close_the_session(void **state) {
  (void)state;
  const enum tkt_msg_kind kinds[] = {TKT_MSG_TIMED_OUT, TKT_MSG_BUSY, TKT_MSG_RELEASED,
                                     TKT_MSG_NOT_CURRENT};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    struct fixture f;
    fix_start(&f);
    struct tkt_call call;
    struct tkt_msg msg;
    size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
    reply(&f, peer, kinds[i], 4711, 4711, "k");
    assert_int_equal(call.outcome, TKT_INDETERMINATE);
    turn(&f);
    assert_true(f.peers[peer].closed);
    assert_int_equal(counter(&f, "protocol_faults"), 1);
    fix_end(&f);
  }
}

static void m9_grant_with_another_key_is_released_under_that_key(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "mine", 5, 60, &msg);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 31, "other");
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  turn(&f);
  struct tkt_msg released = expect_request(&f, 1 - peer, TKT_MSG_RELEASE);
  assert_int_equal(released.token, 31);
  assert_true(tkt_span_equal(released.keys[0], tkt_span_str("other")));
  fix_end(&f);
}

static void m9_a_grant_told_twice_does_not_take_the_ticket_away(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 8, "k");
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 8, "k");
  assert_int_equal(call.outcome, TKT_OK);
  turn(&f);
  assert_true(f.peers[peer].closed);
  assert_int_equal(requests_left(&f), 0); /* not released under its holder */
  struct tkt_ticket *ticket;
  assert_int_equal(tkt_client_take(f.client, &call, f.now, &ticket), TKT_OK);
  fix_end(&f);
}

static void replies_at_any_cut_match(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "a-longer-key", 5, 60, &msg);
  struct tkt_buf out = {0};
  struct tkt_msg granted = reply_msg(TKT_MSG_GRANTED, msg.id, 0x0a0a0a0a0a, "a-longer-key");
  fix_encode(&tkt_wire2, &granted, &out);
  for (size_t i = 0; i < tkt_buf_len(&out); i++) {
    assert_int_equal(call.outcome, TKT_PENDING);
    server_bytes(&f, peer, out.data + i, 1);
  }
  tkt_buf_release(&out);
  assert_int_equal(call.outcome, TKT_OK);
  assert_int_equal(tkt_ticket_token(call.ticket), 0x0a0a0a0a0a);
  fix_end(&f);
}

static void m2_a_reply_to_a_request_not_handed_over_does_not_match(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  acquire(&f, &call, "k", 5, 60);
  struct tkt_session *s = tkt_client_next_dirty(f.client);
  struct tkt_msg msg;
  size_t used;
  tkt_wire2.decode(TKT_PHASE_REQUESTS, tkt_session_output(s, f.now), &msg, &used);
  size_t peer = (size_t)(fix_peer_of(&f, s) - f.peers);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 77, "k");
  assert_int_equal(call.outcome, TKT_PENDING); /* unsent: it goes on, on the other session */
  turn(&f);
  assert_true(f.peers[peer].closed);
  msg = expect_request(&f, 1 - peer, TKT_MSG_RELEASE);
  assert_int_equal(msg.token, 77);
  pass(&f, 12 * TKT_MS);
  expect_request(&f, 1 - peer, TKT_MSG_ACQUIRE);
  fix_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(m1_reply_before_the_write_returns_matches),
      TEST(m2_replies_match_by_owner_never_in_order),
      TEST(m2_owner_alone_does_not_match),
      TEST(m2_a_reply_on_another_session_does_not_match),
      TEST(m3_t_at_the_end_of_the_wait_is_timeout_and_keeps_the_session),
      TEST(m3_t_within_the_last_second_is_timeout),
      TEST(m3_early_t_means_withdrawn_and_starts_anew_with_a_new_owner),
      TEST(m3_a_server_that_always_withdraws_ends_in_timeout_without_spinning),
      TEST(m3_cancel_while_paused_is_cancelled),
      TEST(m3_n_is_a_value_and_keeps_the_session),
      TEST(m4_b_is_busy_at_once_without_retry),
      TEST(m8_other_errors_end_the_session),
      TEST(m8_unknown_malformed_and_oversized_replies_end_the_session),
      TEST(m8_after_it_nothing_settles_but_grants_are_released),
      TEST(m9_unmatched_grant_is_released_and_the_session_closed),
      TEST(m9_unmatched_replies_of_every_kind_close_the_session),
      TEST(m9_grant_with_another_key_is_released_under_that_key),
      TEST(m9_a_grant_told_twice_does_not_take_the_ticket_away),
      TEST(replies_at_any_cut_match),
      TEST(m2_a_reply_to_a_request_not_handed_over_does_not_match),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
