/* A client engine, a driver and a scripted server in one place, over bytes in memory.
 *
 * The fixture plays the driver: `turn` ticks and carries out what the sessions want, until nothing
 * is left to do. What a session sent is read with `server_next`, what it receives is said with
 * `server_say` and its shorthands. Time only moves by `pass`. Sessions are numbered in the order of
 * their dials. */
#ifndef TKT_TESTS_UNIT_CLIENT_FIXTURE_H
#define TKT_TESTS_UNIT_CLIENT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/client.h"
#include "client/explain.h"
#include "wire/parser.h"
#include "wire/proof.h"

enum { FIX_PEERS = 512 };
#define FIX_START (INT64_C(1000) * TKT_S)
#define FIX_EXTREME INT64_MAX

/* One connection, seen from the server. */
struct peer {
  struct tkt_session *session; /* NULL once closed */
  bool connected;
  bool shut;      /* the client shut its write side */
  bool closed;    /* the client closed it */
  bool last_read; /* it asked for a last read before */
  size_t room;    /* bytes the kernel still takes */
  bool tls;       /* the whole chunk counts as handed before it is written */
  bool mute;      /* an AGAIN is not reported to the engine */
  struct tkt_buf received;
  struct tkt_buf unread; /* arrives only with the last read */
  struct tkt_parser parser;
  bool parsing;
  const struct tkt_wire *wire;
  int64_t dialled_at;
  size_t address;
};

struct fixture {
  struct tkt_client *client;
  struct tkt_client_config config;
  const char *addresses[TKT_ADDRESS_COUNT_MAX];
  int64_t now;
  struct peer peers[FIX_PEERS];
  size_t peer_count;
  bool refuse;          /* connects fail */
  bool silent;          /* connects never finish */
  const char *greeting; /* sent at once after a connect; NULL: nothing */
  const char *welcome;  /* sent after the proof; NULL: nothing */
  unsigned
      speaks[TKT_ADDRESS_COUNT_MAX]; /* wire of each address; 0: wire 2. On wire 3 the hello: */
  uint8_t mode;
  int slot;    /* -1: the address's place, or none in single mode */
  int verdict; /* 1 or 0, said after the proof; -1: nothing is said */
  int turns;
};

static inline struct peer *fix_peer_of(struct fixture *f, struct tkt_session *s) {
  return &f->peers[(size_t)(uintptr_t)tkt_session_stream(s) - 1];
}

static inline void server_bytes(struct fixture *f, size_t peer, const void *data, size_t len) {
  struct peer *p = &f->peers[peer];
  assert_non_null(p->session);
  tkt_session_input(p->session, tkt_span(data, len), f->now);
}

static const char fix_nonce[] = "0123456789abcdef";

/* What a server of wire 3 says first. */
static inline struct tkt_msg hello_msg(const struct fixture *f, size_t address) {
  struct tkt_msg msg;
  memset(&msg, 0, sizeof msg);
  msg.kind = TKT_MSG_GREETING;
  msg.mode = f->mode;
  msg.slot = (uint8_t)(f->mode == TKT_WIRE_CLUSTER ? address : TKT_SLOT_NONE);
  if (f->slot >= 0) msg.slot = (uint8_t)f->slot;
  msg.nonce = tkt_span_str(fix_nonce);
  return msg;
}

static inline void server_hello(struct fixture *f, size_t peer) {
  uint8_t bytes[64];
  struct tkt_msg msg = hello_msg(f, f->peers[peer].address);
  assert_true(tkt_wire3.encoded_size(&msg) <= sizeof bytes);
  tkt_wire3.encode(&msg, bytes);
  server_bytes(f, peer, bytes, tkt_wire3.encoded_size(&msg));
}

static inline void server_verdict(struct fixture *f, size_t peer, int verdict) {
  uint8_t byte = (uint8_t)verdict;
  server_bytes(f, peer, &byte, 1);
}

