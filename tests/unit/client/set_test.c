/* Key sets: one token for all of them, only on wire 3 (A5). */
#include "unit/client/framed.h"

static const char *const pair[] = {"a", "b"};

static void a5_a_set_is_sorted_granted_and_released_as_a_whole(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call call, release;
  struct tkt_msg msg;
  const char *const keys[] = {"c", "a", "bb", "c"};
  acquire_set(&f, &call, keys, 4, 5, 60);
  turn(&f);
  size_t peer = find_request(&f, &msg);
  assert_true(msg.set);
  assert_int_equal(msg.key_count, 3);
  const char *const sorted[] = {"a", "bb", "c"};
  for (size_t i = 0; i < 3; i++)
    assert_true(tkt_span_equal(msg.keys[i], tkt_span_str(sorted[i])));
  reply_id(&f, peer, TKT_MSG_GRANTED, msg.id, 7, true, 0);
  struct tkt_ticket *t;
  assert_int_equal(tkt_client_take(f.client, &call, f.now, &t), TKT_OK);
  assert_int_equal(tkt_ticket_token(t), 7);
  assert_int_equal(tkt_ticket_key_count(t), 3);
  for (size_t i = 0; i < 3; i++)
    assert_true(tkt_span_equal(tkt_ticket_key(t, i), tkt_span_str(sorted[i])));
  assert_null(tkt_ticket_key(t, 3).data);
  start_release(&f, &release, t);
  turn(&f);
  peer = find_request(&f, &msg);
  assert_int_equal(msg.kind, TKT_MSG_RELEASE);
  assert_true(msg.set);
  assert_int_equal(msg.key_count, 3);
  assert_int_equal(msg.token, 7);
  reply_id(&f, peer, TKT_MSG_RELEASED, msg.id, 0, true, 0);
  assert_int_equal(release.outcome, TKT_OK);
  tkt_client_drop(f.client, t, f.now);
  assert_int_equal(counter(&f, "tickets"), 0);
  fix_end(&f);
}

static void a5_a_set_of_one_is_a_single_key(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f); /* on wire 2 */
  struct tkt_call call;
  struct tkt_msg msg;
  const char *const keys[] = {"k", "k"};
  acquire_set(&f, &call, keys, 2, 5, 60);
  turn(&f);
  find_request(&f, &msg);
  assert_true(tkt_span_equal(msg.keys[0], tkt_span_str("k")));
  fix_end(&f);
  fix_start_framed(&f);
  acquire_set(&f, &call, keys, 2, 5, 60);
  turn(&f);
  find_request(&f, &msg);
  assert_false(msg.set);
  fix_end(&f);
}

static void a5_sixteen_keys_of_128_bytes_fit(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  static char names[TKT_KEY_SET_MAX][TKT_KEY_MAX + 1];
  const char *keys[TKT_KEY_SET_MAX];
  for (int i = 0; i < TKT_KEY_SET_MAX; i++) {
    memset(names[i], 'a' + i, TKT_KEY_MAX);
    keys[i] = names[i];
  }
  enum { CALLS = 20 }; /* more than a chunk holds */
  struct tkt_call calls[CALLS];
  for (int i = 0; i < CALLS; i++)
    acquire_set(&f, &calls[i], keys, TKT_KEY_SET_MAX, 5, 60);
  turn(&f);
  struct tkt_msg msg;
  for (int i = 0; i < CALLS; i++) {
    size_t peer = find_request(&f, &msg);
    assert_int_equal(msg.key_count, TKT_KEY_SET_MAX);
    assert_int_equal(msg.keys[15].len, TKT_KEY_MAX);
    reply_id(&f, peer, TKT_MSG_GRANTED, msg.id, 100 + (uint64_t)i, true, 0);
  }
  for (int i = 0; i < CALLS; i++)
    assert_int_equal(calls[i].outcome, TKT_OK);
  fix_end(&f);
}

