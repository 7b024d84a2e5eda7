/* Wire 3: replies are matched by id and kind, and answer one request each. */
#include "unit/client/framed.h"

static void ids_grow_from_1_in_each_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call calls[6];
  for (int i = 0; i < 6; i++)
    acquire(&f, &calls[i], "k", 5, 60);
  turn(&f);
  for (size_t peer = 0; peer < 2; peer++)
    for (uint64_t id = 1; id <= 3; id++)
      assert_int_equal(expect_request(&f, peer, TKT_MSG_ACQUIRE).id, id);
  fix_end(&f);
}

static void ids_of_frames_that_never_left_are_used_again(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  tkt_session_eof(f.peers[1].session, f.now);
  f.silent = true;
  turn(&f);
  f.peers[0].room = 30; /* one request of 14 bytes, and a little of the third */
  struct tkt_call calls[4];
  for (int i = 0; i < 4; i++)
    acquire(&f, &calls[i], "k", 5, 60);
  turn(&f);
  tkt_client_cancel(f.client, &calls[3], f.now); /* encoded, not sent */
  assert_int_equal(calls[3].outcome, TKT_CANCELLED);
  unblock(&f, 0, SIZE_MAX);
  struct tkt_call last;
  acquire(&f, &last, "k", 5, 60);
  turn(&f);
  for (uint64_t id = 1; id <= 4; id++)
    assert_int_equal(expect_request(&f, 0, TKT_MSG_ACQUIRE).id, id);
  expect_silence(&f, 0);
  reply_id(&f, 0, TKT_MSG_BUSY, 4, 0, false, 0);
  assert_int_equal(last.outcome, TKT_BUSY);
  fix_end(&f);
}

static void m2_replies_match_by_id_never_in_order(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call calls[6];
  for (int i = 0; i < 6; i++)
    acquire(&f, &calls[i], "same", 5, 60);
  turn(&f);
  for (size_t peer = 0; peer < 2; peer++)
    for (uint64_t id = 3; id >= 1; id--)
      reply_id(&f, peer, TKT_MSG_GRANTED, id, 10 * (peer + 1) + id, false, 0);
  uint64_t sum = 0;
  for (int i = 0; i < 6; i++) {
    assert_int_equal(calls[i].outcome, TKT_OK);
    sum += tkt_ticket_token(calls[i].ticket);
  }
  assert_int_equal(sum, 11 + 12 + 13 + 21 + 22 + 23);
  fix_end(&f);
}

enum asked { ONE, SET, RELEASE_ONE, RELEASE_SET, ASKED };

/* Asks, and hears `kind`; true where the session goes on. */
static bool goes_on(enum asked asked, enum tkt_msg_kind kind, bool set, enum tkt_wire_error error) {
  struct fixture f;
  struct tkt_call call;
  struct tkt_msg msg;
  fix_start_framed(&f);
  size_t peer;
  if (asked == ONE) {
    peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  } else if (asked == SET) {
    peer = send_set(&f, &call, 5, &msg);
  } else {
    struct tkt_ticket *t = hold_framed(&f, asked == RELEASE_SET, 7);
    start_release(&f, &call, t);
    tkt_client_drop(f.client, t, f.now);
    turn(&f);
    peer = find_request(&f, &msg);
    assert_int_equal(msg.kind, TKT_MSG_RELEASE);
    assert_int_equal(msg.set, asked == RELEASE_SET);
  }
  struct tkt_msg answer = reply_msg(kind, msg.id, 9, "");
  answer.set = set;
  answer.slot = TKT_SLOT_NONE;
  answer.error = error;
  server_say(&f, peer, &answer);
  turn(&f);
  bool open = !f.peers[peer].closed;
  if (asked == ONE || asked == SET) {
    if (!open) assert_int_equal(call.outcome, TKT_INDETERMINATE);
  } else if (!open) {
    assert_int_equal(call.outcome, TKT_PENDING); /* another session is asked */
  }
  assert_int_equal(counter(&f, "protocol_faults"), !open);
  fix_end(&f);
  return open;
}

