/* Handshake, signs of life, and what the server does with bytes that are no request. */
#include "unit/server/stage.h"

static void greeting_says_single_and_a_fresh_nonce(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = connect_raw(&s), *b = connect_raw(&s);
  turn(&s);
  read_greeting(a);
  read_greeting(b);
  assert_int_equal(a->nonce_len, 22);
  assert_memory_not_equal(a->nonce, b->nonce, 22);
  for (size_t i = 0; i < 22; i++)
    assert_non_null(memchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
                           a->nonce[i], 64));
  stage_close(&s);
}

static void nonce_that_is_not_to_be_had_refuses_the_connection(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  s.no_nonce = true;
  assert_null(connect_raw(&s));
  assert_int_equal(tkt_server_stats(s.server).sessions, 0);
  assert_int_equal(tkt_server_stats(s.server).sessions_unauthenticated, 0);
  stage_close(&s);
}

static void accepted_proof_is_followed_by_a_sign_of_life_at_once(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = connect_raw(&s);
  turn(&s);
  read_greeting(a);
  prove(a, "x");
  turn(&s);
  assert_int_equal(unread(a), 1);
  struct tkt_msg msg;
  assert_true(next_message(a, &msg));
  assert_int_equal(msg.kind, TKT_MSG_KEEPALIVE);
  stage_close(&s);
}

static void requests_right_behind_the_proof_are_answered(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = connect_raw(&s);
  turn(&s);
  read_greeting(a);
  uint8_t bytes[256];
  assert_true(tkt_wire2_proof(tkt_span_str("x"), tkt_span(a->nonce, a->nonce_len), (char *)bytes));
  size_t n = TKT_WIRE2_PROOF_LEN;
  bytes[n++] = '\n';
  struct tkt_msg msg = {.kind = TKT_MSG_ACQUIRE,
                        .id = 0x0a0a0a0a0a0a0a0a,
                        .wait_s = 10,
                        .lease_s = 10,
                        .key_count = 1,
                        .keys = {tkt_span_str("k")}};
  tkt_wire2.encode(&msg, bytes + n);
  n += tkt_wire2.encoded_size(&msg);
  for (size_t i = 0; i < n; i++)
    send_bytes(a, bytes + i, 1); /* and at every cut */
  turn(&s);
  expect_granted(a, 0x0a0a0a0a0a0a0a0a, "k");
  stage_close(&s);
}

static void sign_of_life_comes_after_10_s_of_idleness_only(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  for (int i = 0; i < 5; i++) {
    advance(&s, 9 * TKT_S);
    assert_int_equal(unread(a), 0);
    give_back(a, 1, "nothing"); /* output every 9 s: not idle */
    turn(&s);
    expect_not_current(a, 1, "nothing");
  }
  for (int i = 0; i < 5; i++) {
    advance(&s, 9 * TKT_S);
    assert_int_equal(unread(a), 0);
    advance(&s, TKT_S + 2 * TKT_MS);
    struct tkt_msg msg;
    assert_true(next_message(a, &msg));
    assert_int_equal(msg.kind, TKT_MSG_KEEPALIVE);
    assert_false(next_message(a, &msg));
  }
  stage_close(&s);
}

static void signs_of_life_do_not_pile_up_for_a_peer_that_does_not_read(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  a->blocked = true;
  for (int i = 0; i < 50; i++)
    advance(&s, 11 * TKT_S);
  assert_int_equal(tkt_peer_output(a->peer).len, 1);
  stage_close(&s);
}

static void wrong_proof_is_told_auth_failed_after_1_s_and_closed(void **state) {
  (void)state;
  const struct tkt_client_token token = {"first", tkt_span_str("right")};
  struct stage s;
  stage_prepare(&s);
  s.config.tokens = &token;
  s.config.token_count = 1;
  stage_start(&s);
  struct client *a = connect_raw(&s);
  turn(&s);
  read_greeting(a);
  prove(a, "wrong");
  ask(a, 1, "k", 0, 10);
  turn(&s);
  advance(&s, 990 * TKT_MS);
  expect_nothing(a);
  assert_int_equal(unread(a), 0);
  advance(&s, 12 * TKT_MS);
  expect_error(a, TKT_WIRE_ERROR_AUTH_FAILED);
  assert_true(a->shut);
  half_close(a);
  turn(&s);
  assert_true(a->closed);
  assert_int_equal(tkt_server_stats(s.server).auth_failed, 1);
  assert_int_equal(tkt_server_stats(s.server).keys_held, 0);
  join_with(&s, "right");
  stage_close(&s);
}