static void sets_are_unsupported_at_once_where_every_address_spoke_wire_2(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call, release = {0};
  acquire_set(&f, &call, pair, 2, 5, 60);
  assert_int_equal(call.outcome, TKT_UNSUPPORTED);
  says(&call, "wire 2");
  struct tkt_span keys[] = {tkt_span_str("a"), tkt_span_str("b")};
  tkt_client_release_exact(f.client, &release, keys, 2, 7, f.now);
  assert_int_equal(release.outcome, TKT_UNSUPPORTED);
  turn(&f);
  assert_int_equal(requests_left(&f), 0);
  fix_end(&f);
}

static void sets_are_unsupported_at_once_where_wire_2_is_forced(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.silent = true;
  f.config.wire = 2;
  fix_new(&f);
  turn(&f);
  struct tkt_call call;
  acquire_set(&f, &call, pair, 2, 5, 60);
  assert_int_equal(call.outcome, TKT_UNSUPPORTED);
  fix_end(&f);
}

static void before_any_handshake_a_set_waits_and_ends_when_wire_2_is_told(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.addresses[1] = "127.0.0.1:2";
  f.config.address_count = 2;
  f.greeting = NULL;
  f.config.max_in_flight = 2;
  fix_new(&f);
  turn(&f);
  struct tkt_call sets[4], one;
  for (int i = 0; i < 4; i++)
    acquire_set(&f, &sets[i], pair, 2, 5, 60);
  acquire(&f, &one, "k", 5, 60);
  server_text(&f, 0, "cluster nonce\n");
  turn(&f);
  for (int i = 0; i < 4; i++)
    assert_int_equal(sets[i].outcome, TKT_PENDING); /* the other may speak wire 3 */
  server_text(&f, 1, "cluster nonce\n");
  turn(&f);
  for (int i = 0; i < 4; i++)
    assert_int_equal(sets[i].outcome, TKT_UNSUPPORTED);
  struct tkt_msg msg;
  find_request(&f, &msg); /* the single key got a slot and went */
  assert_true(tkt_span_equal(msg.keys[0], tkt_span_str("k")));
  assert_int_equal(requests_left(&f), 0);
  fix_end(&f);
}

