/* What answers a request on wire 3 while the session stays: E, I, B, and T a margin early. */
#include "unit/server/framed.h"

/* The session goes on: it gets what it asks for. */
static void assert_alive_(struct client *c, uint64_t id, const char *file, int line) {
  ask_for(c, id, "proof-of-life", 0, 5);
  turn(c->stage);
  struct tkt_msg msg = expect_kind_(c, TKT_MSG_GRANTED, file, line);
  _assert_int_equal(msg.id, id, file, line);
  give_back_all(c, id, "proof-of-life", msg.token);
  turn(c->stage);
  expect_kind_(c, TKT_MSG_RELEASED, file, line);
}
#define assert_alive(c, id) assert_alive_(c, id, __FILE__, __LINE__)

static void bad_keys_are_e_1(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s);
  static const struct {
    const char *key;
    size_t len;
  } bad[] = {{"a b", 3}, {"a\nb", 3}, {"\r", 1}, {"\xff", 1}, {"\xed\xa0\x80", 3}, {"\xc0\x80", 2}};
  uint64_t id = 1;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    for (enum tkt_msg_kind kind = TKT_MSG_ACQUIRE; kind <= TKT_MSG_RELEASE; kind++)
      for (int set = 0; set < 3; set++) { /* alone, behind and before a good one */
        struct tkt_msg msg = {.kind = kind, .id = id, .token = 5, .wait_s = 5, .lease_s = 5};
        msg.set = set > 0;
        msg.key_count = set ? 2 : 1;
        msg.keys[set == 1] = tkt_span(bad[i].key, bad[i].len);
        if (set) msg.keys[set != 1] = tkt_span_str("\x01");
        send_message(c, &msg);
        turn(&s);
        expect_error_to(c, id++, TKT_WIRE_ERROR_BAD_KEY);
      }
  /* Lengths that only a set can write. */
  uint8_t frame[200] = {'S', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 5, 1, 129};
  memset(frame + 15, 'k', 129);
  tkt_store16(frame + 1, 8 + 3 + 130);
  tkt_store64(frame + 3, id);
  send_bytes(c, frame, 3 + 8 + 3 + 130);
  turn(&s);
  expect_error_to(c, id++, TKT_WIRE_ERROR_BAD_KEY);
  frame[14] = 0;
  tkt_store16(frame + 1, 8 + 3 + 1);
  tkt_store64(frame + 3, id);
  send_bytes(c, frame, 3 + 8 + 3 + 1);
  turn(&s);
  expect_error_to(c, id++, TKT_WIRE_ERROR_BAD_KEY);
  assert_alive(c, id);
  assert_empty(s.server);
  stage_close(&s);
}

static void leases_out_of_range_are_e_2(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s);
  uint64_t id = 1;
  for (uint16_t lease = 0; lease <= 255; lease = lease == 1 ? 250 : lease + 1)
    for (int set = 0; set < 2; set++) {
      ask_for(c, id, set ? "a b" : "k", 0, lease);
      turn(&s);
      if (lease == 0 || lease > 250) {
        expect_error_to(c, id++, TKT_WIRE_ERROR_BAD_LEASE);
        continue;
      }
      uint64_t token = set ? expect_set_granted(c, id) : expect_single_granted(c, id);
      id++;
      give_back_all(c, id, set ? "a b" : "k", token);
      turn(&s);
      if (set) {
        expect_set_released(c, id);
      } else {
        expect_single_released(c, id);
      }
      id++;
    }
  assert_alive(c, id);
  assert_empty(s.server);
  stage_close(&s);
}

static void key_sets_out_of_order_or_count_are_e_5(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s);
  static const char *const wrong[] = {"b a",  "a a",           "a c b",     "a b b",
                                      "ab a", "a b c d e f a", "\xc3\xa9 z"};
  uint64_t id = 1;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    ask_for(c, id, wrong[i], 5, 5);
    give_back_all(c, id + 1, wrong[i], 5);
    turn(&s);
    expect_error_to(c, id++, TKT_WIRE_ERROR_BAD_KEY_SET);
    expect_error_to(c, id++, TKT_WIRE_ERROR_BAD_KEY_SET);
  }
  static const char opcodes[] = "SG";
  for (const char *opcode = opcodes; *opcode; opcode++)
    for (uint8_t count = 0; count <= 17; count = (uint8_t)(count + 17)) {
      uint8_t frame[64] = {(uint8_t)*opcode};
      size_t fixed = *opcode == 'S' ? 10 : 16, len = fixed + 1 + 2u * count;
      tkt_store16(frame + 1, (uint16_t)len);
      tkt_store64(frame + 3, id);
      frame[3 + 9] = 5; /* lease, or part of the token */
      frame[3 + fixed] = count;
      for (uint8_t i = 0; i < count; i++) {
        frame[4 + fixed + 2u * i] = 1;
        frame[5 + fixed + 2u * i] = (uint8_t)('a' + i);
      }
      send_bytes(c, frame, 3 + len);
      turn(&s);
      expect_error_to(c, id++, TKT_WIRE_ERROR_BAD_KEY_SET);
    }
  assert_alive(c, id);
  assert_empty(s.server);
  stage_close(&s);
}

