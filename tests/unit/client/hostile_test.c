#include "base/random.h"
#include "unit/client/fixture.h"

static void m10_bad_greetings_end_the_session_with_a_reason(void **state) {
  (void)state;
  static char endless[300];
  memset(endless, 'x', sizeof endless - 1);
  const char *greetings[] = {"\n", "single\n", "single \n", "HTTP/1.1\n", endless};
  for (size_t i = 0; i < sizeof greetings / sizeof *greetings; i++) {
    struct fixture f;
    fix_init(&f);
    f.greeting = greetings[i];
    fix_new(&f);
    turn(&f);
    assert_int_equal(open_sessions(&f), 0);
    assert_int_equal(tkt_buf_len(&f.peers[0].received), 0);
    pass(&f, 30 * TKT_S);
    assert_in_range(f.peer_count, 10, 50); /* backed off, not spinning */
    fix_end(&f);
  }
}

static void m10_a_flood_of_keepalives_settles_nothing_and_costs_no_memory(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 60, 60, &msg);
  static char flood[65536];
  memset(flood, '\n', sizeof flood);
  for (int i = 0; i < 16; i++)
    server_bytes(&f, peer, flood, sizeof flood);
  turn(&f);
  assert_int_equal(call.outcome, TKT_PENDING);
  assert_int_equal(open_sessions(&f), 2);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 1, "k");
  assert_int_equal(call.outcome, TKT_OK);
  fix_end(&f);
}

static void m10_a_silent_server_ends_everything_in_time(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 9);
  struct tkt_call call, release, close = {0};
  acquire(&f, &call, "k", 10, 60);
  start_release(&f, &release, ticket);
  pass(&f, 15010 * TKT_MS);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  assert_int_equal(release.outcome, TKT_INDETERMINATE);
  tkt_client_close(f.client, &close, f.now);
  pass(&f, 5010 * TKT_MS);
  assert_int_equal(close.outcome, TKT_OK);
  fix_end(&f);
}

static void m10_a_flood_of_unasked_grants_is_bounded(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  f.refuse = true;
  struct tkt_buf flood = {0};
  for (uint64_t i = 1; i <= 5000; i++) {
    struct tkt_msg msg = reply_msg(TKT_MSG_GRANTED, i, i, "x");
    fix_encode(&tkt_wire2, &msg, &flood);
  }
  server_bytes(&f, 0, flood.data, tkt_buf_len(&flood));
  tkt_buf_release(&flood);
  assert_int_equal(counter(&f, "tickets"), 1024);
  assert_int_equal(counter(&f, "protocol_faults"), 1);
  assert_int_equal(counter(&f, "grants_left_to_their_lease"), 5000 - 1024);
  pass(&f, 20 * TKT_S);
  assert_int_equal(counter(&f, "tickets"), 0);
  fix_end(&f);
}

static void m9_grants_under_impossible_keys_are_not_sent_back(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  reply(&f, 0, TKT_MSG_GRANTED, 5, 6, "a key\x01 with spaces");
  turn(&f);
  assert_true(f.peers[0].closed);
  assert_int_equal(requests_left(&f), 0);
  fix_end(&f);
}

static void a_reply_to_a_release_never_sent_closes_the_session(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 9);
  reply(&f, 0, TKT_MSG_RELEASED, 0, 9, "k");
  turn(&f);
  assert_true(f.peers[0].closed);
  struct tkt_call call;
  start_release(&f, &call, ticket);
  assert_int_equal(call.outcome, TKT_PENDING); /* still held as far as we know */
  fix_end(&f);
}

static void one_token_for_two_acquires_is_a_fault_and_keeps_the_first(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call first, second;
  struct tkt_msg a, b;
  size_t pa = send_acquire(&f, &first, "k", 5, 60, &a);
  size_t pb = send_acquire(&f, &second, "k", 5, 60, &b);
  reply(&f, pa, TKT_MSG_GRANTED, a.id, 9, "k");
  reply(&f, pb, TKT_MSG_GRANTED, b.id, 9, "k");
  assert_int_equal(first.outcome, TKT_OK);
  assert_int_equal(second.outcome, TKT_INDETERMINATE);
  turn(&f);
  assert_true(f.peers[pb].closed);
  assert_int_equal(requests_left(&f), 0);
  fix_end(&f);
}

static void input_behind_the_end_is_ignored(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_session *s = f.peers[0].session;
  tkt_session_eof(s, f.now);
  tkt_session_input(s, tkt_span("ZZZ", 3), f.now);
  tkt_session_failed(s, "reset", f.now);
  tkt_session_eof(s, f.now);
  assert_int_equal(tkt_session_output(s, f.now).len, 0);
  tkt_session_written(s, 10, f.now);
  turn(&f);
  assert_true(f.peers[0].closed);
  fix_end(&f);
}