static void before_any_handshake_a_set_waits_and_goes_when_wire_3_is_told(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.speaks[0] = 3;
  f.greeting = NULL;
  fix_new(&f);
  turn(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  acquire_set(&f, &call, pair, 2, 5, 60);
  pass(&f, TKT_S);
  server_hello(&f, 0);
  turn(&f);
  find_request(&f, &msg);
  assert_true(msg.set);
  assert_int_equal(msg.wait_s, 4);
  fix_end(&f);
}

/* Three addresses: the first speaks wire 3, the others wire 2. */
static void start_mixed(struct fixture *f) {
  fix_init_framed_cluster(f, 3);
  f->speaks[1] = f->speaks[2] = 2;
  fix_new(f);
  turn(f);
  assert_int_equal(counter(f, "sessions_usable"), 3);
}

static void a_set_never_goes_to_a_session_of_wire_2(void **state) {
  (void)state;
  struct fixture f;
  start_mixed(&f);
  server_text(&f, 1, "L127.0.0.1:2\n"); /* not even where the leader speaks wire 2 */
  enum { CALLS = 12 };
  struct tkt_call calls[CALLS], one;
  struct tkt_msg msg;
  for (int i = 0; i < CALLS; i++)
    acquire_set(&f, &calls[i], pair, 2, 60, 60);
  turn(&f);
  for (int i = 0; i < CALLS; i++)
    assert_true(expect_request(&f, 0, TKT_MSG_ACQUIRE).set);
  f.silent = true;
  reply_id(&f, 0, TKT_MSG_GRANTED, msg.id = 1, 7, true, 0);
  struct tkt_ticket *t;
  assert_int_equal(tkt_client_take(f.client, &calls[0], f.now, &t), TKT_OK);
  tkt_session_eof(f.peers[0].session, f.now);
  struct tkt_call set, release;
  acquire_set(&f, &set, pair, 2, 60, 60);
  start_release(&f, &release, t);
  acquire(&f, &one, "k", 5, 60);
  turn(&f);
  msg = expect_request(&f, 1, TKT_MSG_ACQUIRE); /* only the single key, past both */
  assert_true(tkt_span_equal(msg.keys[0], tkt_span_str("k")));
  assert_int_equal(requests_left(&f), 0);
  f.silent = false;
  pass(&f, 300 * TKT_MS);
  size_t peer = find_request(&f, &msg); /* wire 3 is back: releases first (R4) */
  assert_int_equal(f.peers[peer].address, 0);
  assert_int_equal(msg.kind, TKT_MSG_RELEASE);
  assert_true(msg.set);
  msg = expect_request(&f, peer, TKT_MSG_ACQUIRE);
  assert_true(msg.set);
  tkt_client_drop(f.client, t, f.now);
  fix_end(&f);
}

static void s6_a_set_without_wire_3_is_not_connected(void **state) {
  (void)state;
  struct fixture f;
  fix_init_framed_cluster(&f, 3);
  f.speaks[1] = f.speaks[2] = 2;
  f.slot = 2; /* address 0 is refused: not known to be of wire 2 */
  f.silent = true;
  fix_new(&f);
  turn(&f);
  for (size_t i = 1; i < 3; i++) {
    f.peers[i].connected = true;
    tkt_session_connected(f.peers[i].session, f.now);
    server_text(&f, i, f.greeting);
  }
  turn(&f);
  assert_true(tkt_client_usable(f.client));
  struct tkt_call call;
  acquire_set(&f, &call, pair, 2, 2, 60);
  pass(&f, 1900 * TKT_MS);
  assert_int_equal(call.outcome, TKT_PENDING);
  pass(&f, 200 * TKT_MS);
  assert_int_equal(call.outcome, TKT_NOT_CONNECTED);
  says(&call, "wire 3");
  fix_end(&f);
}

static void s6_a_set_after_wire_3_was_lost_is_not_connected(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  f.silent = true;
  for (size_t i = 0; i < 2; i++)
    tkt_session_eof(f.peers[i].session, f.now);
  turn(&f);
  struct tkt_call call;
  acquire_set(&f, &call, pair, 2, 2, 60);
  pass(&f, 2100 * TKT_MS);
  assert_int_equal(call.outcome, TKT_NOT_CONNECTED);
  fix_end(&f);
}

static void a_set_in_a_pause_ends_when_the_last_address_turns_to_wire_2(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.speaks[0] = 3;
  f.greeting = NULL;
  fix_new(&f);
  turn(&f);
  server_hello(&f, 0);
  turn(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  acquire_set(&f, &call, pair, 2, 5, 60);
  turn(&f);
  size_t peer = find_request(&f, &msg);
  reply_id(&f, peer, TKT_MSG_MOVED, msg.id, 0, false, TKT_SLOT_NONE);
  server_text(&f, 1, "single nonce\n"); /* replaced by another server */
  assert_int_equal(call.outcome, TKT_UNSUPPORTED);
  fix_end(&f);
}

static void s3_an_unsent_set_is_cancelled_wherever_it_waits(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.speaks[0] = 3;
  f.silent = true;
  f.config.max_in_flight = 1;
  fix_new(&f);
  turn(&f);
  struct tkt_call calls[2];
  for (int i = 0; i < 2; i++)
    acquire_set(&f, &calls[i], pair, 2, 5, 60);
  for (int i = 1; i >= 0; i--) {
    tkt_client_cancel(f.client, &calls[i], f.now);
    assert_int_equal(calls[i].outcome, TKT_CANCELLED);
  }
  assert_int_equal(counter(&f, "requests_with_slot"), 0);
  assert_int_equal(counter(&f, "tickets"), 0);
  fix_end(&f);
}

static void s1_unsent_sets_of_a_lost_session_go_elsewhere(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  f.peers[0].room = f.peers[1].room = 0;
  struct tkt_call calls[4];
  for (int i = 0; i < 4; i++)
    acquire_set(&f, &calls[i], pair, 2, 5, 60);
  turn(&f);
  tkt_session_eof(f.peers[0].session, f.now);
  unblock(&f, 1, SIZE_MAX);
  pass(&f, 120 * TKT_MS);
  assert_int_equal(requests_left(&f), 4);
  for (int i = 0; i < 4; i++)
    assert_int_equal(calls[i].outcome, TKT_PENDING);
  fix_end(&f);
}

static void r4_release_by_keys_joins_the_ticket_with_the_same_ones(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call call, ours, same = {0}, other = {0}, part = {0}, swapped = {0};
  struct tkt_msg msg;
  acquire_set(&f, &call, pair, 2, 5, 60);
  turn(&f);
  size_t peer = find_request(&f, &msg);
  reply_id(&f, peer, TKT_MSG_GRANTED, msg.id, 7, true, 0);
  struct tkt_ticket *t;
  assert_int_equal(tkt_client_take(f.client, &call, f.now, &t), TKT_OK);
  struct tkt_span keys[] = {tkt_span_str("a"), tkt_span_str("b"), tkt_span_str("c")};
  start_release(&f, &ours, t);
  tkt_client_release_exact(f.client, &same, keys, 2, 7, f.now);
  tkt_client_release_exact(f.client, &other, keys, 3, 7, f.now);
  tkt_client_release_exact(f.client, &part, keys, 1, 7, f.now);
  struct tkt_span not_ours[] = {tkt_span_str("a"), tkt_span_str("c")};
  tkt_client_release_exact(f.client, &swapped, not_ours, 2, 7, f.now);
  turn(&f);
  unsigned counts[4] = {0};
  for (int i = 0; i < 4; i++) { /* as the server judges it: only the granted set is right */
    peer = find_request(&f, &msg);
    assert_int_equal(msg.kind, TKT_MSG_RELEASE);
    counts[msg.key_count]++;
    if (msg.key_count == 2 && tkt_span_equal(msg.keys[1], tkt_span_str("b")))
      reply_id(&f, peer, TKT_MSG_RELEASED, msg.id, 0, true, 0);
    else
      reply_error(&f, peer, msg.id, TKT_WIRE_ERROR_GROUP_MISMATCH);
  }
  assert_true(counts[1] == 1 && counts[2] == 2 && counts[3] == 1);
  assert_int_equal(ours.outcome, TKT_OK);
  assert_int_equal(same.outcome, TKT_OK);
  assert_int_equal(other.outcome, TKT_INVALID_ARGUMENT);
  assert_int_equal(part.outcome, TKT_INVALID_ARGUMENT);
  assert_int_equal(swapped.outcome, TKT_INVALID_ARGUMENT);
  tkt_client_drop(f.client, t, f.now);
  assert_int_equal(counter(&f, "tickets"), 0);
  fix_end(&f);
}

static void g1_a_set_that_comes_too_late_goes_back_whole(void **state) {
  (void)state;
  struct fixture f;
  fix_start_framed(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  acquire_set(&f, &call, pair, 2, 20, 10);
  turn(&f);
  size_t peer = find_request(&f, &msg);
  pass(&f, 11 * TKT_S);
  reply_id(&f, peer, TKT_MSG_GRANTED, msg.id, 7, true, 0);
  assert_int_equal(call.outcome, TKT_INSUFFICIENT_LEASE);
  turn(&f);
  find_request(&f, &msg);
  assert_int_equal(msg.kind, TKT_MSG_RELEASE);
  assert_true(msg.set);
  assert_int_equal(msg.key_count, 2);
  fix_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a5_a_set_is_sorted_granted_and_released_as_a_whole),
      TEST(a5_a_set_of_one_is_a_single_key),
      TEST(a5_sixteen_keys_of_128_bytes_fit),
      TEST(sets_are_unsupported_at_once_where_every_address_spoke_wire_2),
      TEST(sets_are_unsupported_at_once_where_wire_2_is_forced),
      TEST(before_any_handshake_a_set_waits_and_ends_when_wire_2_is_told),
      TEST(before_any_handshake_a_set_waits_and_goes_when_wire_3_is_told),
      TEST(a_set_never_goes_to_a_session_of_wire_2),
      TEST(s6_a_set_without_wire_3_is_not_connected),
      TEST(s6_a_set_after_wire_3_was_lost_is_not_connected),
      TEST(a_set_in_a_pause_ends_when_the_last_address_turns_to_wire_2),
      TEST(s3_an_unsent_set_is_cancelled_wherever_it_waits),
      TEST(s1_unsent_sets_of_a_lost_session_go_elsewhere),
      TEST(r4_release_by_keys_joins_the_ticket_with_the_same_ones),
      TEST(g1_a_set_that_comes_too_late_goes_back_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
