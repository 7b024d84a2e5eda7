/* Sessions on wire 3: handshake, signs of life, ids, the end. */
#include "unit/server/framed.h"

static void hello_verdict_and_sign_of_life(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = connect_framed(&s);
  turn(&s);
  assert_int_equal(tkt_buf_len(&c->got), 28);
  assert_memory_equal(tkt_buf_span(&c->got).data, "TCKCLI3\0\0\x03\0\xff", 12);
  read_hello(c);
  answer_hello(c, "anything"); /* there are no client tokens */
  turn(&s);
  assert_memory_equal(tkt_buf_span(&c->got).data + 28, "\x01L\0\x01\xff", 5);
  expect_verdict(c, true);
  expect_alive(c);
  assert_int_equal(unread(c), 0);
  stage_close(&s);
}

static void nonces_differ(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = connect_framed(&s), *b = connect_framed(&s);
  turn(&s);
  read_hello(a);
  read_hello(b);
  assert_memory_not_equal(a->nonce, b->nonce, 16);
  stage_close(&s);
}

static void t2_every_client_token_is_accepted_and_counted(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  const struct tkt_client_token tokens[] = {{"old", tkt_span_str("first")},
                                            {"new", tkt_span_str("second")}};
  s.config.tokens = tokens;
  s.config.token_count = 2;
  stage_start(&s);
  join_framed_with(&s, "first");
  join_framed_with(&s, "second");
  join_framed_with(&s, "second");
  assert_int_equal(tkt_server_stats(s.server).auth_failed, 0);
  stage_close(&s);
}

static void verdict_0_comes_a_second_after_a_proven_mismatch(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  const struct tkt_client_token token = {"t", tkt_span_str("right")};
  s.config.tokens = &token;
  s.config.token_count = 1;
  stage_start(&s);
  for (int odd = 0; odd < 3; odd++) { /* another token, another nonce, one bit */
    struct client *c = connect_framed(&s);
    turn(&s);
    read_hello(c);
    uint8_t answer[TKT_WIRE3_PROOF_LEN];
    if (odd == 1) c->nonce[5] ^= 1;
    assert_true(tkt_wire3_proof(tkt_span_str(odd == 0 ? "wrong" : "right"), 0,
                                tkt_wire3_single_identity, 255, tkt_span(c->nonce, 16), answer));
    if (odd == 2) answer[31] ^= 1;
    send_bytes(c, answer, sizeof answer);
    /* What is written behind the answer is never looked at. */
    send_bytes(c, "A\0\x0c\0\0\0\0\0\0\0\x01\0\x05kk", 15);
    advance(&s, 999 * TKT_MS);
    assert_int_equal(unread(c), 0);
    assert_int_equal(tkt_peer_wants(c->peer), 0);
    advance(&s, 2 * TKT_MS);
    expect_verdict(c, false);
    assert_int_equal(unread(c), 0);
    assert_true(c->shut);
    half_close(c);
    turn(&s);
    assert_true(c->closed);
    assert_int_equal(tkt_server_stats(s.server).auth_failed, (uint64_t)odd + 1);
  }
  assert_int_equal(holder_of(&s, "kk", NULL), 0);
  stage_close(&s);
}

static void requests_may_stand_behind_the_answer(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = connect_framed(&s);
  turn(&s);
  read_hello(c);
  answer_hello(c, "t");
  send_bytes(c, "A\0\x0c\0\0\0\0\0\0\0\x01\0\x05kk", 15);
  turn(&s);
  expect_verdict(c, true);
  expect_alive(c);
  expect_single_granted(c, 1);
  stage_close(&s);
}

static void without_room_it_closes_without_a_verdict(void **state) {
  (void)state;
  struct stage s;
  stage_prepare(&s);
  s.config.limits.sessions = 2;
  stage_start(&s);
  struct client *a = connect_framed(&s), *b = connect_framed(&s);
  assert_null(connect_framed(&s));
  turn(&s);
  read_hello(a);
  /* one that says nothing, then one that waits when the server goes */
  advance(&s, 11 * TKT_S);
  assert_true(a->closed && b->closed);
  assert_int_equal(unread(a), 0);
  struct client *c = connect_framed(&s);
  turn(&s);
  read_hello(c);
  tkt_server_drain(s.server, s.now);
  turn(&s);
  assert_true(c->closed);
  assert_int_equal(unread(c), 0);
  stage_close(&s);
}

static void a_sign_of_life_every_ten_idle_seconds(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s);
  advance(&s, 9 * TKT_S);
  take_all(c, 1, "k", 5);
  advance(&s, 9900 * TKT_MS);
  assert_int_equal(unread(c), 0);
  advance(&s, 200 * TKT_MS);
  expect_alive(c);
  advance(&s, 10 * TKT_S + 2 * TKT_MS);
  expect_alive(c);
  assert_int_equal(unread(c), 0);
  stage_close(&s);
}