static void m2_only_replies_of_an_allowed_kind_settle(void **state) {
  (void)state;
  static const struct {
    enum tkt_msg_kind kind;
    bool set;
    bool allowed[ASKED];
  } table[] = {
      {TKT_MSG_GRANTED, false, {true, false, false, false}},
      {TKT_MSG_GRANTED, true, {false, true, false, false}},
      {TKT_MSG_RELEASED, false, {false, false, true, false}},
      {TKT_MSG_RELEASED, true, {false, false, false, true}},
      {TKT_MSG_TIMED_OUT, false, {true, true, false, false}},
      {TKT_MSG_BUSY, false, {true, true, false, false}},
      {TKT_MSG_NOT_CURRENT, false, {false, false, true, true}},
      {TKT_MSG_MOVED, false, {true, true, true, true}},
      {TKT_MSG_UNCERTAIN, false, {true, true, true, true}},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    for (int asked = 0; asked < ASKED; asked++)
      if (goes_on((enum asked)asked, table[i].kind, table[i].set, 0) != table[i].allowed[asked])
        fail_msg("kind %d, set %d, asked %d", (int)table[i].kind, table[i].set, asked);
}

static void m8_only_errors_of_an_allowed_code_settle(void **state) {
  (void)state;
  static const struct {
    enum tkt_wire_error error;
    bool allowed[ASKED];
  } table[] = {
      {TKT_WIRE_ERROR_BAD_KEY, {true, true, true, true}},
      {TKT_WIRE_ERROR_BAD_LEASE, {true, true, false, false}},
      {TKT_WIRE_ERROR_NOT_ACTIVE, {true, true, true, true}},
      {TKT_WIRE_ERROR_NO_LEADER, {true, true, true, true}},
      {TKT_WIRE_ERROR_BAD_KEY_SET, {false, true, false, true}},
      {TKT_WIRE_ERROR_GROUP_MISMATCH, {false, false, true, true}},
      {TKT_WIRE_ERROR_BAD_TOKEN, {false, false, true, true}},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    for (int asked = 0; asked < ASKED; asked++)
      if (goes_on((enum asked)asked, TKT_MSG_ERROR, false, table[i].error) !=
          table[i].allowed[asked])
        fail_msg("error %d, asked %d", (int)table[i].error, asked);
}

static void m8_an_unknown_error_code_ends_the_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  const uint8_t unknown[] = {'E', 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 8};
  server_bytes(&f, peer, unknown, sizeof unknown);
  turn(&f);
  assert_true(f.peers[peer].closed);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  fix_end(&f);
}

static void m8_definitive_errors_end_the_request_with_a_reason(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call call, again;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  reply_error(&f, peer, msg.id, TKT_WIRE_ERROR_BAD_KEY);
  assert_int_equal(call.outcome, TKT_INVALID_ARGUMENT);
  says(&call, "refuses a key");
  struct tkt_ticket *t = hold_framed(&f, true, 7);
  start_release(&f, &call, t);
  turn(&f);
  peer = find_request(&f, &msg);
  reply_error(&f, peer, msg.id, TKT_WIRE_ERROR_GROUP_MISMATCH);
  assert_int_equal(call.outcome, TKT_INVALID_ARGUMENT);
  says(&call, "not those of the grant");
  start_release(&f, &again, t); /* R2: it ended the release for good */
  assert_int_equal(again.outcome, TKT_INVALID_ARGUMENT);
  says(&again, "not those of the grant");
  assert_int_equal(counter(&f, "acquires_refused_by_server"), 1);
  assert_int_equal(counter(&f, "releases_refused_by_server"), 1);
  tkt_client_drop(f.client, t, f.now);
  assert_int_equal(counter(&f, "tickets"), 0);
  fix_end(&f);
}

static void m9_an_unknown_id_ends_the_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  reply_id(&f, peer, TKT_MSG_BUSY, msg.id + 1, 0, false, 0);
  turn(&f);
  assert_true(f.peers[peer].closed);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  reply_id(&f, peer, TKT_MSG_BUSY, 0, 0, false, 0);
  turn(&f);
  assert_true(f.peers[peer].closed);
  fix_end(&f);
}

static void m9_an_id_of_another_session_ends_the_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  reply_id(&f, 1 - peer, TKT_MSG_GRANTED, msg.id, 7, false, 0);
  turn(&f);
  assert_true(f.peers[1 - peer].closed);
  assert_int_equal(call.outcome, TKT_PENDING);
  assert_int_equal(requests_left(&f), 0); /* the keys of that grant are not known */
  fix_end(&f);
}

static void m9_a_grant_of_the_wrong_kind_goes_back(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_set(&f, &call, 5, &msg);
  reply_id(&f, peer, TKT_MSG_GRANTED, msg.id, 7, false, 0);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  turn(&f);
  assert_true(f.peers[peer].closed);
  size_t other = find_request(&f, &msg);
  assert_int_not_equal(other, peer);
  assert_int_equal(msg.kind, TKT_MSG_RELEASE);
  assert_int_equal(msg.token, 7);
  assert_true(msg.set);
  assert_int_equal(msg.key_count, 2);
  fix_end(&f);
}