static void token_0_is_e_7(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s), *line = join(&s);
  take_all(c, 1, "k", 50);
  give_back_all(c, 2, "k", 0);
  give_back_all(c, 3, "k l", 0);
  give_back(line, 0, "k");
  turn(&s);
  expect_error_to(c, 2, TKT_WIRE_ERROR_BAD_TOKEN);
  expect_error_to(c, 3, TKT_WIRE_ERROR_BAD_TOKEN);
  expect_not_current(line, 0, "k");
  assert_alive(c, 4);
  stage_close(&s);
}

/* --- waits ---------------------------------------------------------------------------------------
 */

static void t_leaves_a_margin_early(void **state) {
  (void)state;
  static const struct {
    int64_t margin;
    uint16_t wait_s;
    int64_t after;
  } waits[] = {
      {50 * TKT_MS, 1, 950 * TKT_MS},
      {50 * TKT_MS, 200, 200 * TKT_S - 50 * TKT_MS},
      {0, 1, TKT_S},
      {500 * TKT_MS, 1, 500 * TKT_MS},
      {5 * TKT_S, 1, 500 * TKT_MS}, /* never more than half the wait */
      {5 * TKT_S, 8, 4 * TKT_S},
      {5 * TKT_S, 20, 15 * TKT_S},
  };
  assert_int_equal(tkt_server_limits_default.wait_margin_ns, 50 * TKT_MS);
  for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
    struct stage s;
    stage_prepare(&s);
    s.config.limits.wait_margin_ns = waits[i].margin;
    stage_start(&s);
    struct client *c = join_framed(&s), *line = join(&s);
    take_all(c, 1, "held", 250);
    ask_for(c, 2, "held", waits[i].wait_s, 5);
    ask_for(c, 3, "free held", waits[i].wait_s, 5);
    ask(line, 2, "held", waits[i].wait_s, 5);
    advance(&s, waits[i].after - 2 * TKT_MS); /* a tick of the wheel is about 1 ms */
    expect_nothing(c);
    advance(&s, 4 * TKT_MS);
    expect_reply_to(c, TKT_MSG_TIMED_OUT, 2);
    expect_reply_to(c, TKT_MSG_TIMED_OUT, 3);
    /* Wire 2 keeps the wait to its end. */
    if (waits[i].margin > 0) expect_nothing(line);
    advance(&s, waits[i].wait_s * TKT_S - waits[i].after);
    expect_timed_out(line, 2, "held");
    stage_close(&s);
  }
}

/* --- the storage ---------------------------------------------------------------------------------
 */

static void what_the_storage_cannot_say_is_i(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s), *line = join(&s);
  uint64_t set = take_all(c, 1, "a b", 100), single = take_all(c, 2, "k", 100);
  take(line, 1, "l", 100);
  s.storage.answer = TKT_COMMIT_UNKNOWN;
  ask_for(c, 3, "x", 0, 5);
  ask_for(c, 4, "y z", 0, 5);
  give_back_all(c, 5, "a b", set);
  give_back_all(c, 6, "k", single);
  turn(&s);
  for (uint64_t id = 3; id <= 6; id++)
    expect_reply_to(c, TKT_MSG_UNCERTAIN, id);
  /* The keys stay occupied, for a full lease. */
  static const char *const keys[] = {"a", "b", "k", "x", "y", "z"};
  s.storage.answer = TKT_COMMIT_DONE;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    assert_int_not_equal(holder_of(&s, keys[i], NULL), 0);
  assert_alive(c, 7);
  /* The release is tried again, and can be. */
  give_back_all(c, 8, "a b", set);
  turn(&s);
  expect_set_released(c, 8);
  advance(&s, 6 * TKT_S);
  take_all(c, 9, "x y z", 5);
  stage_close(&s);
}