/* --- ids -----------------------------------------------------------------------------------------
 */

static void expect_closed_(struct client *c, const char *file, int line) {
  turn(c->stage);
  struct tkt_msg msg;
  _assert_true(c->shut, "shut", file, line);
  if (next_reply(c, &msg)) _assert_int_equal(msg.kind, TKT_MSG_TIMED_OUT, file, line);
  half_close(c);
  turn(c->stage);
  _assert_true(c->closed, "closed", file, line);
}
#define expect_closed(c) expect_closed_(c, __FILE__, __LINE__)

static void id_0_closes(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  static const char *const keys[] = {"k", "a b"};
  for (int i = 0; i < 2; i++) {
    struct client *c = join_framed(&s);
    ask_for(c, 0, keys[i], 0, 5);
    expect_closed(c);
    c = join_framed(&s);
    give_back_all(c, 0, keys[i], 1);
    expect_closed(c);
  }
  assert_empty(s.server);
  stage_close(&s);
}

/* An acquire in the queue, an acquire in commit, a release in commit; by any frame. */
static void an_id_in_flight_closes(void **state) {
  (void)state;
  struct stage s;
  for (int second = 0; second < 4; second++)
    for (int first = 0; first < 3; first++) {
      stage_open(&s);
      struct client *holder = join_framed(&s), *c = join_framed(&s);
      uint64_t held = take_all(holder, 1, "held", 100), own = take_all(c, 1, "own", 100);
      if (first == 0) ask_for(c, 7, "held", 50, 5);
      if (first == 1) ask_for(c, 7, "free", 0, 5);
      if (first == 2) give_back_all(c, 7, "own", own);
      if (first > 0) {
        s.storage.answer = TKT_COMMIT_PENDING;
        turn(&s);
      }
      expect_nothing(c);
      if (second == 0) ask_for(c, 7, "other", 5, 5);
      if (second == 1) give_back_all(c, 7, "other", 5);
      if (second == 2) ask_for(c, 7, "other another", 5, 5);
      if (second == 3) give_back_all(c, 7, "other another", held);
      turn(&s);
      assert_int_equal(tkt_server_stats(s.server).protocol_errors, 1);
      if (first > 0) {
        /* What is in commit gets its real reply before the end. */
        assert_false(c->shut);
        decide(&s, s.storage.last_batch, TKT_COMMIT_DONE);
        expect_reply_to(c, first == 1 ? TKT_MSG_GRANTED : TKT_MSG_RELEASED, 7);
      } else {
        expect_reply_to(c, TKT_MSG_TIMED_OUT, 7);
      }
      expect_closed(c);
      assert_int_equal(holder_of(&s, "other", NULL), 0);
      assert_int_equal(s.server->ids.count + s.server->release_ids.count, 0);
      stage_close(&s);
    }
}

static void an_answered_id_may_come_again(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s);
  for (int round = 0; round < 3; round++) {
    uint64_t token = take_all(c, 5, "k", 5);
    ask_for(c, 5, "k", 0, 5);
    turn(&s);
    expect_reply_to(c, TKT_MSG_TIMED_OUT, 5);
    ask_for(c, 5, "k", 0, 0);
    turn(&s);
    expect_error_to(c, 5, TKT_WIRE_ERROR_BAD_LEASE);
    give_back_all(c, 5, "k", token);
    turn(&s);
    expect_single_released(c, 5);
    give_back_all(c, 5, "k", token);
    turn(&s);
    expect_reply_to(c, TKT_MSG_NOT_CURRENT, 5);
  }
  assert_empty(s.server);
  stage_close(&s);
}

/* Two in one read: the second comes while the first is not committed. */
static void an_id_twice_in_one_read_closes(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s);
  ask_for(c, 5, "a", 0, 5);
  ask_for(c, 5, "b", 0, 5);
  turn(&s);
  expect_reply_to(c, TKT_MSG_TIMED_OUT, 5);
  expect_closed(c);
  assert_empty(s.server);
  stage_close(&s);
}