static void m9_grants_behind_the_fault_go_back_with_the_keys_asked_for(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  tkt_session_eof(f.peers[1].session, f.now);
  turn(&f);
  f.silent = true;
  struct tkt_call calls[3];
  struct tkt_msg msg, set;
  size_t peer = send_acquire(&f, &calls[0], "a", 5, 60, &msg);
  assert_int_equal(peer, 0);
  send_set(&f, &calls[1], 5, &set);
  send_acquire(&f, &calls[2], "c", 5, 60, &msg);
  struct tkt_msg first = reply_msg(TKT_MSG_BUSY, 77, 0, "");
  struct tkt_msg second = reply_msg(TKT_MSG_GRANTED, set.id, 21, "");
  struct tkt_msg third = reply_msg(TKT_MSG_TIMED_OUT, 1, 0, "");
  struct tkt_msg fourth = reply_msg(TKT_MSG_GRANTED, msg.id, 22, "");
  second.set = true;
  struct tkt_buf bytes = {0};
  fix_encode(&tkt_wire3, &first, &bytes);
  fix_encode(&tkt_wire3, &second, &bytes);
  fix_encode(&tkt_wire3, &third, &bytes);
  server_bytes(&f, 0, tkt_buf_span(&bytes).data, tkt_buf_len(&bytes));
  tkt_buf_release(&bytes);
  fix_encode(&tkt_wire3, &fourth, &f.peers[0].unread);
  turn(&f);
  for (int i = 0; i < 3; i++)
    assert_int_equal(calls[i].outcome, TKT_INDETERMINATE);
  assert_true(f.peers[0].closed);
  assert_int_equal(counter(&f, "grants_given_back"), 2);
  f.silent = false;
  pass(&f, 300 * TKT_MS);
  unsigned seen = 0;
  for (int i = 0; i < 2; i++) {
    find_request(&f, &msg);
    assert_int_equal(msg.kind, TKT_MSG_RELEASE);
    assert_int_equal(msg.set, msg.token == 21);
    assert_int_equal(msg.key_count, msg.token == 21 ? 2 : 1);
    if (msg.token == 22) assert_true(tkt_span_equal(msg.keys[0], tkt_span_str("c")));
    seen += (unsigned)msg.token;
  }
  assert_int_equal(seen, 43);
  fix_end(&f);
}

static void m9_token_0_and_a_token_we_hold_are_faults(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  struct tkt_ticket *t = hold_framed(&f, false, 7);
  size_t peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  reply_id(&f, peer, TKT_MSG_GRANTED, msg.id, 7, false, 0);
  turn(&f);
  assert_true(f.peers[peer].closed);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  assert_int_equal(requests_left(&f), 0); /* released, it would take the ticket away */
  peer = send_acquire(&f, &call, "a", 5, 60, &msg);
  reply_id(&f, peer, TKT_MSG_GRANTED, msg.id, 0, false, 0);
  turn(&f);
  assert_true(f.peers[peer].closed);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  assert_int_equal(requests_left(&f), 0);
  tkt_client_drop(f.client, t, f.now);
  fix_end(&f);
}

static void s5_tombstones_swallow_every_final_reply(void **state) {
  (void)state;
  static const enum tkt_msg_kind kinds[] = {TKT_MSG_TIMED_OUT, TKT_MSG_BUSY,  TKT_MSG_MOVED,
                                            TKT_MSG_UNCERTAIN, TKT_MSG_ERROR, TKT_MSG_GRANTED};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    struct fixture f;
    fix_init(&f);
    f.speaks[0] = 3;
    f.config.cancel_keeps_session = true;
    fix_new(&f);
    turn(&f);
    struct tkt_call call;
    struct tkt_msg msg;
    size_t peer = send_set(&f, &call, 5, &msg);
    tkt_client_cancel(f.client, &call, f.now);
    assert_int_equal(call.outcome, TKT_INDETERMINATE);
    struct tkt_msg answer = reply_msg(kinds[i], msg.id, 7, "");
    answer.set = kinds[i] == TKT_MSG_GRANTED;
    answer.slot = TKT_SLOT_NONE;
    answer.error = TKT_WIRE_ERROR_NO_LEADER;
    server_say(&f, peer, &answer);
    pass(&f, 200 * TKT_MS);
    assert_int_equal(open_sessions(&f), 2);
    if (kinds[i] == TKT_MSG_GRANTED) { /* the tombstone kept its keys */
      find_request(&f, &msg);
      assert_int_equal(msg.kind, TKT_MSG_RELEASE);
      assert_true(msg.set);
      assert_int_equal(msg.token, 7);
      assert_int_equal(msg.key_count, 2);
      assert_true(tkt_span_equal(msg.keys[0], tkt_span_str("a")));
      assert_true(tkt_span_equal(msg.keys[1], tkt_span_str("b")));
    }
    assert_int_equal(requests_left(&f), 0);
    assert_int_equal(counter(&f, "tickets"), kinds[i] == TKT_MSG_GRANTED);
    fix_end(&f);
  }
}