static inline void server_text(struct fixture *f, size_t peer, const char *text) {
  server_bytes(f, peer, text, strlen(text));
}

static inline void fix_connect(struct fixture *f, struct tkt_session *s) {
  assert_true(f->peer_count < FIX_PEERS);
  struct peer *p = &f->peers[f->peer_count++];
  memset(p, 0, sizeof *p);
  p->session = s;
  p->room = SIZE_MAX;
  p->dialled_at = f->now;
  p->address = tkt_session_address(s);
  p->wire = f->speaks[p->address] == 3 ? &tkt_wire3 : &tkt_wire2;
  tkt_session_set_stream(s, (void *)(uintptr_t)f->peer_count);
  if (f->silent) return;
  if (f->refuse) {
    tkt_session_failed(s, "connection refused", f->now);
    return;
  }
  p->connected = true;
  tkt_session_connected(s, f->now);
  if (f->greeting && p->wire == &tkt_wire3)
    server_hello(f, f->peer_count - 1);
  else if (f->greeting)
    server_text(f, f->peer_count - 1, f->greeting);
}

static inline void fix_write(struct fixture *f, struct tkt_session *s) {
  struct peer *p = fix_peer_of(f, s);
  bool proof = tkt_buf_len(&p->received) == 0 && !p->parsing;
  struct tkt_span out = tkt_session_output(s, f->now);
  if (out.len == 0) return;
  if (p->tls) tkt_session_handed(s, out.len);
  size_t n = out.len < p->room ? out.len : p->room;
  if (n == 0 && p->mute) return;
  uint8_t *room = tkt_buf_reserve(&p->received, n, SIZE_MAX);
  memcpy(room, out.data, n);
  tkt_buf_commit(&p->received, n);
  if (p->room != SIZE_MAX) p->room -= n;
  tkt_session_handed(s, n);
  tkt_session_written(s, n, f->now);
  if (!proof || n < out.len || !p->session) return;
  if (p->wire == &tkt_wire2 && f->welcome) server_text(f, (size_t)(p - f->peers), f->welcome);
  if (p->wire == &tkt_wire3 && f->verdict >= 0)
    server_verdict(f, (size_t)(p - f->peers), f->verdict);
}

static inline void fix_close(struct fixture *f, struct tkt_session *s, bool last_read) {
  if (!tkt_session_stream(s)) { /* it ended before it was dialled */
    tkt_session_closed(s, f->now);
    return;
  }
  struct peer *p = fix_peer_of(f, s);
  p->closed = true;
  p->last_read = last_read;
  if (last_read && tkt_buf_len(&p->unread)) tkt_session_input(s, tkt_buf_span(&p->unread), f->now);
  p->session = NULL;
  tkt_session_closed(s, f->now);
}

/* One session that wants something; false: none does. */
static inline bool fix_step(struct fixture *f) {
  struct tkt_session *s = tkt_client_next_dirty(f->client);
  if (!s) return false;
  unsigned wants = tkt_session_wants(s);
  assert_true(++f->turns < 1000000); /* the engine must come to rest */
  if (wants & TKT_WANT_CLOSE) {
    fix_close(f, s, wants & TKT_WANT_LAST_READ);
    return true;
  }
  if (wants & TKT_WANT_CONNECT) fix_connect(f, s);
  if (wants & TKT_WANT_WRITE) fix_write(f, s);
  if (wants & TKT_WANT_SHUT) fix_peer_of(f, s)->shut = true;
  return true;
}

static inline void turn(struct fixture *f) {
  tkt_client_tick(f->client, f->now);
  f->turns = 0;
  while (fix_step(f)) {
  }
}