/* --- a random life -------------------------------------------------------------------------------
 */

enum { CALLS = 48, STEPS = 6000 };

struct life {
  struct fixture f;
  struct tkt_random random;
  struct tkt_call calls[CALLS];
  bool used[CALLS];
  bool reported[CALLS];
  struct tkt_ticket *tickets[CALLS];
  uint64_t token;
};

static uint64_t draw(struct life *l, uint64_t bound) {
  return tkt_random_below(&l->random, bound);
}

/* A caller does something to call `i`. */
static void caller(struct life *l, size_t i) {
  struct fixture *f = &l->f;
  struct tkt_call *call = &l->calls[i];
  static const char *const keys[] = {"a", "bb", "ccc"};
  if (!l->used[i]) {
    l->used[i] = true;
    l->reported[i] = false;
    if (l->tickets[i] && draw(l, 2)) {
      start_release(f, call, l->tickets[i]);
    } else {
      if (l->tickets[i]) tkt_client_drop(f->client, l->tickets[i], f->now);
      l->tickets[i] = NULL;
      int wait = (int)draw(l, 8), lease = (int)(1 + draw(l, 20));
      if (draw(l, 4) == 0)
        acquire_set(f, call, keys, 1 + draw(l, 3), wait, lease);
      else
        acquire_budget(f, call, keys[draw(l, 3)], wait, lease, 0);
    }
    return;
  }
  if (call->outcome == TKT_PENDING) {
    if (draw(l, 4) == 0) tkt_client_cancel(f->client, call, f->now);
    return;
  }
  if (!l->reported[i]) return;
  if (call->kind == TKT_CALL_ACQUIRE && call->outcome == TKT_OK && draw(l, 3)) {
    struct tkt_ticket *ticket;
    if (tkt_client_take(f->client, call, f->now, &ticket) == TKT_OK) l->tickets[i] = ticket;
  }
  tkt_client_forget(f->client, call, f->now);
  l->used[i] = false;
}

/* A server of wire 3 answers, with any reply that the request can have. */
static void answer_framed(struct life *l, size_t peer, const struct tkt_msg *msg) {
  struct fixture *f = &l->f;
  static const enum tkt_msg_kind acquire_kinds[] = {TKT_MSG_GRANTED, TKT_MSG_GRANTED,
                                                    TKT_MSG_TIMED_OUT, TKT_MSG_BUSY};
  static const enum tkt_msg_kind any_kinds[] = {TKT_MSG_MOVED, TKT_MSG_UNCERTAIN, TKT_MSG_ERROR};
  bool release = msg->kind == TKT_MSG_RELEASE;
  struct tkt_msg answer = reply_msg(TKT_MSG_RELEASED, msg->id, 0, "");
  answer.set = msg->set;
  answer.slot = (uint8_t)(f->mode == TKT_WIRE_CLUSTER ? draw(l, 4) : TKT_SLOT_NONE);
  if (answer.slot == 3) answer.slot = TKT_SLOT_NONE;
  answer.error = draw(l, 2) ? TKT_WIRE_ERROR_NO_LEADER : TKT_WIRE_ERROR_BAD_KEY;
  if (draw(l, 4) == 0)
    answer.kind = any_kinds[draw(l, 3)];
  else if (!release)
    answer.kind = acquire_kinds[draw(l, 4)];
  else if (draw(l, 4) == 0)
    answer.kind = TKT_MSG_NOT_CURRENT;
  if (answer.kind == TKT_MSG_GRANTED) answer.token = ++l->token;
  if (draw(l, 100) == 0) answer.id += draw(l, 3);
  if (draw(l, 100) == 0) answer.set = !answer.set;
  server_say(f, peer, &answer);
}

/* The server of `peer` does something, mostly sane. */
static void server(struct life *l, size_t peer) {
  struct fixture *f = &l->f;
  struct peer *p = &f->peers[peer];
  struct tkt_msg msg;
  if (!p->session) return;
  if (draw(l, 200) == 0) {
    uint8_t junk[40];
    for (size_t i = 0; i < sizeof junk; i++)
      junk[i] = (uint8_t)draw(l, 256);
    server_bytes(f, peer, junk, 1 + draw(l, sizeof junk));
    return;
  }
  if (draw(l, 150) == 0 || (p->shut && draw(l, 5) == 0)) {
    tkt_session_eof(p->session, f->now);
    return;
  }
  if (draw(l, 10) == 0) p->room = draw(l, 60);
  if (draw(l, 3) == 0) p->room = SIZE_MAX;
  if (tkt_session_wants(p->session) & TKT_WANT_WRITE && p->room) fix_write(f, p->session);
  if (!p->session || !server_next(f, peer, &msg)) return;
  if (p->wire == &tkt_wire3) {
    if (draw(l, 8)) answer_framed(l, peer, &msg);
    return;
  }
  char key[TKT_KEY_MAX + 1];
  memcpy(key, msg.keys[0].data, msg.keys[0].len);
  key[msg.keys[0].len] = 0;
  if (draw(l, 8) == 0) return; /* never answered */
  if (msg.kind == TKT_MSG_RELEASE)
    reply(f, peer, draw(l, 4) ? TKT_MSG_RELEASED : TKT_MSG_NOT_CURRENT, 0, msg.token, key);
  else if (draw(l, 3))
    reply(f, peer, TKT_MSG_GRANTED, msg.id, ++l->token, key);
  else
    reply(f, peer, draw(l, 2) ? TKT_MSG_TIMED_OUT : TKT_MSG_BUSY, msg.id, 0, key);
}