static void r6_a_release_that_gave_up_takes_its_late_reply_by_id(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call release, again;
  struct tkt_msg first, msg;
  struct tkt_ticket *t = hold_framed(&f, true, 7);
  start_release(&f, &release, t);
  turn(&f);
  size_t peer = find_request(&f, &first);
  pass(&f, 5100 * TKT_MS);
  assert_int_equal(release.outcome, TKT_INDETERMINATE);
  requests_left(&f);
  reply_id(&f, peer, TKT_MSG_RELEASED, first.id, 0, true, 0);
  start_release(&f, &again, t);
  assert_int_equal(again.outcome, TKT_OK);
  turn(&f);
  assert_int_equal(open_sessions(&f), 2);
  assert_false(server_next(&f, peer, &msg));
  tkt_client_drop(f.client, t, f.now);
  fix_end(&f);
}

static void m10_lengths_that_no_reply_has_end_the_session(void **state) {
  (void)state;
  static const char *const frames[] = {"A\0\x0f", "A\xff\xff", "R\0\x07", "T\0\0",
                                       "L\0\x02", "\n",        "?\0\x01"};
  static const size_t lengths[] = {3, 3, 3, 3, 3, 1, 3};
  for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
    struct fixture f;
    fix_start_framed(&f);
    server_bytes(&f, 0, frames[i], lengths[i]);
    turn(&f);
    assert_true(f.peers[0].closed);
    assert_false(f.peers[1].closed);
    fix_end(&f);
  }
}

/* The server guesses the id of a request that lies encoded in front of a full stream. */
static void m9_a_reply_to_what_was_not_sent_ends_the_session(void **state) {
  (void)state;
  for (int release = 0; release < 2; release++) {
    struct fixture f;
    fix_start_framed(&f);
    struct tkt_call call;
    struct tkt_ticket *t = NULL;
    if (release) t = hold_framed(&f, false, 7);
    for (size_t i = 0; i < 2; i++) {
      f.peers[i].room = 0;
      f.peers[i].mute = true;
    }
    if (release)
      start_release(&f, &call, t);
    else
      acquire(&f, &call, "a", 5, 60);
    turn(&f);
    /* Round robin: the ticket's session was 0. */
    size_t peer = release ? 1 : 0;
    reply_id(&f, peer, release ? TKT_MSG_RELEASED : TKT_MSG_BUSY, 1, 0, false, 0);
    assert_int_equal(call.outcome, TKT_PENDING);
    turn(&f);
    assert_true(f.peers[peer].closed);
    unblock(&f, 1 - peer, SIZE_MAX);
    pass(&f, 20 * TKT_MS);
    struct tkt_msg msg;
    assert_int_equal(find_request(&f, &msg), 1 - peer); /* unsent, it went elsewhere */
    if (t) tkt_client_drop(f.client, t, f.now);
    fix_end(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(ids_grow_from_1_in_each_session),
      TEST(ids_of_frames_that_never_left_are_used_again),
      TEST(m2_replies_match_by_id_never_in_order),
      TEST(m2_only_replies_of_an_allowed_kind_settle),
      TEST(m8_only_errors_of_an_allowed_code_settle),
      TEST(m8_an_unknown_error_code_ends_the_session),
      TEST(m8_definitive_errors_end_the_request_with_a_reason),
      TEST(m9_an_unknown_id_ends_the_session),
      TEST(m9_an_id_of_another_session_ends_the_session),
      TEST(m9_a_grant_of_the_wrong_kind_goes_back),
      TEST(m9_grants_behind_the_fault_go_back_with_the_keys_asked_for),
      TEST(m9_token_0_and_a_token_we_hold_are_faults),
      TEST(s5_tombstones_swallow_every_final_reply),
      TEST(r6_a_release_that_gave_up_takes_its_late_reply_by_id),
      TEST(m10_lengths_that_no_reply_has_end_the_session),
      TEST(m9_a_reply_to_what_was_not_sent_ends_the_session),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