/* Lets time pass in the steps the engine asks for, as a driver that sleeps would. */
static inline void pass(struct fixture *f, int64_t ns) {
  int64_t until = f->now + ns;
  for (int steps = 0;; steps++) {
    assert_true(steps < 100000); /* it may not spin */
    int64_t next = tkt_client_next_deadline(f->client);
    if (next >= until) break;
    if (next > f->now) f->now = next;
    turn(f);
  }
  f->now = until;
  turn(f);
}

/* The kernel takes `room` more bytes and says so. */
static inline void unblock(struct fixture *f, size_t peer, size_t room) {
  f->peers[peer].room = room;
  if (tkt_session_wants(f->peers[peer].session) & TKT_WANT_WRITE)
    fix_write(f, f->peers[peer].session);
  turn(f);
}

static inline void fix_init(struct fixture *f) {
  memset(f, 0, sizeof *f);
  f->now = FIX_START;
  f->greeting = "cluster nonce-1\n";
  f->welcome = "\n";
  f->addresses[0] = "127.0.0.1:5225";
  f->config.addresses = f->addresses;
  f->config.address_count = 1;
  f->config.max_in_flight = TKT_IN_FLIGHT_DEFAULT;
  f->config.max_unsent = TKT_UNSENT_DEFAULT;
  f->config.seed[0] = 42;
  f->slot = -1;
  f->verdict = 1;
}

static inline void fix_new(struct fixture *f) {
  f->client = tkt_client_new(&f->config, f->now);
  assert_non_null(f->client);
}

/* Ready for use: sessions 0 and 1 are usable. */
static inline void fix_start(struct fixture *f) {
  fix_init(f);
  fix_new(f);
  turn(f);
  assert_true(tkt_client_usable(f->client));
}

