/* Plays the daemon over memory: clients without sockets, a clock that stands still until it is told
 * to move, a storage that does what the test says.
 *
 *   struct stage s;
 *   stage_open(&s);
 *   struct client *a = join(&s);
 *   ask(a, 11, "key", 5, 10);  // owner, key, wait s, lease s
 *   turn(&s);
 *   uint64_t token = expect_granted(a, 11, "key");
 *   ...
 *   stage_close(&s);
 */
#ifndef TESTS_UNIT_SERVER_STAGE_H
#define TESTS_UNIT_SERVER_STAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "server/server.h"
#include "wire/parser.h"
#include "wire/proof.h"

enum { CLIENTS_MAX = 64, BATCHES_MAX = 256, CHANGES_MAX = 4096 };

struct noted_change {
  uint64_t batch;
  enum tkt_change_kind kind;
  uint64_t token;
  int64_t lease_ns;
  size_t key_count;
  char key[TKT_KEY_MAX + 1]; /* the first */
};

/* Notes every change and answers as told. */
struct noting_storage {
  struct tkt_storage base;
  enum tkt_commit answer;
  uint64_t last_batch;
  size_t count;
  struct noted_change changes[CHANGES_MAX];
};

struct stage;

struct client {
  struct stage *stage;
  struct tkt_peer *peer; /* NULL once closed */
  struct tkt_parser parser;
  struct tkt_buf got; /* what the server sent and the test has not read */
  size_t shown;       /* of which the parser has been given */
  bool blocked;       /* the socket takes nothing */
  size_t takes;       /* most bytes the socket takes in one write; 0: all */
  bool shut;          /* the server shut its write side */
  bool closed;
  char nonce[64];
  size_t nonce_len;
};

struct stage {
  struct tkt_server_config config;
  struct noting_storage storage;
  struct tkt_server *server;
  int64_t now;
  uint64_t nonces;
  bool no_nonce;
  struct client clients[CLIENTS_MAX];
  size_t client_count;
  unsigned turns; /* made by the last call of turn */
};

static inline enum tkt_commit note_commit(struct tkt_storage *base, uint64_t batch,
                                          const struct tkt_change *changes, size_t count) {
  struct noting_storage *storage = (struct noting_storage *)(void *)base;
  assert_int_equal(batch, storage->last_batch + 1);
  assert_true(count > 0);
  storage->last_batch = batch;
  for (size_t i = 0; i < count && storage->count < CHANGES_MAX; i++) {
    struct noted_change *noted = &storage->changes[storage->count++];
    assert_in_range(changes[i].key_count, 1, TKT_KEY_SET_MAX);
    noted->batch = batch;
    noted->key_count = changes[i].key_count;
    noted->kind = changes[i].kind;
    noted->token = changes[i].token;
    noted->lease_ns = changes[i].lease_ns;
    memcpy(noted->key, changes[i].keys[0].data, changes[i].keys[0].len);
    noted->key[changes[i].keys[0].len] = 0;
  }
  return storage->answer;
}

static inline bool count_nonce(void *context, uint8_t *out, size_t len) {
  struct stage *s = context;
  memset(out, 0, len);
  s->nonces++;
  memcpy(out, &s->nonces, sizeof s->nonces < len ? sizeof s->nonces : len);
  return !s->no_nonce;
}

/* Defaults; change s->config before stage_start. */
static inline void stage_prepare(struct stage *s) {
  memset(s, 0, sizeof *s);
  s->now = 1000 * TKT_S;
  s->storage.base.commit = note_commit;
  s->storage.answer = TKT_COMMIT_DONE;
  s->config.limits = tkt_server_limits_default;
  s->config.first_token = 100;
  s->config.hash_secret = (struct tkt_hash_secret){1, 2};
  s->config.storage = &s->storage.base;
  s->config.nonce = count_nonce;
  s->config.nonce_context = s;
}

