#include "unit/client/fixture.h"

/* One wire 2 acquire of key "k": A wait lease owner key LF. */
enum { REQUEST = 1 + 2 + 2 + 8 + 1 + 1 };

/* One usable session only, the other place cannot connect. */
static void start_with_one(struct fixture *f) {
  fix_start(f);
  f->refuse = true;
  tkt_session_eof(f->peers[1].session, f->now);
  turn(f);
  assert_int_equal(open_sessions(f), 1);
}

static void s1_partial_write_sends_only_what_was_begun(void **state) {
  (void)state;
  struct fixture f;
  start_with_one(&f);
  struct tkt_call calls[4];
  f.peers[0].room = REQUEST + 1; /* the second request loses one byte, the others none */
  for (int i = 0; i < 4; i++)
    acquire(&f, &calls[i], "k", 5, 60);
  turn(&f);
  tkt_session_eof(f.peers[0].session, f.now);
  assert_int_equal(calls[0].outcome, TKT_INDETERMINATE);
  assert_int_equal(calls[1].outcome, TKT_INDETERMINATE);
  assert_int_equal(calls[2].outcome, TKT_PENDING);
  assert_int_equal(calls[3].outcome, TKT_PENDING);
  expect_request(&f, 0, TKT_MSG_ACQUIRE);
  expect_silence(&f, 0); /* of the second a byte only */
  f.refuse = false;
  pass(&f, TKT_S); /* S4: the unsent ones get another session */
  struct tkt_msg msg;
  for (int i = 2; i < 4; i++) {
    size_t peer = find_request(&f, &msg);
    reply(&f, peer, TKT_MSG_GRANTED, msg.id, (uint64_t)i, "k");
  }
  assert_int_equal(calls[2].outcome, TKT_OK);
  assert_int_equal(calls[3].outcome, TKT_OK);
  fix_end(&f);
}

static void s1_unbegun_requests_cancel_cleanly_out_of_the_chunk(void **state) {
  (void)state;
  for (int way = 0; way < 6; way++) {
    int mute = way / 3, gone = way % 3; /* mute: the driver does not report the AGAIN */
    struct fixture f;
    start_with_one(&f);
    f.peers[0].room = 0;
    f.peers[0].mute = mute;
    struct tkt_call calls[3];
    for (int i = 0; i < 3; i++)
      acquire(&f, &calls[i], i == gone ? "gone" : "k", 5, 60);
    turn(&f);
    tkt_client_cancel(f.client, &calls[gone], f.now);
    assert_int_equal(calls[gone].outcome, TKT_CANCELLED);
    unblock(&f, 0, SIZE_MAX);
    struct tkt_msg msg;
    for (int i = 0; i < 2; i++) {
      msg = expect_request(&f, 0, TKT_MSG_ACQUIRE);
      assert_true(tkt_span_equal(msg.keys[0], tkt_span_str("k")));
    }
    expect_silence(&f, 0);
    assert_false(f.peers[0].closed);
    fix_end(&f);
  }
}

static void s1_begun_request_cancels_as_indeterminate_and_its_frame_is_finished(void **state) {
  (void)state;
  struct fixture f;
  start_with_one(&f);
  f.peers[0].room = 3;
  struct tkt_call begun, later;
  acquire(&f, &begun, "k", 5, 60);
  acquire(&f, &later, "k", 5, 60);
  turn(&f);
  tkt_client_cancel(f.client, &begun, f.now);
  assert_int_equal(begun.outcome, TKT_INDETERMINATE);
  turn(&f);
  assert_false(f.peers[0].shut); /* the frame first */
  unblock(&f, 0, SIZE_MAX);
  expect_request(&f, 0, TKT_MSG_ACQUIRE);
  expect_silence(&f, 0);
  assert_true(f.peers[0].shut);
  assert_int_equal(later.outcome, TKT_PENDING);
  fix_end(&f);
}

static void s3_a_begun_frame_has_3_s_to_be_finished(void **state) {
  (void)state;
  struct fixture f;
  start_with_one(&f);
  f.peers[0].room = 3;
  struct tkt_call call;
  acquire(&f, &call, "k", 5, 60);
  turn(&f);
  tkt_client_cancel(f.client, &call, f.now);
  pass(&f, 2900 * TKT_MS);
  assert_false(f.peers[0].closed);
  pass(&f, 200 * TKT_MS);
  assert_true(f.peers[0].closed);
  fix_end(&f);
}

static void s1_under_tls_the_whole_chunk_counts(void **state) {
  (void)state;
  struct fixture f;
  start_with_one(&f);
  f.peers[0].tls = true;
  f.peers[0].room = 0;
  struct tkt_call calls[2];
  acquire(&f, &calls[0], "k", 5, 60);
  acquire(&f, &calls[1], "k", 5, 60);
  turn(&f);
  tkt_client_cancel(f.client, &calls[0], f.now);
  assert_int_equal(calls[0].outcome, TKT_INDETERMINATE);
  tkt_session_eof(f.peers[0].session, f.now);
  assert_int_equal(calls[1].outcome, TKT_INDETERMINATE);
  fix_end(&f);
}

static void s2_a_sent_acquire_is_never_resent(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 60, 60, &msg);
  tkt_session_eof(f.peers[peer].session, f.now);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  pass(&f, 20 * TKT_S);
  assert_int_equal(requests_left(&f), 0);
  fix_end(&f);
}