static void a_failed_acquire_is_b_and_a_failed_release_i(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s);
  uint64_t set = take_all(c, 1, "a b", 100), single = take_all(c, 2, "k", 100);
  s.storage.answer = TKT_COMMIT_FAILED;
  ask_for(c, 3, "x", 0, 5);
  ask_for(c, 4, "y z", 0, 5);
  give_back_all(c, 5, "a b", set);
  give_back_all(c, 6, "k", single);
  turn(&s);
  expect_reply_to(c, TKT_MSG_BUSY, 3);
  expect_reply_to(c, TKT_MSG_BUSY, 4);
  expect_reply_to(c, TKT_MSG_UNCERTAIN, 5);
  expect_reply_to(c, TKT_MSG_UNCERTAIN, 6);
  assert_int_equal(holder_of(&s, "x", NULL), 0);
  assert_int_equal(holder_of(&s, "b", NULL), set);
  s.storage.answer = TKT_COMMIT_DONE;
  assert_alive(c, 7);
  give_back_all(c, 8, "a b", set);
  give_back_all(c, 9, "k", single);
  turn(&s);
  expect_set_released(c, 8);
  expect_single_released(c, 9);
  assert_empty(s.server);
  stage_close(&s);
}

/* Its lease is over, though nobody has it before that is stored. */
static void a_hold_whose_end_is_in_commit_is_not_current(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s), *line = join(&s);
  uint64_t set = take_all(c, 1, "a b", 5), single = take(line, 1, "k", 5);
  s.storage.answer = TKT_COMMIT_PENDING;
  advance(&s, 6 * TKT_S);
  give_back_all(c, 2, "a b", set);
  give_back_all(c, 3, "a c", set);
  give_back(line, single, "k");
  turn(&s);
  expect_reply_to(c, TKT_MSG_NOT_CURRENT, 2);
  expect_reply_to(c, TKT_MSG_NOT_CURRENT, 3);
  expect_not_current(line, single, "k");
  decide(&s, s.storage.last_batch, TKT_COMMIT_DONE);
  assert_empty(s.server);
  stage_close(&s);
}

/* A release and the set it makes possible travel in one batch: both or none. */
static void a_set_waits_for_every_key_that_leaves(void **state) {
  (void)state;
  for (int failed = 0; failed < 2; failed++) {
    struct stage s;
    stage_open(&s);
    struct client *c = join_framed(&s), *d = join_framed(&s);
    uint64_t a = take_all(c, 1, "a", 100), b = take_all(c, 2, "b", 100);
    ask_for(d, 1, "a b", 50, 5);
    turn(&s);
    s.storage.answer = TKT_COMMIT_PENDING;
    give_back_all(c, 3, "a", a);
    turn(&s); /* a is on its way out, with the storage */
    uint64_t first = s.storage.last_batch;
    give_back_all(c, 4, "b", b);
    turn(&s);
    assert_int_equal(s.storage.last_batch, first + 1);
    decide(&s, first, TKT_COMMIT_DONE);
    expect_single_released(c, 3);
    expect_nothing(d);
    assert_int_equal(s.storage.last_batch, first + 1);
    decide(&s, first + 1, failed ? TKT_COMMIT_FAILED : TKT_COMMIT_DONE);
    if (failed) {
      expect_reply_to(c, TKT_MSG_UNCERTAIN, 4);
      assert_int_equal(s.storage.last_batch, first + 1); /* no part of the set is granted */
      assert_int_equal(holder_of(&s, "a", NULL), 0);
    } else {
      expect_single_released(c, 4);
      assert_int_equal(s.storage.last_batch, first + 2);
      decide(&s, first + 2, TKT_COMMIT_DONE);
      expect_set_granted(d, 1);
    }
    stage_close(&s);
  }
}

/* A set's A that nobody can have read is taken back whole. */
static void an_untold_set_is_taken_back(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *c = join_framed(&s), *d = join_framed(&s);
  c->blocked = true;
  ask_for(c, 1, "a b c", 0, 50);
  turn(&s);
  assert_int_not_equal(holder_of(&s, "b", NULL), 0);
  ask_for(d, 1, "b c", 50, 50);
  vanish(c);
  turn(&s);
  expect_set_granted(d, 1);
  assert_int_equal(holder_of(&s, "a", NULL), 0);
  assert_int_equal(tkt_server_stats(s.server).taken_back, 1);
  stage_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_keys_are_e_1),
      cmocka_unit_test(leases_out_of_range_are_e_2),
      cmocka_unit_test(key_sets_out_of_order_or_count_are_e_5),
      cmocka_unit_test(token_0_is_e_7),
      cmocka_unit_test(t_leaves_a_margin_early),
      cmocka_unit_test(what_the_storage_cannot_say_is_i),
      cmocka_unit_test(a_failed_acquire_is_b_and_a_failed_release_i),
      cmocka_unit_test(a_hold_whose_end_is_in_commit_is_not_current),
      cmocka_unit_test(a_set_waits_for_every_key_that_leaves),
      cmocka_unit_test(an_untold_set_is_taken_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
