/* Wire 3: told by its first bytes, proven, judged; and what a list of addresses must agree with. */
#include "unit/client/framed.h"

/* A client of one address that was greeted with nothing yet. */
static void start_silent(struct fixture *f) {
  fix_init(f);
  f->speaks[0] = 3;
  f->greeting = NULL;
  f->verdict = -1;
  f->config.token = tkt_span_str("secret");
  fix_new(f);
  turn(f);
}

static void wire_3_is_told_by_its_first_bytes_at_every_cut(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  struct tkt_msg hello = hello_msg(&f, 0);
  uint8_t bytes[64];
  size_t len = tkt_wire3.encoded_size(&hello);
  tkt_wire3.encode(&hello, bytes);
  for (size_t cut = 1; cut < len; cut++) {
    start_silent(&f);
    server_bytes(&f, 0, bytes, cut);
    turn(&f);
    assert_int_equal(tkt_buf_len(&f.peers[0].received), 0);
    server_bytes(&f, 0, bytes + cut, len - cut);
    turn(&f);
    uint8_t proof[TKT_WIRE3_PROOF_LEN];
    assert_true(tkt_wire3_proof(tkt_span_str("secret"), TKT_WIRE_SINGLE, tkt_wire3_single_identity,
                                TKT_SLOT_NONE, tkt_span_str(fix_nonce), proof));
    assert_true(tkt_span_equal(tkt_buf_span(&f.peers[0].received), tkt_span(proof, sizeof proof)));
    assert_false(tkt_client_usable(f.client)); /* nothing is sent before the verdict */
    server_verdict(&f, 0, 1);
    assert_true(tkt_client_usable(f.client));
    fix_end(&f);
  }
}

static void both_wires_are_spoken_by_one_client(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  f.speaks[0] = 2;
  f.greeting = "single nonce\n";
  tkt_session_eof(f.peers[0].session, f.now);
  pass(&f, 200 * TKT_MS);
  assert_int_equal(open_sessions(&f), 2);
  struct tkt_call calls[2];
  struct tkt_msg msgs[2];
  size_t peers[2];
  for (int i = 0; i < 2; i++)
    peers[i] = send_acquire(&f, &calls[i], "k", 5, 60, &msgs[i]);
  assert_int_not_equal(peers[0], peers[1]);
  for (int i = 0; i < 2; i++) {
    reply(&f, peers[i], TKT_MSG_GRANTED, msgs[i].id, 7 + (uint64_t)i, "k");
    assert_int_equal(calls[i].outcome, TKT_OK);
  }
  fix_end(&f);
}

static void b5_verdict_0_is_auth_and_heals(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.speaks[0] = 3;
  f.verdict = 0;
  fix_new(&f);
  turn(&f);
  struct tkt_call call, ready = {0};
  acquire(&f, &call, "k", 5, 60);
  assert_int_equal(call.outcome, TKT_AUTH);
  says(&call, "the server refused the token");
  tkt_client_wait_ready(f.client, &ready, 60 * TKT_S, f.now);
  assert_int_equal(ready.outcome, TKT_AUTH);
  assert_int_equal(counter(&f, "auth_refusals"), 2);
  f.verdict = 1;
  pass(&f, 1500 * TKT_MS);
  assert_int_equal(f.peer_count, 2); /* at the longest backoff */
  pass(&f, 2 * TKT_S);
  assert_true(tkt_client_usable(f.client));
  fix_end(&f);
}

static void a_close_without_a_verdict_is_not_auth(void **state) {
  (void)state;
  struct fixture f;
  start_silent(&f);
  for (size_t i = 0; i < 2; i++) {
    server_hello(&f, i);
    turn(&f);
    tkt_session_eof(f.peers[i].session, f.now);
  }
  turn(&f);
  struct tkt_call call;
  acquire(&f, &call, "k", 1, 60);
  assert_int_equal(call.outcome, TKT_PENDING);
  pass(&f, 1100 * TKT_MS);
  assert_int_equal(call.outcome, TKT_NOT_CONNECTED);
  assert_true(f.peer_count > 2); /* dialled again, at the short backoff */
  fix_end(&f);
}

static void b4_a_verdict_that_does_not_come_ends_the_handshake_after_10_s(void **state) {
  (void)state;
  struct fixture f;
  start_silent(&f);
  server_hello(&f, 0);
  turn(&f);
  pass(&f, 9900 * TKT_MS);
  assert_false(f.peers[0].closed);
  assert_false(tkt_client_usable(f.client)); /* silence is no verdict on this wire */
  pass(&f, 200 * TKT_MS);
  assert_true(f.peers[0].closed);
  fix_end(&f);
}

static void m8_a_verdict_that_is_none_or_too_early_ends_the_session(void **state) {
  (void)state;
  struct fixture f;
  start_silent(&f);
  server_hello(&f, 0);
  turn(&f);
  server_verdict(&f, 0, 2);
  turn(&f);
  assert_true(f.peers[0].closed);
  server_hello(&f, 1);
  server_verdict(&f, 1, 1); /* our answer has not left */
  turn(&f);
  assert_true(f.peers[1].closed);
  assert_int_equal(counter(&f, "protocol_faults"), 2);
  assert_int_equal(counter(&f, "auth_refusals"), 0);
  fix_end(&f);
}

