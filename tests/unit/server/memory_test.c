/* What the engine takes from the allocator: nothing in the steady state, little for what is idle or
 * held, and any refusal of it ends in an answer, never in a crash or a leak. */
#include "unit/server/stage.h"

#include "server/state.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLAIN_ALLOCATOR 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PLAIN_ALLOCATOR 0
#endif
#endif
#ifndef PLAIN_ALLOCATOR
#define PLAIN_ALLOCATOR 1
#endif

static void idle_session_is_under_1_kib(void **state) {
  (void)state;
  assert_true(sizeof(struct tkt_peer) <= 1024);
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  take(a, 1, "k", 10);
  assert_null(a->peer->out.data); /* no output, no memory for it */
  stage_close(&s);
}

#if PLAIN_ALLOCATOR

/* The allocator of this program, counted and made to fail on request. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void __libc_free(void *block);

static bool counting;
static size_t calls, fail_at; /* fail_at 0: never; else that call fails, once */
static size_t live_bytes;

static bool refused(void) {
  if (!counting) return false;
  calls++;
  return fail_at != 0 && calls == fail_at;
}

void *malloc(size_t size) {
  if (refused()) return NULL;
  if (counting) live_bytes += size;
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  if (refused()) return NULL;
  if (counting) live_bytes += count * size;
  return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
  if (refused()) return NULL;
  if (counting) live_bytes += size;
  return __libc_realloc(old, size);
}

void free(void *block) {
  __libc_free(block);
}

/* Bytes that need not be written out for a test of memory. */
static void drop_output(struct stage *s) {
  tkt_server_turn(s->server, s->now);
  for (struct tkt_peer *peer; (peer = tkt_server_next_dirty(s->server));)
    tkt_server_sent(s->server, peer, tkt_peer_output(peer).len);
}

static void steady_state_allocates_nothing(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  enum { BUSY = 40, ROUNDS = 300 };
  struct client *clients[BUSY];
  for (size_t i = 0; i < BUSY; i++)
    clients[i] = join(&s);
  uint64_t owner = 1;
  for (int round = 0; round < ROUNDS; round++) {
    if (round == ROUNDS / 2) {
      calls = 0;
      counting = true;
    }
    s.storage.count = 0;
    uint64_t first = s.server->next_token;
    for (size_t i = 0; i < BUSY; i++) {
      char key[40];
      snprintf(key, sizeof key, "a key of the steady state %zu", i % 7);
      for (char *c = key; *c; c++)
        if (*c == ' ') *c = '-';
      for (int j = 0; j < 3; j++)
        ask(clients[i], owner++, key, 60, 10);
    }
    drop_output(&s);
    /* Every token that comes up is released until nobody waits. */
    for (uint64_t token = first; token < s.server->next_token; token++) {
      for (size_t k = 0; k < 7; k++) {
        char key[40];
        snprintf(key, sizeof key, "a-key-of-the-steady-state-%zu", k);
        if (holder_of(&s, key, NULL) == token) give_back(clients[token % BUSY], token, key);
      }
      drop_output(&s);
    }
    assert_int_equal(s.server->stats.keys_held, 0);
    s.now += 100 * TKT_MS;
  }
  counting = false;
  assert_int_equal(calls, 0);
  stage_close(&s);
}

static void held_key_is_at_most_160_bytes_beyond_the_key(void **state) {
  (void)state;
  struct stage s;
  stage_open(&s);
  struct client *a = join(&s);
  enum { HELD = 200000 };
  size_t key_bytes = 0;
  live_bytes = 0;
  calls = 0;
  size_t pool_keys = 0, pool_grants = 0;
  for (uint64_t i = 0; i < HELD; i++) {
    char key[32];
    key_bytes += (size_t)snprintf(key, sizeof key, "order:%llu", (unsigned long long)i);
    ask(a, i + 1, key, 0, 250);
    if (i % 500 == 499) drop_output(&s);
    s.storage.count = 0;
  }
  drop_output(&s);
  assert_int_equal(s.server->stats.keys_held, HELD);
  for (size_t c = 0; c < TKT_KEY_CLASSES; c++)
    pool_keys += s.server->lock_pools[c].used * s.server->lock_pools[c].object_size;
  pool_grants = s.server->grant_pool.used * s.server->grant_pool.object_size;
  size_t buckets = 0;
  for (size_t segment = 0; segment < TKT_TABLE_SEGMENTS; segment++)
    if (s.server->locks.segments[segment])
      buckets += (segment ? (size_t)8 << segment : 16) * sizeof(void *);
  double each = (double)(pool_keys + pool_grants + buckets - key_bytes) / HELD;
  print_message("held key: %.0f bytes beyond the key\n", each);
  assert_true(each <= 160);
  assert_int_equal(s.server->waiter_pool.used, 0);
  stage_close(&s);
}

/* A flow through everything: handshake, queue, same owner, release, expiry, take-back, ends. Any
 * step may be refused for lack of memory; `reached` tells how far the allocator was called. */