static void proof_with_a_prefix_or_suffix_of_the_right_one_is_refused(void **state) {
  (void)state;
  const struct tkt_client_token token = {"first", tkt_span_str("right")};
  for (int longer = 0; longer < 2; longer++) {
    struct stage s;
    stage_prepare(&s);
    s.config.tokens = &token;
    s.config.token_count = 1;
    stage_start(&s);
    struct client *a = connect_raw(&s);
    turn(&s);
    read_greeting(a);
    char line[TKT_WIRE2_PROOF_LEN + 2];
    assert_true(tkt_wire2_proof(tkt_span_str("right"), tkt_span(a->nonce, a->nonce_len), line));
    size_t n = longer ? TKT_WIRE2_PROOF_LEN + 1 : TKT_WIRE2_PROOF_LEN - 1;
    if (longer) line[TKT_WIRE2_PROOF_LEN] = 'A';
    line[n] = '\n';
    send_bytes(a, line, n + 1);
    turn(&s);
    assert_int_equal(tkt_server_stats(s.server).auth_failed, 1);
    stage_close(&s);
  }
}

struct label_counts {
  uint64_t old, fresh;
  unsigned labels;
};

static void count_label(void *context, const char *label, uint64_t accepted) {
  struct label_counts *counts = context;
  counts->labels++;
  if (strcmp(label, "old") == 0) counts->old = accepted;
  if (strcmp(label, "new") == 0) counts->fresh = accepted;
}

static void tokens_are_rotated_without_an_outage_and_counted_by_label(void **state) {
  (void)state;
  struct tkt_client_token tokens[] = {{"old", tkt_span_str("aaa")}, {"new", tkt_span_str("")}};
  struct stage s;
  stage_prepare(&s);
  s.config.tokens = tokens;
  s.config.token_count = 1;
  stage_start(&s);
  struct client *a = join_with(&s, "aaa");
  tokens[1].secret = tkt_span_str("bbb");
  assert_true(tkt_server_replace_tokens(s.server, tokens, 2));
  join_with(&s, "aaa");
  join_with(&s, "bbb");
  struct label_counts counts = {0, 0, 0};
  tkt_server_each_token(s.server, count_label, &counts);
  assert_int_equal(counts.labels, 2);
  assert_int_equal(counts.old, 2);
  assert_int_equal(counts.fresh, 1);
  assert_true(tkt_server_replace_tokens(s.server, tokens + 1, 1));
  join_with(&s, "bbb");
  struct client *late = connect_raw(&s);
  turn(&s);
  read_greeting(late);
  prove(late, "aaa");
  turn(&s);
  assert_int_equal(tkt_server_stats(s.server).auth_failed, 1);
  take(a, 1, "k", 10); /* a session that is open stays */
  stage_close(&s);
}

static void without_client_tokens_any_well_formed_proof_will_do(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  join_with(&s, "");
  join_with(&s, "anything");
  const char *bad[] = {"\n", "123\n", "WvDLEd0VIA9cVatiwxXYXRGMDSXw0ibHllLgAMBffd=\n",
                       "WvDLEd0VIA9cVatiwxXYXRGMDSXw0ibHllLgAMBffdgg\n"};
  for (size_t i = 0; i < 4; i++) {
    struct client *a = connect_raw(&s);
    turn(&s);
    read_greeting(a);
    send_bytes(a, bad[i], strlen(bad[i]));
    turn(&s);
    assert_int_equal(tkt_server_stats(s.server).auth_failed, i + 1);
    advance(&s, 1010 * TKT_MS);
    expect_error(a, TKT_WIRE_ERROR_AUTH_FAILED);
  }
  stage_close(&s);
}

static void endless_proof_is_refused(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = connect_raw(&s);
  turn(&s);
  read_greeting(a);
  char flood[4000];
  memset(flood, 'x', sizeof flood);
  send_bytes(a, flood, sizeof flood);
  turn(&s);
  assert_int_equal(tkt_server_stats(s.server).auth_failed, 1);
  stage_close(&s);
}

static void refused_peer_that_half_closed_still_reads_its_verdict(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = connect_raw(&s);
  turn(&s);
  read_greeting(a);
  send_bytes(a, "x\n", 2);
  half_close(a);
  turn(&s);
  assert_false(a->closed);
  advance(&s, 1010 * TKT_MS);
  expect_error(a, TKT_WIRE_ERROR_AUTH_FAILED);
  assert_true(a->closed);
  stage_close(&s);
}

static void handshake_has_a_limit(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = connect_raw(&s);
  turn(&s);
  send_bytes(a, "WvDLEd0", 7);
  advance(&s, 9900 * TKT_MS);
  assert_false(a->closed);
  advance(&s, 110 * TKT_MS);
  assert_true(a->closed);
  stage_close(&s);
}

static void eof_before_the_proof_closes(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = connect_raw(&s);
  turn(&s);
  half_close(a);
  turn(&s);
  assert_true(a->closed);
  assert_int_equal(tkt_server_stats(s.server).sessions_unauthenticated, 0);
  stage_close(&s);
}

/* Sends an acquire whose key is these bytes. */
static void ask_raw(struct client *c, const char *key, size_t len) {
  uint8_t frame[1024] = {'A', 0, 5, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9};
  memcpy(frame + 13, key, len);
  frame[13 + len] = '\n';
  send_bytes(c, frame, 13 + len + 1);
}