static void m10_hellos_of_other_versions_and_modes_end_the_session(void **state) {
  (void)state;
  static const struct {
    size_t at;
    uint8_t byte;
  } broken[] = {{7, 'x'}, {9, 4}, {8, 1}, {10, 2}, {3, 'k'}};
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    struct fixture f;
    start_silent(&f);
    struct tkt_msg hello = hello_msg(&f, 0);
    uint8_t bytes[64];
    tkt_wire3.encode(&hello, bytes);
    bytes[broken[i].at] = broken[i].byte;
    server_bytes(&f, 0, bytes, tkt_wire3.encoded_size(&hello));
    server_bytes(&f, 0, "\n", f.peers[0].session ? 1 : 0);
    turn(&f);
    assert_true(f.peers[0].closed);
    assert_int_equal(tkt_buf_len(&f.peers[0].received), 0); /* no proof for it */
    fix_end(&f);
  }
}

static void a_forced_wire_refuses_the_other(void **state) {
  (void)state;
  for (unsigned forced = 2; forced <= 3; forced++) {
    struct fixture f;
    fix_init(&f);
    f.config.wire = (uint8_t)forced;
    f.speaks[0] = forced == 2 ? 3 : 2;
    fix_new(&f);
    turn(&f);
    struct tkt_call ready = {0};
    tkt_client_wait_ready(f.client, &ready, 0, f.now);
    assert_int_equal(ready.outcome, TKT_TIMEOUT);
    says(&ready, forced == 2 ? "only wire 2 is allowed" : "only wire 3 is allowed");
    f.speaks[0] = forced;
    pass(&f, 2 * TKT_S);
    assert_true(tkt_client_usable(f.client));
    fix_end(&f);
  }
}

static void a_cluster_is_proven_with_identity_mode_and_slot(void **state) {
  (void)state;
  struct fixture f;
  fix_init_framed_cluster(&f, 3);
  f.config.token = tkt_span_str("secret");
  f.verdict = -1;
  fix_new(&f);
  turn(&f);
  for (size_t i = 0; i < 3; i++) {
    uint8_t proof[TKT_WIRE3_PROOF_LEN];
    assert_true(tkt_wire3_proof(tkt_span_str("secret"), TKT_WIRE_CLUSTER, fix_identity, (uint8_t)i,
                                tkt_span_str(fix_nonce), proof));
    assert_true(tkt_span_equal(tkt_buf_span(&f.peers[i].received), tkt_span(proof, sizeof proof)));
  }
  fix_end(&f);
}

/* One way in which a server and the list of addresses disagree. */
static void refuses(struct fixture *f, const char *why) {
  fix_new(f);
  turn(f);
  struct tkt_call call, ready = {0};
  acquire(f, &call, "k", 5, 60);
  assert_int_equal(call.outcome, TKT_UNSUPPORTED);
  says(&call, "127.0.0.1:");
  says(&call, why);
  tkt_client_wait_ready(f->client, &ready, 60 * TKT_S, f->now);
  assert_int_equal(ready.outcome, TKT_UNSUPPORTED);
  for (size_t i = 0; i < f->peer_count; i++) /* nothing proven, nothing sent */
    if (f->mode != TKT_WIRE_CLUSTER || f->slot != (int)f->peers[i].address)
      assert_int_equal(tkt_buf_len(&f->peers[i].received), 0);
  fix_end(f);
}

static void b3_servers_that_do_not_fit_the_list_are_unsupported_by_name(void **state) {
  (void)state;
  struct fixture f;
  fix_init_framed_cluster(&f, 3);
  f.mode = TKT_WIRE_SINGLE;
  refuses(&f, "works alone");
  fix_init_framed_cluster(&f, 2);
  refuses(&f, "1, 3 or 5 addresses");
  fix_init_framed_cluster(&f, 4);
  refuses(&f, "1, 3 or 5 addresses");
  fix_init_framed_cluster(&f, 3);
  f.slot = 1; /* right for one of the three */
  refuses(&f, "slot");
  fix_init_framed_cluster(&f, 5);
  f.slot = TKT_SLOT_NONE;
  refuses(&f, "slot");
  fix_init_framed_cluster(&f, 3);
  f.config.identity = NULL;
  refuses(&f, "identity");
  fix_init(&f);
  f.speaks[0] = 3;
  f.slot = 0;
  refuses(&f, "slot");
}

static void b3_a_corrected_server_heals(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.speaks[0] = 3;
  f.slot = 4;
  fix_new(&f);
  turn(&f);
  f.slot = -1;
  pass(&f, 3300 * TKT_MS);
  struct tkt_call call;
  struct tkt_msg msg;
  send_acquire(&f, &call, "k", 5, 60, &msg);
  assert_int_equal(call.outcome, TKT_PENDING);
  fix_end(&f);
}

static void five_servers_of_a_cluster_are_one_session_each(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed_cluster(&f, 5);
  assert_int_equal(f.peer_count, 5);
  assert_int_equal(counter(&f, "sessions_usable"), 5);
  fix_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(wire_3_is_told_by_its_first_bytes_at_every_cut),
      TEST(both_wires_are_spoken_by_one_client),
      TEST(b5_verdict_0_is_auth_and_heals),
      TEST(a_close_without_a_verdict_is_not_auth),
      TEST(b4_a_verdict_that_does_not_come_ends_the_handshake_after_10_s),
      TEST(m8_a_verdict_that_is_none_or_too_early_ends_the_session),
      TEST(m10_hellos_of_other_versions_and_modes_end_the_session),
      TEST(a_forced_wire_refuses_the_other),
      TEST(a_cluster_is_proven_with_identity_mode_and_slot),
      TEST(b3_servers_that_do_not_fit_the_list_are_unsupported_by_name),
      TEST(b3_a_corrected_server_heals),
      TEST(five_servers_of_a_cluster_are_one_session_each),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