/* The same with several addresses of one cluster; session i belongs to address i. */
static inline void fix_start_cluster(struct fixture *f, size_t count) {
  static const char *const names[] = {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"};
  fix_init(f);
  for (size_t i = 0; i < count; i++)
    f->addresses[i] = names[i];
  f->config.address_count = count;
  fix_new(f);
  turn(f);
}

/* One server of wire 3, alone; sessions 0 and 1 are usable. */
static inline void fix_start_framed(struct fixture *f) {
  fix_init(f);
  f->speaks[0] = 3;
  fix_new(f);
  turn(f);
  assert_true(tkt_client_usable(f->client));
}

static const uint8_t fix_identity[TKT_WIRE3_IDENTITY_LEN] = "the identity of this cluster...";

/* A cluster of 3 or 5 on wire 3; session i belongs to address i. */
static inline void fix_init_framed_cluster(struct fixture *f, size_t count) {
  static const char *const names[] = {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4",
                                      "127.0.0.1:5"};
  fix_init(f);
  for (size_t i = 0; i < count; i++) {
    f->addresses[i] = names[i];
    f->speaks[i] = 3;
  }
  f->config.address_count = count;
  f->config.identity = fix_identity;
  f->mode = TKT_WIRE_CLUSTER;
}

static inline void fix_start_framed_cluster(struct fixture *f, size_t count) {
  fix_init_framed_cluster(f, count);
  fix_new(f);
  turn(f);
  assert_true(tkt_client_usable(f->client));
}

static inline void fix_end(struct fixture *f) {
  for (size_t i = 0; i < f->peer_count; i++) {
    tkt_buf_release(&f->peers[i].received);
    tkt_buf_release(&f->peers[i].unread);
    if (f->peers[i].parsing) tkt_parser_release(&f->peers[i].parser);
  }
  tkt_client_free(f->client);
}

/* --- the server's mouth and ears -----------------------------------------------------------------
 */

static inline void fix_encode(const struct tkt_wire *wire, const struct tkt_msg *msg,
                              struct tkt_buf *out) {
  assert_true(tkt_wire_append(wire, msg, out, SIZE_MAX));
}

static inline void server_say(struct fixture *f, size_t peer, const struct tkt_msg *msg) {
  struct tkt_buf out = {0};
  fix_encode(f->peers[peer].wire, msg, &out);
  struct tkt_span bytes = tkt_buf_span(&out);
  server_bytes(f, peer, bytes.data, bytes.len);
  tkt_buf_release(&out);
}

static inline struct tkt_msg reply_msg(enum tkt_msg_kind kind, uint64_t id, uint64_t token,
                                       const char *key) {
  struct tkt_msg msg;
  memset(&msg, 0, sizeof msg);
  msg.kind = kind;
  msg.id = id;
  msg.token = token;
  msg.key_count = 1;
  msg.keys[0] = tkt_span_str(key);
  return msg;
}

static inline void reply(struct fixture *f, size_t peer, enum tkt_msg_kind kind, uint64_t id,
                         uint64_t token, const char *key) {
  struct tkt_msg msg = reply_msg(kind, id, token, key);
  server_say(f, peer, &msg);
}

/* Wire 3: any reply to a request by its id; `set` for S and G, `slot` for M and L. */
static inline void reply_id(struct fixture *f, size_t peer, enum tkt_msg_kind kind, uint64_t id,
                            uint64_t token, bool set, uint8_t slot) {
  struct tkt_msg msg = reply_msg(kind, id, token, "");
  msg.set = set;
  msg.slot = slot;
  server_say(f, peer, &msg);
}

static inline void reply_error(struct fixture *f, size_t peer, uint64_t id,
                               enum tkt_wire_error error) {
  struct tkt_msg msg = reply_msg(TKT_MSG_ERROR, id, 0, "");
  msg.error = error;
  server_say(f, peer, &msg);
}

/* What is readable only when the client reads for the last time. */
static inline void reply_unread(struct fixture *f, size_t peer, enum tkt_msg_kind kind, uint64_t id,
                                uint64_t token, const char *key) {
  struct tkt_msg msg = reply_msg(kind, id, token, key);
  fix_encode(f->peers[peer].wire, &msg, &f->peers[peer].unread);
}

/* The next whole request the session sent; false: none. Spans are good until the next call. */
static inline bool server_next(struct fixture *f, size_t peer, struct tkt_msg *msg) {
  struct peer *p = &f->peers[peer];
  if (!p->parsing) {
    tkt_parser_init(&p->parser, p->wire, TKT_PHASE_PROOF);
    p->parsing = true;
  }
  for (;;) {
    size_t used = 0;
    struct tkt_span bytes = tkt_buf_span(&p->received);
    enum tkt_decode got = p->wire->decode(p->parser.phase, bytes, msg, &used);
    if (got == TKT_DECODE_MORE) return false;
    assert_int_equal(got, TKT_DECODE_OK);
    p->received.start += used; /* the bytes stay where the spans point */
    if (msg->kind != TKT_MSG_PROOF) return true;
    p->parser.phase = TKT_PHASE_REQUESTS;
  }
}

/* The next request, which must be of this kind. */
static inline struct tkt_msg expect_request(struct fixture *f, size_t peer,
                                            enum tkt_msg_kind kind) {
  struct tkt_msg msg;
  assert_true(server_next(f, peer, &msg));
  assert_int_equal(msg.kind, kind);
  return msg;
}

static inline void expect_silence(struct fixture *f, size_t peer) {
  struct tkt_msg msg;
  assert_false(server_next(f, peer, &msg));
}

/* The session on which the next request (of any) was sent, and the request. */
static inline size_t find_request(struct fixture *f, struct tkt_msg *msg) {
  for (size_t i = 0; i < f->peer_count; i++)
    if (server_next(f, i, msg)) return i;
  fail_msg("no session sent a request");
  return 0;
}

static inline size_t requests_left(struct fixture *f) {
  size_t n = 0;
  struct tkt_msg msg;
  for (size_t i = 0; i < f->peer_count; i++)
    while (server_next(f, i, &msg))
      n++;
  return n;
}

/* --- the caller ----------------------------------------------------------------------------------
 */

/* Starts an acquire; wait, lease in s, budget in ns. Nothing is sent before the next turn. */
static inline void acquire_budget(struct fixture *f, struct tkt_call *call, const char *key,
                                  int wait, int lease, int64_t budget_ns) {
  struct tkt_span span = tkt_span_str(key);
  struct tkt_acquire_args args = {&span, 1, wait * TKT_S, lease * TKT_S, budget_ns};
  struct tkt_acquire_plan plan;
  char why[TKT_REFUSAL_SIZE];
  assert_int_equal(tkt_acquire_check(&args, &plan, why), TKT_OK);
  memset(call, 0, sizeof *call);
  tkt_client_acquire(f->client, call, &plan, f->now);
}

/* The same for several keys. */
static inline void acquire_set(struct fixture *f, struct tkt_call *call, const char *const *keys,
                               size_t count, int wait, int lease) {
  struct tkt_span spans[TKT_KEY_SET_MAX];
  for (size_t i = 0; i < count; i++)
    spans[i] = tkt_span_str(keys[i]);
  struct tkt_acquire_args args = {spans, count, wait * TKT_S, lease * TKT_S, 0};
  struct tkt_acquire_plan plan;
  char why[TKT_REFUSAL_SIZE];
  assert_int_equal(tkt_acquire_check(&args, &plan, why), TKT_OK);
  memset(call, 0, sizeof *call);
  tkt_client_acquire(f->client, call, &plan, f->now);
}

static inline void acquire(struct fixture *f, struct tkt_call *call, const char *key, int wait,
                           int lease) {
  acquire_budget(f, call, key, wait, lease, 0);
}

/* Starts and sends it; returns the session, *msg the request. */
static inline size_t send_acquire(struct fixture *f, struct tkt_call *call, const char *key,
                                  int wait, int lease, struct tkt_msg *msg) {
  acquire(f, call, key, wait, lease);
  turn(f);
  size_t peer = find_request(f, msg);
  assert_int_equal(msg->kind, TKT_MSG_ACQUIRE);
  return peer;
}

/* A ticket, granted and taken. */
static inline struct tkt_ticket *hold(struct fixture *f, const char *key, uint64_t token) {
  struct tkt_call call;
  struct tkt_msg msg;
  struct tkt_ticket *ticket = NULL;
  size_t peer = send_acquire(f, &call, key, 5, 60, &msg);
  reply(f, peer, TKT_MSG_GRANTED, msg.id, token, key);
  assert_int_equal(tkt_client_take(f->client, &call, f->now, &ticket), TKT_OK);
  assert_ptr_equal(tkt_client_next_done(f->client), &call);
  return ticket;
}

static inline void start_release(struct fixture *f, struct tkt_call *call,
                                 struct tkt_ticket *ticket) {
  memset(call, 0, sizeof *call);
  tkt_client_release(f->client, call, ticket, f->now);
}

static inline void start_release_exact(struct fixture *f, struct tkt_call *call, const char *key,
                                       uint64_t token) {
  struct tkt_span span = tkt_span_str(key);
  memset(call, 0, sizeof *call);
  tkt_client_release_exact(f->client, call, &span, 1, token, f->now);
}

static inline uint64_t counter(struct fixture *f, const char *name) {
  struct tkt_counter counters[64];
  size_t n = tkt_client_counters(f->client, counters, 64);
  assert_true(n <= 64);
  for (size_t i = 0; i < n; i++)
    if (strcmp(counters[i].name, name) == 0) return counters[i].value;
  fail_msg("no counter %s", name);
  return 0;
}

/* Sessions the client has not closed. */
static inline size_t open_sessions(const struct fixture *f) {
  size_t n = 0;
  for (size_t i = 0; i < f->peer_count; i++)
    n += f->peers[i].session != NULL;
  return n;
}

#define TEST(name) cmocka_unit_test(name)

#endif