static void whole_flow(void) {
  struct stage s;
  stage_prepare(&s);
  struct tkt_client_token token = {"label", tkt_span_str("secret")};
  s.config.tokens = &token;
  s.config.token_count = 1;
  calls = 0;
  counting = true;
  s.server = tkt_server_new(&s.config, s.now);
  counting = false;
  if (!s.server) return;
  struct tkt_peer *peers[4];
  static uint8_t sink[4];
  uint8_t frame[512];
  for (size_t i = 0; i < 4; i++) {
    counting = true;
    peers[i] = tkt_server_accept(s.server, &tkt_wire2, &sink[i], s.now);
    counting = false;
    if (!peers[i]) continue;
    char line[TKT_WIRE2_PROOF_LEN + 1];
    assert_true(tkt_wire2_proof(tkt_span_str("secret"), tkt_span(peers[i]->nonce, 22), line));
    line[TKT_WIRE2_PROOF_LEN] = '\n';
    counting = true;
    tkt_server_input(s.server, peers[i], tkt_span(line, sizeof line), s.now);
    counting = false;
  }
  for (int round = 0; round < 12; round++) {
    for (size_t i = 0; i < 4; i++) {
      if (!peers[i]) continue;
      for (uint64_t k = 0; k < 40; k++) {
        char key[64];
        snprintf(key, sizeof key, "key-%llu-%s", (unsigned long long)(k % 9),
                 k % 2 ? "long-enough-for-another-size-class" : "");
        struct tkt_msg msg = {.kind = TKT_MSG_ACQUIRE,
                              .id = i * 40 + k + (uint64_t)(round % 3) * 7 + 1,
                              .wait_s = (uint16_t)(k % 4),
                              .lease_s = (uint16_t)(1 + round),
                              .key_count = 1,
                              .keys = {tkt_span_str(key)}};
        if (k % 3 == 2) {
          msg.kind = TKT_MSG_RELEASE;
          msg.token = s.server->next_token - 1 - k % 5;
        }
        size_t size = tkt_wire2.encoded_size(&msg);
        tkt_wire2.encode(&msg, frame);
        counting = true; /* cut in the middle, so that the parser keeps a part */
        tkt_server_input(s.server, peers[i], tkt_span(frame, size / 2), s.now);
        tkt_server_input(s.server, peers[i], tkt_span(frame + size / 2, size - size / 2), s.now);
        counting = false;
      }
    }
    if (round == 5 && peers[0]) tkt_server_gone(s.server, peers[0], s.now);
    if (round == 7 && peers[1]) tkt_server_eof(s.server, peers[1], s.now);
    counting = true;
    s.now += 700 * TKT_MS;
    s.storage.count = 0;
    s.storage.answer = round % 4 == 3 ? TKT_COMMIT_FAILED : TKT_COMMIT_DONE;
    tkt_server_turn(s.server, s.now);
    for (struct tkt_peer *peer; (peer = tkt_server_next_dirty(s.server));) {
      size_t who = (size_t)((uint8_t *)tkt_peer_connection(peer) - sink);
      if (round % 3) tkt_server_sent(s.server, peer, tkt_peer_output(peer).len);
      if (tkt_peer_wants(peer) & TKT_PEER_CLOSE) {
        tkt_server_closed(s.server, peer, s.now);
        peers[who] = NULL;
      }
    }
    counting = false;
    if (round == 9) {
      counting = true;
      (void)tkt_server_replace_tokens(s.server, &token, 1);
      counting = false;
    }
  }
  tkt_server_drain(s.server, s.now);
  for (int i = 0; i < 400; i++) {
    s.now += TKT_S;
    s.storage.answer = TKT_COMMIT_DONE;
    s.storage.count = 0;
    tkt_server_turn(s.server, s.now);
    for (struct tkt_peer *peer; (peer = tkt_server_next_dirty(s.server));) {
      tkt_server_sent(s.server, peer, tkt_peer_output(peer).len);
      if (tkt_peer_wants(peer) & TKT_PEER_CLOSE) tkt_server_closed(s.server, peer, s.now);
    }
  }
  assert_true(tkt_server_drained(s.server));
  assert_int_equal(s.server->stats.keys_held, 0);
  assert_int_equal(s.server->locks.count, 0);
  assert_int_equal(s.server->waiter_pool.used, 0);
  assert_int_equal(s.server->grant_pool.used, 0);
  assert_int_equal(s.server->release_pool.used, 0);
  assert_int_equal(s.server->peer_pool.used, 0);
  tkt_server_free(s.server);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  fail_at = 0;
  whole_flow();
  size_t all = calls;
  print_message("%zu allocations\n", all);
  assert_true(all > 20);
  for (size_t n = 1; n <= all; n++) {
    fail_at = n;
    whole_flow();
  }
  fail_at = 0;
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(idle_session_is_under_1_kib),
#if PLAIN_ALLOCATOR
    cmocka_unit_test(steady_state_allocates_nothing),
    cmocka_unit_test(held_key_is_at_most_160_bytes_beyond_the_key),
    cmocka_unit_test(every_allocation_may_fail),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