static inline void stage_start(struct stage *s) {
  s->server = tkt_server_new(&s->config, s->now);
  assert_non_null(s->server);
}

static inline void stage_open(struct stage *s) {
  stage_prepare(s);
  stage_start(s);
}

static inline void serve(struct client *c) {
  struct tkt_server *server = c->stage->server;
  unsigned wants = tkt_peer_wants(c->peer);
  if (wants & TKT_PEER_WRITE && !c->blocked) {
    struct tkt_span out = tkt_peer_output(c->peer);
    size_t n = c->takes && c->takes < out.len ? c->takes : out.len;
    uint8_t *room = tkt_buf_reserve(&c->got, n, SIZE_MAX / 2);
    assert_non_null(room);
    memcpy(room, out.data, n);
    tkt_buf_commit(&c->got, n);
    tkt_server_sent(server, c->peer, n);
    wants = tkt_peer_wants(c->peer);
  }
  if (wants & TKT_PEER_SHUT) c->shut = true;
  if (wants & TKT_PEER_CLOSE) {
    c->closed = true;
    tkt_server_closed(server, c->peer, c->stage->now);
    c->peer = NULL;
  }
}

/* One pass of the daemon's loop after input; more where the engine says there is more to do now. */
static inline void turn(struct stage *s) {
  s->turns = 0;
  do {
    assert_true(s->turns < 100); /* the engine must come to rest */
    s->turns++;
    tkt_server_turn(s->server, s->now);
    for (struct tkt_peer *peer; (peer = tkt_server_next_dirty(s->server));)
      serve(tkt_peer_connection(peer));
  } while (tkt_server_next_deadline(s->server) <= s->now);
}

static inline void advance(struct stage *s, int64_t ns) {
  s->now += ns;
  turn(s);
}

/* --- what clients do -----------------------------------------------------------------------------
 */

static inline void send_bytes(struct client *c, const void *data, size_t len) {
  assert_non_null(c->peer);
  tkt_server_input(c->stage->server, c->peer, tkt_span(data, len), c->stage->now);
}

static inline void forget_client(struct client *c) {
  tkt_parser_release(&c->parser);
  tkt_buf_release(&c->got);
}

/* A place for a client; that of a closed one only where there is no other. */
static inline struct client *client_slot(struct stage *s) {
  if (s->client_count < CLIENTS_MAX) return &s->clients[s->client_count++];
  for (size_t i = 0; i < CLIENTS_MAX; i++)
    if (!s->clients[i].peer) {
      forget_client(&s->clients[i]);
      return &s->clients[i];
    }
  fail_msg("more than %d clients", CLIENTS_MAX);
  return NULL;
}

/* NULL: refused at accept. */
static inline struct client *connect_on(struct stage *s, const struct tkt_wire *wire) {
  struct client *c = client_slot(s);
  memset(c, 0, sizeof *c);
  c->stage = s;
  tkt_parser_init(&c->parser, wire, TKT_PHASE_GREETING);
  c->peer = tkt_server_accept(s->server, wire, c, s->now);
  return c->peer ? c : NULL;
}

static inline struct client *connect_raw(struct stage *s) {
  return connect_on(s, &tkt_wire2);
}

static inline bool next_message(struct client *c, struct tkt_msg *msg) {
  if (c->shown == 0) {
    c->shown = tkt_buf_len(&c->got);
    if (c->shown == 0) return false;
    tkt_parser_push(&c->parser, tkt_buf_span(&c->got));
  }
  enum tkt_decode r = tkt_parser_next(&c->parser, msg);
  if (r == TKT_DECODE_OK) return true;
  assert_int_equal(r, TKT_DECODE_MORE);
  tkt_buf_consume(&c->got, c->shown);
  c->shown = 0;
  return tkt_buf_len(&c->got) > 0 && next_message(c, msg);
}

/* Bytes received that no message took yet. */
static inline size_t unread(const struct client *c) {
  return tkt_buf_len(&c->got) - c->shown + (c->shown ? c->parser.input.len : 0);
}