static void ids_in_any_order(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s), *other = join_framed(&s);
  take_all(other, 9, "held", 250);
  static const uint64_t ids[] = {100, 3, UINT64_MAX, 2, 1, 99, 101};
  enum { IDS = sizeof ids / sizeof *ids };
  for (size_t i = 0; i < IDS; i++)
    ask_for(c, ids[i], i % 2 ? "held" : "held more", 10, 5);
  ask_for(other, 3, "held", 10, 5); /* another session's are its own */
  turn(&s);
  assert_int_equal(tkt_server_stats(s.server).waiters, IDS + 1);
  assert_int_equal(s.server->ids.count, IDS + 1);
  for (size_t i = 0; i < IDS; i++) { /* each of them is known to be in flight */
    struct client *d = join_framed(&s);
    for (size_t j = 0; j < IDS; j++)
      ask_for(d, ids[j], "held", 10, 5);
    ask_for(d, ids[i], "held", 10, 5);
    turn(&s);
    assert_true(d->shut);
  }
  advance(&s, 11 * TKT_S);
  for (size_t i = 0; i < IDS; i++)
    expect_reply_to(c, TKT_MSG_TIMED_OUT, ids[i]);
  assert_int_equal(s.server->ids.count, 0);
  ask_for(c, 2, "free", 0, 5);
  turn(&s);
  expect_single_granted(c, 2);
  stage_close(&s);
}

/* --- the end -------------------------------------------------------------------------------------
 */

static void eof_tells_queued_waiters_t(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *holder = join(&s), *c = join_framed(&s);
  uint64_t token = take(holder, 1, "b", 100);
  ask_for(c, 1, "b", 10, 5);
  ask_for(c, 2, "a b", 10, 5);
  give_back_all(c, 3, "b", token); /* before the end: applied, and its key is not granted to c */
  half_close(c);
  turn(&s);
  expect_reply_to(c, TKT_MSG_TIMED_OUT, 1);
  expect_reply_to(c, TKT_MSG_TIMED_OUT, 2);
  expect_single_released(c, 3);
  assert_true(c->closed);
  vanish(holder);
  turn(&s);
  assert_empty(s.server);
  stage_close(&s);
}

static void a_server_that_goes_tells_queued_waiters_m(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *holder = join(&s), *two = join(&s), *three = join_framed(&s);
  take(holder, 1, "b", 100);
  ask(two, 2, "b", 10, 5);
  ask_for(three, 1, "b", 10, 5);
  ask_for(three, 2, "a b", 10, 5);
  turn(&s);
  tkt_server_drain(s.server, s.now);
  turn(&s);
  expect_timed_out(two, 2, "b");
  for (uint64_t id = 1; id <= 2; id++)
    assert_int_equal(expect_reply_to(three, TKT_MSG_MOVED, id).slot, TKT_SLOT_NONE);
  expect_nothing(three);
  assert_true(three->shut && two->shut);
  stage_close(&s);
}

/* Opcode or length is enough; the body never has to come. */
static void what_cannot_be_framed_closes(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  static const struct {
    const char *bytes;
    size_t len;
  } odd[] = {
      {"T", 1},         /* a reply */
      {"\0", 1},        /* no opcode */
      {"A\0\0", 3},     /* length 0 */
      {"A\0\x0a", 3},   /* no key */
      {"A\0\x8b", 3},   /* 139 */
      {"R\0\x10", 3},   /* no key */
      {"R\0\x91", 3},   /* 145 */
      {"S\x08\x1c", 3}, /* 2,076 */
      {"G\x08\x22", 3}, /* 2,082 */
      {"S\0\x0d\0\0\0\0\0\0\0\x01\x05\x05\x02\x01"
       "a",
       16}, /* a key is missing */
      {"S\0\x0e\0\0\0\0\0\0\0\x01\x05\x05\x01\x01"
       "ab",
       17}, /* a byte too many */
  };
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    struct client *c = join_framed(&s);
    send_bytes(c, odd[i].bytes, odd[i].len);
    turn(&s);
    assert_int_equal(tkt_server_stats(s.server).protocol_errors, i + 1);
    expect_nothing(c);
    expect_closed(c);
  }
  assert_empty(s.server);
  stage_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hello_verdict_and_sign_of_life),
      cmocka_unit_test(nonces_differ),
      cmocka_unit_test(t2_every_client_token_is_accepted_and_counted),
      cmocka_unit_test(verdict_0_comes_a_second_after_a_proven_mismatch),
      cmocka_unit_test(requests_may_stand_behind_the_answer),
      cmocka_unit_test(without_room_it_closes_without_a_verdict),
      cmocka_unit_test(a_sign_of_life_every_ten_idle_seconds),
      cmocka_unit_test(id_0_closes),
      cmocka_unit_test(an_id_in_flight_closes),
      cmocka_unit_test(an_answered_id_may_come_again),
      cmocka_unit_test(an_id_twice_in_one_read_closes),
      cmocka_unit_test(ids_in_any_order),
      cmocka_unit_test(eof_tells_queued_waiters_t),
      cmocka_unit_test(a_server_that_goes_tells_queued_waiters_m),
      cmocka_unit_test(what_cannot_be_framed_closes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