static void report(struct life *l) {
  for (struct tkt_call *call; (call = tkt_client_next_done(l->f.client));) {
    size_t i = (size_t)(call - l->calls);
    assert_true(l->used[i]);
    assert_false(l->reported[i]); /* each once */
    assert_int_not_equal(call->outcome, TKT_PENDING);
    l->reported[i] = true;
  }
}

/* Wire 2, wire 3 alone, wire 3 in a cluster, or a cluster of both. */
static void random_lives(unsigned kind) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    struct life *l = calloc(1, sizeof *l);
    struct fixture *f = &l->f;
    uint64_t words[4] = {seed, 2, 3, 4};
    tkt_random_init(&l->random, words);
    if (kind >= 2)
      fix_init_framed_cluster(f, 3);
    else
      fix_init(f);
    if (kind == 1) f->speaks[0] = 3;
    if (kind == 3) f->speaks[seed % 3] = 2;
    f->config.seed[0] = seed;
    f->config.cancel_keeps_session = seed % 2;
    f->config.max_in_flight = (uint32_t)(4 + seed % 40);
    f->config.max_unsent = (uint32_t)(seed % 16);
    fix_new(f);
    for (int step = 0; step < STEPS && f->peer_count < FIX_PEERS - 20; step++) {
      f->refuse = draw(l, 30) == 0;
      caller(l, draw(l, CALLS));
      for (size_t p = 0; p < f->peer_count; p++)
        server(l, p);
      report(l);
      pass(f, (int64_t)draw(l, 40 * TKT_MS));
      report(l);
    }
    struct tkt_call close = {0};
    tkt_client_close(f->client, &close, f->now);
    pass(f, 5100 * TKT_MS);
    for (size_t i = 0; i < CALLS; i++) {
      if (l->used[i]) assert_int_not_equal(l->calls[i].outcome, TKT_PENDING);
      if (l->used[i]) tkt_client_forget(f->client, &l->calls[i], f->now);
      if (l->tickets[i]) tkt_client_drop(f->client, l->tickets[i], f->now);
    }
    assert_int_equal(close.outcome, TKT_OK);
    assert_true(tkt_client_finished(f->client));
    assert_int_equal(open_sessions(f), 0);
    assert_int_equal(counter(f, "tickets"), 0);
    assert_int_equal(counter(f, "requests_with_slot"), 0);
    assert_int_equal(counter(f, "requests_without_slot"), 0);
    assert_int_equal(counter(f, "releases_under_way"), 0);
    assert_int_equal(tkt_client_next_deadline(f->client), TKT_NEVER);
    fix_end(f);
    free(l);
  }
}

static void random_lives_end_every_call_once_and_leak_nothing(void **state) {
  (void)state;
  random_lives(0);
}

static void random_lives_of_wire_3_end_every_call_once_and_leak_nothing(void **state) {
  (void)state;
  random_lives(1);
}

static void random_lives_of_a_cluster_end_every_call_once_and_leak_nothing(void **state) {
  (void)state;
  random_lives(2);
}

static void random_lives_of_both_wires_end_every_call_once_and_leak_nothing(void **state) {
  (void)state;
  random_lives(3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(m10_bad_greetings_end_the_session_with_a_reason),
      TEST(m10_a_flood_of_keepalives_settles_nothing_and_costs_no_memory),
      TEST(m10_a_silent_server_ends_everything_in_time),
      TEST(m10_a_flood_of_unasked_grants_is_bounded),
      TEST(m9_grants_under_impossible_keys_are_not_sent_back),
      TEST(a_reply_to_a_release_never_sent_closes_the_session),
      TEST(one_token_for_two_acquires_is_a_fault_and_keeps_the_first),
      TEST(input_behind_the_end_is_ignored),
      TEST(random_lives_end_every_call_once_and_leak_nothing),
      TEST(random_lives_of_wire_3_end_every_call_once_and_leak_nothing),
      TEST(random_lives_of_a_cluster_end_every_call_once_and_leak_nothing),
      TEST(random_lives_of_both_wires_end_every_call_once_and_leak_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