static void s1_unsent_requests_move_from_a_full_session_to_a_free_one(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  f.peers[0].room = 0;
  struct tkt_call calls[4];
  for (int i = 0; i < 4; i++)
    acquire(&f, &calls[i], "k", 5, 60);
  turn(&f);
  for (int i = 0; i < 4; i++)
    expect_request(&f, 1, TKT_MSG_ACQUIRE);
  expect_silence(&f, 1);
  struct tkt_call another;
  acquire(&f, &another, "k", 5, 60);
  turn(&f);
  expect_request(&f, 1, TKT_MSG_ACQUIRE);
  fix_end(&f);
}

static void s1_at_most_one_chunk_is_encoded_ahead(void **state) {
  (void)state;
  struct fixture f;
  start_with_one(&f);
  static struct tkt_call calls[1024];
  for (int i = 0; i < 1024; i++)
    acquire(&f, &calls[i], "a-key-of-some-length", 5, 60);
  struct tkt_session *s = tkt_client_next_dirty(f.client);
  struct tkt_span out = tkt_session_output(s, f.now);
  assert_in_range(out.len, 1, TKT_CHUNK);
  assert_true(out.len > TKT_CHUNK - 64);
  tkt_session_handed(s, out.len);
  tkt_session_written(s, out.len, f.now);
  assert_ptr_equal(tkt_client_next_dirty(f.client), s); /* there is more */
  fix_end(&f);
}

static void s7_the_wait_on_the_wire_is_what_remains_when_it_is_sent(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.silent = true;
  fix_new(&f);
  struct tkt_call call;
  acquire(&f, &call, "k", 30, 60);
  turn(&f);
  pass(&f, 2100 * TKT_MS);
  f.silent = false;
  for (size_t i = 0; i < 2; i++) {
    f.peers[i].connected = true;
    tkt_session_connected(f.peers[i].session, f.now);
    server_text(&f, i, f.greeting);
  }
  turn(&f);
  struct tkt_msg msg;
  find_request(&f, &msg);
  assert_int_equal(msg.wait_s, 28);
  fix_end(&f);
}

static void s7_a_request_that_could_not_leave_is_encoded_afresh(void **state) {
  (void)state;
  struct fixture f;
  start_with_one(&f);
  f.peers[0].room = 0;
  struct tkt_call call;
  struct tkt_msg msg;
  acquire(&f, &call, "k", 10, 60);
  turn(&f);
  pass(&f, 2500 * TKT_MS);
  unblock(&f, 0, SIZE_MAX);
  msg = expect_request(&f, 0, TKT_MSG_ACQUIRE);
  assert_int_equal(msg.wait_s, 8);
  reply(&f, 0, TKT_MSG_GRANTED, msg.id, 5, "k");
  assert_int_equal(tkt_ticket_valid_until(call.ticket), f.now + 60 * TKT_S);
  fix_end(&f);
}

static void b4_no_write_progress_for_3_s_closes_the_session(void **state) {
  (void)state;
  struct fixture f;
  start_with_one(&f);
  f.peers[0].room = REQUEST + 3;
  struct tkt_call calls[2];
  acquire(&f, &calls[0], "k", 60, 60);
  acquire(&f, &calls[1], "k", 60, 60);
  turn(&f);
  pass(&f, 2900 * TKT_MS);
  assert_false(f.peers[0].closed);
  pass(&f, 200 * TKT_MS);
  assert_true(f.peers[0].closed);
  assert_int_equal(calls[0].outcome, TKT_INDETERMINATE);
  fix_end(&f);
}

static void b4_a_full_session_without_work_recovers(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  f.peers[0].room = 0;
  struct tkt_call call;
  acquire(&f, &call, "k", 60, 60);
  turn(&f);
  expect_request(&f, 1, TKT_MSG_ACQUIRE); /* the other took it */
  unblock(&f, 0, SIZE_MAX);
  pass(&f, 10 * TKT_S);
  assert_false(f.peers[0].closed);
  fix_end(&f);
}

static void s1_requests_that_come_back_keep_their_order(void **state) {
  (void)state;
  struct fixture f;
  start_with_one(&f);
  f.peers[0].room = 0;
  struct tkt_call calls[5];
  const char *keys[] = {"a", "b", "c", "d", "e"};
  for (int i = 0; i < 3; i++)
    acquire(&f, &calls[i], keys[i], 5, 60);
  turn(&f);
  for (int i = 3; i < 5; i++)
    acquire(&f, &calls[i], keys[i], 5, 60);
  turn(&f);
  unblock(&f, 0, SIZE_MAX);
  for (int i = 0; i < 5; i++) {
    struct tkt_msg msg = expect_request(&f, 0, TKT_MSG_ACQUIRE);
    assert_true(tkt_span_equal(msg.keys[0], tkt_span_str(keys[i])));
  }
  fix_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(s1_partial_write_sends_only_what_was_begun),
      TEST(s1_unbegun_requests_cancel_cleanly_out_of_the_chunk),
      TEST(s1_begun_request_cancels_as_indeterminate_and_its_frame_is_finished),
      TEST(s3_a_begun_frame_has_3_s_to_be_finished),
      TEST(s1_under_tls_the_whole_chunk_counts),
      TEST(s2_a_sent_acquire_is_never_resent),
      TEST(s1_unsent_requests_move_from_a_full_session_to_a_free_one),
      TEST(s1_at_most_one_chunk_is_encoded_ahead),
      TEST(s7_the_wait_on_the_wire_is_what_remains_when_it_is_sent),
      TEST(s7_a_request_that_could_not_leave_is_encoded_afresh),
      TEST(b4_no_write_progress_for_3_s_closes_the_session),
      TEST(b4_a_full_session_without_work_recovers),
      TEST(s1_requests_that_come_back_keep_their_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