static void bad_keys_end_the_session_with_bad_key_or_too_long(void **state) {
  (void)state;
  char key[200];
  memset(key, 'k', sizeof key);
  const struct {
    const char *key;
    size_t len;
    enum tkt_wire_error error;
  } cases[] = {
      {"", 0, TKT_WIRE_ERROR_BAD_KEY},         {"a b", 3, TKT_WIRE_ERROR_BAD_KEY},
      {"a\rb", 3, TKT_WIRE_ERROR_BAD_KEY},     {"\xff", 1, TKT_WIRE_ERROR_BAD_KEY},
      {"\xc0\xaf", 2, TKT_WIRE_ERROR_BAD_KEY}, {"\xed\xa0\x80", 3, TKT_WIRE_ERROR_BAD_KEY},
      {key, 129, TKT_WIRE_ERROR_TOO_LONG},     {key, 200, TKT_WIRE_ERROR_TOO_LONG},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct stage s;
    stage_open(&s);
    struct client *a = join(&s);
    ask_raw(a, cases[i].key, cases[i].len);
    turn(&s);
    expect_error(a, cases[i].error);
    expect_nothing(a);
    assert_true(a->shut);
    assert_int_equal(tkt_server_stats(s.server).protocol_errors, 1);
    assert_int_equal(tkt_server_stats(s.server).keys_held, 0);
    stage_close(&s);
  }
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  ask_raw(a, key, 128);
  turn(&s);
  struct tkt_msg msg;
  assert_true(next_reply(a, &msg));
  assert_int_equal(msg.kind, TKT_MSG_GRANTED);
  assert_int_equal(msg.keys[0].len, 128);
  stage_close(&s);
}

static void
error_comes_after_the_replies_owed_and_is_followed_by_shut_and_a_bounded_drain(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s), *b = join(&s);
  take(b, 1, "k", 200);
  ask(a, 2, "k", 60, 10);
  turn(&s);
  a->blocked = true;
  send_bytes(a, "Zgarbage", 8);
  turn(&s);
  assert_false(a->shut); /* not before the E left */
  a->blocked = false;
  serve(a);
  expect_timed_out(a, 2, "k");
  expect_error(a, TKT_WIRE_ERROR_BAD_OP);
  assert_true(a->shut);
  assert_false(a->closed);
  send_bytes(a, "more", 4);
  advance(&s, 900 * TKT_MS);
  assert_false(a->closed);
  advance(&s, 110 * TKT_MS);
  assert_true(a->closed);
  stage_close(&s);
}

static void every_opcode_that_is_none_of_a_request_is_bad_op(void **state) {
  (void)state;
  for (unsigned op = 0; op < 256; op++) {
    if (op == 'A' || op == 'R') continue;
    struct stage s;
    stage_open(&s);
    struct client *a = join(&s);
    uint8_t byte = (uint8_t)op;
    send_bytes(a, &byte, 1);
    turn(&s);
    expect_error(a, TKT_WIRE_ERROR_BAD_OP);
    stage_close(&s);
  }
}

static void frame_cut_by_the_end_is_no_request(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  send_bytes(a, "A\0\5\0\5\0\0\0\0\0\0\0\1key", 16);
  half_close(a);
  turn(&s);
  expect_nothing(a);
  assert_true(a->closed);
  stage_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(greeting_says_single_and_a_fresh_nonce),
      cmocka_unit_test(nonce_that_is_not_to_be_had_refuses_the_connection),
      cmocka_unit_test(accepted_proof_is_followed_by_a_sign_of_life_at_once),
      cmocka_unit_test(requests_right_behind_the_proof_are_answered),
      cmocka_unit_test(sign_of_life_comes_after_10_s_of_idleness_only),
      cmocka_unit_test(signs_of_life_do_not_pile_up_for_a_peer_that_does_not_read),
      cmocka_unit_test(wrong_proof_is_told_auth_failed_after_1_s_and_closed),
      cmocka_unit_test(proof_with_a_prefix_or_suffix_of_the_right_one_is_refused),
      cmocka_unit_test(tokens_are_rotated_without_an_outage_and_counted_by_label),
      cmocka_unit_test(without_client_tokens_any_well_formed_proof_will_do),
      cmocka_unit_test(endless_proof_is_refused),
      cmocka_unit_test(refused_peer_that_half_closed_still_reads_its_verdict),
      cmocka_unit_test(handshake_has_a_limit),
      cmocka_unit_test(eof_before_the_proof_closes),
      cmocka_unit_test(bad_keys_end_the_session_with_bad_key_or_too_long),
      cmocka_unit_test(
          error_comes_after_the_replies_owed_and_is_followed_by_shut_and_a_bounded_drain),
      cmocka_unit_test(every_opcode_that_is_none_of_a_request_is_bad_op),
      cmocka_unit_test(frame_cut_by_the_end_is_no_request),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
