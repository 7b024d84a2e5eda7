/* The server engine with each allocation refused in turn: a refused request is answered B or ends
 * its session, no grant is left behind, and the same server serves once memory is back. The script
 * below allocates nothing itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "server/server.h"
#include "unit/allocation/allocator.h"
#include "wire/parser.h"
#include "wire/proof.h"
#include "wire/wire2.h"

enum { PEERS = 6, KEYS = 30, INPUT_MAX = 1 << 15, TURNS_MAX = 1000 };

/* A client that keeps what it got. */
struct peer {
  struct tkt_peer *peer; /* NULL: closed, or never taken */
  size_t len;
  uint8_t got[INPUT_MAX];
};

struct script {
  struct tkt_server *server;
  int64_t now;
  uint64_t owner;
  uint64_t lost; /* requests that never got a reply because their session ended */
  struct peer peers[PEERS];
};

static bool nonce(void *context, uint8_t *out, size_t len) {
  (void)context;
  memset(out, 7, len);
  return true;
}

static void write_out(struct script *s, struct tkt_peer *peer) {
  struct peer *p = tkt_peer_connection(peer);
  if (tkt_peer_wants(peer) & TKT_PEER_WRITE) {
    struct tkt_span out = tkt_peer_output(peer);
    assert_true(p->len + out.len <= INPUT_MAX);
    memcpy(p->got + p->len, out.data, out.len);
    p->len += out.len;
    tkt_server_sent(s->server, peer, out.len);
  }
  if (tkt_peer_wants(peer) & TKT_PEER_CLOSE) {
    tkt_server_closed(s->server, peer, s->now);
    p->peer = NULL;
  }
}

static void turn(struct script *s) {
  for (int i = 0; i == 0 || tkt_server_next_deadline(s->server) <= s->now; i++) {
    assert_true(i < TURNS_MAX); /* it does not spin for want of memory */
    tkt_server_turn(s->server, s->now);
    for (struct tkt_peer *peer; (peer = tkt_server_next_dirty(s->server));)
      write_out(s, peer);
  }
}

static void pass(struct script *s, int64_t length) {
  int64_t until = s->now + length;
  while (s->now < until) {
    int64_t next = tkt_server_next_deadline(s->server);
    s->now = next < until ? next : until;
    turn(s);
  }
}

static void say(struct script *s, struct peer *p, const void *bytes, size_t len) {
  if (!p->peer) return;
  tkt_server_input(s->server, p->peer, tkt_span(bytes, len / 2), s->now);
  tkt_server_input(s->server, p->peer, tkt_span((const char *)bytes + len / 2, len - len / 2),
                   s->now);
}

/* A session that proves itself; false where there was no memory for it. */
static bool enter(struct script *s, struct peer *p) {
  *p = (struct peer){.peer = tkt_server_accept(s->server, &tkt_wire2, p, s->now)};
  if (!p->peer) return false;
  turn(s);
  struct tkt_msg greeting;
  size_t used = 0;
  char line[TKT_WIRE2_PROOF_LEN + 1];
  if (!p->peer || tkt_wire2.decode(TKT_PHASE_GREETING, tkt_span(p->got, p->len), &greeting,
                                   &used) != TKT_DECODE_OK)
    return false;
  assert_true(tkt_wire2_proof(tkt_span_str("secret"), greeting.nonce, line));
  line[TKT_WIRE2_PROOF_LEN] = '\n';
  p->len = 0;
  say(s, p, line, sizeof line);
  turn(s);
  return p->peer && p->len == 1;
}

static void request(struct script *s, struct peer *p, const struct tkt_msg *msg) {
  uint8_t frame[TKT_WIRE2_LINE_MAX];
  size_t size = tkt_wire2.encoded_size(msg);
  tkt_wire2.encode(msg, frame);
  say(s, p, frame, size);
}