static inline void read_greeting(struct client *c) {
  struct tkt_msg msg;
  assert_true(next_message(c, &msg));
  assert_int_equal(msg.kind, TKT_MSG_GREETING);
  assert_true(tkt_span_equal(msg.text, tkt_span_str("single")));
  assert_in_range(msg.nonce.len, 22, sizeof c->nonce);
  memcpy(c->nonce, msg.nonce.data, msg.nonce.len);
  c->nonce_len = msg.nonce.len;
  c->parser.phase = TKT_PHASE_REPLIES;
}

static inline void prove(struct client *c, const char *token) {
  char line[TKT_WIRE2_PROOF_LEN + 1];
  assert_true(tkt_wire2_proof(tkt_span_str(token), tkt_span(c->nonce, c->nonce_len), line));
  line[TKT_WIRE2_PROOF_LEN] = '\n';
  send_bytes(c, line, sizeof line);
}

/* A session past its handshake. */
static inline struct client *join_with(struct stage *s, const char *token) {
  struct client *c = connect_raw(s);
  assert_non_null(c);
  turn(s);
  read_greeting(c);
  prove(c, token);
  turn(s);
  struct tkt_msg msg;
  assert_true(next_message(c, &msg));
  assert_int_equal(msg.kind, TKT_MSG_KEEPALIVE);
  return c;
}

static inline struct client *join(struct stage *s) {
  return join_with(s, "123");
}

static inline void send_message(struct client *c, const struct tkt_msg *msg) {
  uint8_t frame[2200];
  size_t size = c->parser.wire->encoded_size(msg);
  assert_in_range(size, 1, sizeof frame);
  c->parser.wire->encode(msg, frame);
  send_bytes(c, frame, size);
}

static inline void ask(struct client *c, uint64_t owner, const char *key, uint16_t wait_s,
                       uint16_t lease_s) {
  struct tkt_msg msg = {.kind = TKT_MSG_ACQUIRE,
                        .id = owner,
                        .wait_s = wait_s,
                        .lease_s = lease_s,
                        .key_count = 1,
                        .keys = {tkt_span_str(key)}};
  send_message(c, &msg);
}

static inline void give_back(struct client *c, uint64_t token, const char *key) {
  struct tkt_msg msg = {
      .kind = TKT_MSG_RELEASE, .token = token, .key_count = 1, .keys = {tkt_span_str(key)}};
  send_message(c, &msg);
}

static inline void half_close(struct client *c) {
  tkt_server_eof(c->stage->server, c->peer, c->stage->now);
}

static inline void vanish(struct client *c) {
  tkt_server_gone(c->stage->server, c->peer, c->stage->now);
}

static inline void decide(struct stage *s, uint64_t batch, enum tkt_commit result) {
  tkt_server_committed(s->server, batch, result, s->now);
  turn(s);
}

/* --- what tests expect
 * ----------------------------------------------------------------------------- */

/* Signs of life are skipped, as clients do. */
static inline bool next_reply(struct client *c, struct tkt_msg *msg) {
  while (next_message(c, msg))
    if (msg->kind != TKT_MSG_KEEPALIVE && msg->kind != TKT_MSG_LEADER) return true;
  return false;
}

static inline void expect_nothing_(struct client *c, const char *file, int line) {
  struct tkt_msg msg;
  if (!next_reply(c, &msg)) return;
  print_error("unexpected message of kind %d\n", (int)msg.kind);
  _fail(file, line);
}
#define expect_nothing(c) expect_nothing_(c, __FILE__, __LINE__)

static inline struct tkt_msg expect_kind_(struct client *c, enum tkt_msg_kind kind,
                                          const char *file, int line) {
  struct tkt_msg msg;
  bool any = next_reply(c, &msg);
  if (any && msg.kind == kind) return msg;
  print_error("expected kind %d, got %d\n", (int)kind, any ? (int)msg.kind : -1);
  _fail(file, line);
  return msg;
}

