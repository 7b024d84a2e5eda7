/* Clients of the stage that speak wire 3. */
#ifndef TESTS_UNIT_SERVER_FRAMED_H
#define TESTS_UNIT_SERVER_FRAMED_H

#include "unit/server/stage.h"

#include "server/state.h"

static inline struct client *connect_framed(struct stage *s) {
  return connect_on(s, &tkt_wire3);
}

static inline void read_hello(struct client *c) {
  struct tkt_msg msg;
  assert_true(next_message(c, &msg));
  assert_int_equal(msg.kind, TKT_MSG_GREETING);
  assert_int_equal(msg.mode, TKT_WIRE_SINGLE);
  assert_int_equal(msg.slot, TKT_SLOT_NONE);
  memcpy(c->nonce, msg.nonce.data, msg.nonce.len);
  c->nonce_len = msg.nonce.len;
  c->parser.phase = TKT_PHASE_VERDICT;
}

static inline void answer_hello(struct client *c, const char *token) {
  uint8_t answer[TKT_WIRE3_PROOF_LEN];
  assert_true(tkt_wire3_proof(tkt_span_str(token), TKT_WIRE_SINGLE, tkt_wire3_single_identity,
                              TKT_SLOT_NONE, tkt_span(c->nonce, c->nonce_len), answer));
  send_bytes(c, answer, sizeof answer);
}

static inline void expect_verdict(struct client *c, bool accepted) {
  struct tkt_msg msg;
  assert_true(next_message(c, &msg));
  assert_int_equal(msg.kind, TKT_MSG_VERDICT);
  assert_int_equal(msg.accepted, accepted);
  c->parser.phase = TKT_PHASE_REPLIES;
}

static inline void expect_alive(struct client *c) {
  struct tkt_msg msg;
  assert_true(next_message(c, &msg));
  assert_int_equal(msg.kind, TKT_MSG_LEADER);
  assert_int_equal(msg.slot, TKT_SLOT_NONE);
}

static inline struct client *join_framed_with(struct stage *s, const char *token) {
  struct client *c = connect_framed(s);
  assert_non_null(c);
  turn(s);
  read_hello(c);
  answer_hello(c, token);
  turn(s);
  expect_verdict(c, true);
  expect_alive(c);
  return c;
}

static inline struct client *join_framed(struct stage *s) {
  return join_framed_with(s, "123");
}

/* `keys` are words with a blank between them; two or more, or a leading blank, make a set frame. */
static inline struct tkt_msg framed_request(enum tkt_msg_kind kind, uint64_t id, const char *keys) {
  struct tkt_msg msg = {.kind = kind, .id = id};
  msg.set = strchr(keys, ' ') != NULL;
  for (const char *p = keys + strspn(keys, " "); *p; p += strspn(p, " ")) {
    size_t len = strcspn(p, " ");
    assert_in_range(msg.key_count, 0, TKT_KEY_SET_MAX - 1);
    msg.keys[msg.key_count++] = tkt_span(p, len);
    p += len;
  }
  return msg;
}

static inline void ask_for(struct client *c, uint64_t id, const char *keys, uint16_t wait_s,
                           uint16_t lease_s) {
  struct tkt_msg msg = framed_request(TKT_MSG_ACQUIRE, id, keys);
  msg.wait_s = wait_s;
  msg.lease_s = lease_s;
  send_message(c, &msg);
}

static inline void give_back_all(struct client *c, uint64_t id, const char *keys, uint64_t token) {
  struct tkt_msg msg = framed_request(TKT_MSG_RELEASE, id, keys);
  msg.token = token;
  send_message(c, &msg);
}

static inline struct tkt_msg expect_framed_(struct client *c, enum tkt_msg_kind kind, uint64_t id,
                                            bool set, const char *file, int line) {
  struct tkt_msg msg = expect_kind_(c, kind, file, line);
  _assert_int_equal(msg.id, id, file, line);
  if (kind == TKT_MSG_GRANTED || kind == TKT_MSG_RELEASED)
    _assert_int_equal(msg.set, set, file, line);
  return msg;
}
#define expect_reply_to(c, kind, id) expect_framed_(c, kind, id, false, __FILE__, __LINE__)
static inline uint64_t expect_token_(struct client *c, uint64_t id, bool set, const char *file,
                                     int line) {
  return expect_framed_(c, TKT_MSG_GRANTED, id, set, file, line).token;
}
#define expect_single_granted(c, id) expect_token_(c, id, false, __FILE__, __LINE__)
#define expect_set_granted(c, id) expect_token_(c, id, true, __FILE__, __LINE__)
#define expect_single_released(c, id)                                                              \
  expect_framed_(c, TKT_MSG_RELEASED, id, false, __FILE__, __LINE__)
#define expect_set_released(c, id) expect_framed_(c, TKT_MSG_RELEASED, id, true, __FILE__, __LINE__)
#define expect_error_to(c, id, code)                                                               \
  assert_int_equal(expect_framed_(c, TKT_MSG_ERROR, id, false, __FILE__, __LINE__).error, code)

/* Acquire free keys in a turn of its own. */
static inline uint64_t take_all(struct client *c, uint64_t id, const char *keys, uint16_t lease_s) {
  ask_for(c, id, keys, 0, lease_s);
  turn(c->stage);
  return expect_token_(c, id, strchr(keys, ' ') != NULL, __FILE__, __LINE__);
}

/* Nothing of any request is left in the engine. */
static inline void assert_empty(const struct tkt_server *server) {
  assert_int_equal(server->stats.waiters, 0);
  assert_int_equal(server->stats.keys_held, 0);
  assert_int_equal(server->locks.count, 0);
  assert_int_equal(server->owners.count, 0);
  assert_int_equal(server->ids.count, 0);
  assert_int_equal(server->release_ids.count, 0);
  assert_int_equal(server->sets.count, 0);
  assert_int_equal(server->waiter_pool.used, 0);
  assert_int_equal(server->waiter_set_pool.used, 0);
  assert_int_equal(server->grant_pool.used, 0);
  assert_int_equal(server->grant_set_pool.used, 0);
  assert_int_equal(server->set_pool.used, 0);
  assert_int_equal(server->release_pool.used, 0);
}

#endif