static void ask(struct script *s, struct peer *p, int key, uint16_t wait, uint16_t lease) {
  char text[64];
  snprintf(text, sizeof text, "key-%d%s", key, key % 3 ? "" : "-of-another-size-class-0123456789");
  struct tkt_msg msg = {.kind = TKT_MSG_ACQUIRE,
                        .id = ++s->owner,
                        .wait_s = wait,
                        .lease_s = lease,
                        .key_count = 1,
                        .keys = {tkt_span_str(text)}};
  request(s, p, &msg);
}

/* Releases every grant that `p` was told, and counts the replies. */
static size_t release_all(struct script *s, struct peer *p) {
  static uint8_t told[INPUT_MAX];
  size_t len = p->len, replies = 0;
  memcpy(told, p->got, len);
  p->len = 0;
  for (size_t at = 0, used; at < len; at += used, replies++) {
    struct tkt_msg msg;
    assert_int_equal(
        tkt_wire2.decode(TKT_PHASE_REPLIES, tkt_span(told + at, len - at), &msg, &used),
        TKT_DECODE_OK);
    if (msg.kind != TKT_MSG_GRANTED) continue;
    msg.kind = TKT_MSG_RELEASE;
    request(s, p, &msg);
  }
  return replies;
}

static void everybody_asks(struct script *s) {
  for (int i = 0; i < PEERS; i++)
    enter(s, &s->peers[i]);
  for (int key = 0; key < KEYS; key++)
    for (int i = 0; i < PEERS; i++)
      ask(s, &s->peers[i], key, (uint16_t)(key % 4), 20);
  turn(s);
  for (int round = 0; round < 12; round++) {
    for (int i = 0; i < PEERS; i++)
      release_all(s, &s->peers[i]);
    if (round == 3 && s->peers[0].peer) tkt_server_gone(s->server, s->peers[0].peer, s->now);
    if (round == 5 && s->peers[1].peer) tkt_server_eof(s->server, s->peers[1].peer, s->now);
    pass(s, 700 * TKT_MS);
  }
}

/* Memory is back: whoever comes is served. */
static void require_serves(struct script *s) {
  pass(s, 30 * TKT_S); /* what was granted to nobody runs out */
  assert_int_equal(tkt_server_stats(s->server).keys_held, 0);
  struct peer *p = &s->peers[0];
  if (p->peer) {
    tkt_server_gone(s->server, p->peer, s->now);
    turn(s);
  }
  assert_true(enter(s, p));
  p->len = 0;
  for (int key = 0; key < KEYS; key++)
    ask(s, p, key, 1, 20);
  turn(s);
  assert_int_equal(tkt_server_stats(s->server).keys_held, KEYS);
  assert_int_equal(release_all(s, p), KEYS);
  turn(s);
  assert_int_equal(tkt_server_stats(s->server).keys_held, 0);
}

static void whole_flow(void *context) {
  struct script *s = context;
  memset(s, 0, sizeof *s);
  s->now = 1000 * TKT_S;
  struct tkt_client_token tokens[] = {{"old", tkt_span_str("secret")},
                                      {"new", tkt_span_str("another")}};
  struct tkt_server_config config = {.limits = tkt_server_limits_default,
                                     .tokens = tokens,
                                     .token_count = 1,
                                     .first_token = 100,
                                     .storage = &tkt_memory_storage,
                                     .nonce = nonce};
  s->server = tkt_server_new(&config, s->now);
  if (!s->server) {
    assert_true(allocator_restore());
    return;
  }
  everybody_asks(s);
  tkt_server_replace_tokens(s->server, tokens, 2); /* or the old ones stay: both know "secret" */
  allocator_restore();
  require_serves(s);
  tkt_server_drain(s->server, s->now);
  pass(s, 60 * TKT_S);
  assert_true(tkt_server_drained(s->server));
  tkt_server_free(s->server);
}

static void server_survives_every_refused_allocation(void **state) {
  (void)state;
  static struct script script;
  size_t n = allocator_try_each(whole_flow, &script);
  print_message("%zu allocations\n", n);
  assert_in_range(n, 20, 100000);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(server_survives_every_refused_allocation)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