static inline void expect_key_(const struct tkt_msg *msg, const char *key, const char *file,
                               int line) {
  if (msg->key_count == 1 && tkt_span_equal(msg->keys[0], tkt_span_str(key))) return;
  print_error("reply names another key than %s\n", key);
  _fail(file, line);
}

static inline uint64_t expect_acquire_reply_(struct client *c, enum tkt_msg_kind kind,
                                             uint64_t owner, const char *key, const char *file,
                                             int line) {
  struct tkt_msg msg = expect_kind_(c, kind, file, line);
  expect_key_(&msg, key, file, line);
  _assert_int_equal(msg.id, owner, file, line);
  return kind == TKT_MSG_GRANTED ? msg.token : 0;
}
#define expect_granted(c, owner, key)                                                              \
  expect_acquire_reply_(c, TKT_MSG_GRANTED, owner, key, __FILE__, __LINE__)
#define expect_timed_out(c, owner, key)                                                            \
  expect_acquire_reply_(c, TKT_MSG_TIMED_OUT, owner, key, __FILE__, __LINE__)
#define expect_busy(c, owner, key)                                                                 \
  expect_acquire_reply_(c, TKT_MSG_BUSY, owner, key, __FILE__, __LINE__)

static inline void expect_release_reply_(struct client *c, enum tkt_msg_kind kind, uint64_t token,
                                         const char *key, const char *file, int line) {
  struct tkt_msg msg = expect_kind_(c, kind, file, line);
  expect_key_(&msg, key, file, line);
  _assert_int_equal(msg.token, token, file, line);
}
#define expect_released(c, token, key)                                                             \
  expect_release_reply_(c, TKT_MSG_RELEASED, token, key, __FILE__, __LINE__)
#define expect_not_current(c, token, key)                                                          \
  expect_release_reply_(c, TKT_MSG_NOT_CURRENT, token, key, __FILE__, __LINE__)

static inline void expect_error_(struct client *c, enum tkt_wire_error error, const char *file,
                                 int line) {
  struct tkt_msg msg = expect_kind_(c, TKT_MSG_ERROR, file, line);
  _assert_int_equal(msg.error, error, file, line);
}
#define expect_error(c, error) expect_error_(c, error, __FILE__, __LINE__)

/* Acquire a free key in a turn of its own. */
static inline uint64_t take(struct client *c, uint64_t owner, const char *key, uint16_t lease_s) {
  ask(c, owner, key, 0, lease_s);
  turn(c->stage);
  return expect_granted(c, owner, key);
}

struct held {
  const char *key;
  unsigned count;
  uint64_t token;
};

static inline bool visit_held(void *context, const struct tkt_holder *holder) {
  struct held *h = context;
  if (!tkt_span_equal(holder->key, tkt_span_str(h->key))) return true;
  h->count++;
  h->token = holder->token;
  return true;
}

/* The token that occupies `key`, 0 for none; *count_out (may be NULL): how many do. */
static inline uint64_t holder_of(struct stage *s, const char *key, unsigned *count_out) {
  struct held h = {key, 0, 0};
  tkt_server_each_holder(s->server, visit_held, &h);
  if (count_out) *count_out = h.count;
  return h.token;
}

/* Times the storage was told of this change of this token. */
static inline unsigned changes_of(const struct stage *s, enum tkt_change_kind kind,
                                  uint64_t token) {
  unsigned n = 0;
  for (size_t i = 0; i < s->storage.count; i++)
    n += s->storage.changes[i].kind == kind && s->storage.changes[i].token == token;
  return n;
}

static inline const struct noted_change *last_change(const struct stage *s) {
  return s->storage.count ? &s->storage.changes[s->storage.count - 1] : NULL;
}

static inline void stage_close(struct stage *s) {
  tkt_server_free(s->server);
  for (size_t i = 0; i < s->client_count; i++)
    forget_client(&s->clients[i]);
}

#endif
