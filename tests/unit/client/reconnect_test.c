#include "unit/client/fixture.h"

/* Instants at which `address` was dialled. */
static size_t dials(const struct fixture *f, size_t address, int64_t *out, size_t room) {
  size_t n = 0;
  for (size_t i = 0; i < f->peer_count && n < room; i++)
    if (f->peers[i].address == address) out[n++] = f->peers[i].dialled_at;
  return n;
}

static void b1_nothing_fails_for_lack_of_a_server(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.refuse = true;
  fix_new(&f);
  pass(&f, 60 * TKT_S);
  assert_false(tkt_client_usable(f.client));
  f.refuse = false;
  pass(&f, 4 * TKT_S);
  assert_true(tkt_client_usable(f.client));
  fix_end(&f);
}

static void b2_one_address_is_held_by_two_sessions_used_in_turn(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  assert_int_equal(f.peer_count, 2);
  struct tkt_call calls[10];
  for (int i = 0; i < 10; i++)
    acquire(&f, &calls[i], "k", 5, 60);
  turn(&f);
  struct tkt_msg msg;
  for (size_t p = 0; p < 2; p++) {
    int n = 0;
    while (server_next(&f, p, &msg))
      n++;
    assert_int_equal(n, 5);
  }
  fix_end(&f);
}

static void b4_backoff_doubles_from_100_ms_to_3200_ms_with_jitter(void **state) {
  (void)state;
  struct fixture f;
  fix_start_cluster(&f, 2);
  f.refuse = true;
  for (size_t i = 0; i < 2; i++)
    tkt_session_eof(f.peers[i].session, f.now);
  pass(&f, 30 * TKT_S);
  int64_t at[64];
  size_t n = dials(&f, 0, at, 64);
  assert_true(n > 8);
  int64_t whole = 100 * TKT_MS;
  bool jitter = false;
  for (size_t i = 1; i < n; i++) {
    int64_t gap = at[i] - at[i - 1];
    assert_in_range(gap, whole / 2, whole);
    jitter = jitter || gap != whole / 2;
    if (whole < 3200 * TKT_MS) whole *= 2;
  }
  assert_int_equal(whole, 3200 * TKT_MS);
  assert_true(jitter);
  fix_end(&f);
}

static void b4_a_session_that_lived_well_is_dialled_again_after_the_shortest_pause(void **state) {
  (void)state;
  struct fixture f;
  fix_start_cluster(&f, 2);
  for (int round = 0; round < 6; round++) {
    size_t last = f.peer_count;
    while (f.peers[--last].address != 0) {
    }
    pass(&f, 1100 * TKT_MS);
    tkt_session_eof(f.peers[last].session, f.now);
    size_t before = f.peer_count;
    int64_t ended = f.now;
    pass(&f, 200 * TKT_MS);
    assert_int_equal(f.peer_count, before + 1);
    assert_in_range(f.peers[before].dialled_at - ended, 50 * TKT_MS, 100 * TKT_MS);
  }
  fix_end(&f);
}

static void b4_sessions_that_die_at_once_are_dialled_ever_more_slowly(void **state) {
  (void)state;
  struct fixture f;
  fix_start_cluster(&f, 2);
  for (int i = 0; i < 2000; i++) { /* 20 s, each session killed within 10 ms */
    for (size_t p = 0; p < f.peer_count; p++)
      if (f.peers[p].session && f.peers[p].address == 0) tkt_session_eof(f.peers[p].session, f.now);
    pass(&f, 10 * TKT_MS);
  }
  int64_t at[64];
  size_t n = dials(&f, 0, at, 64);
  assert_in_range(n, 8, 20);
  assert_in_range(at[n - 1] - at[n - 2], 1600 * TKT_MS, 3210 * TKT_MS);
  fix_end(&f);
}

static void b4_a_session_closed_for_a_cancel_is_replaced_at_once_but_not_faster(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  int64_t began = f.now;
  for (int i = 0; i < 40; i++) { /* 0.4 s */
    acquire(&f, &call, "k", 5, 60);
    turn(&f);
    tkt_client_cancel(f.client, &call, f.now);
    turn(&f);
    pass(&f, 10 * TKT_MS);
  }
  assert_int_equal(f.peers[2].dialled_at, began);
  int64_t at[64];
  size_t n = dials(&f, 0, at, 64);
  assert_in_range(n, 2 + 4, 2 + 6);
  for (size_t i = 3; i < n; i++)
    assert_true(at[i] - at[i - 1] >= 99 * TKT_MS);
  fix_end(&f);
}

static void b4_at_most_8_sessions_of_an_address_are_closing(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  for (int i = 0; i < 14; i++) {
    acquire(&f, &call, "k", 60, 60);
    turn(&f);
    tkt_client_cancel(f.client, &call, f.now);
    turn(&f);
    size_t closing = 0;
    for (size_t p = 0; p < f.peer_count; p++)
      closing += f.peers[p].session && f.peers[p].shut;
    assert_true(closing <= 8);
    pass(&f, 101 * TKT_MS);
  }
  assert_true(f.peers[0].closed); /* the oldest, hard: its 2 s were not over */
  assert_true(f.peers[0].last_read);
  fix_end(&f);
}

static void b4_the_handshake_has_10_s(void **state) {
  (void)state;
  for (int stage = 0; stage < 3; stage++) {
    struct fixture f;
    fix_init(&f);
    f.silent = stage == 0;             /* never connected */
    if (stage == 1) f.greeting = NULL; /* never greeted */
    f.welcome = NULL;                  /* never accepted */
    fix_new(&f);
    turn(&f);
    pass(&f, 9900 * TKT_MS);
    assert_int_equal(open_sessions(&f), 2);
    assert_int_equal(f.peer_count, 2);
    pass(&f, 110 * TKT_MS);
    assert_true(f.peers[0].closed);
    assert_true(f.peers[1].closed);
    assert_false(tkt_client_usable(f.client));
    fix_end(&f);
  }
}

static void b4_a_frame_must_go_on_within_3_s(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  server_text(&f, 0, "L127");
  pass(&f, 2900 * TKT_MS);
  server_text(&f, 0, ".0.0");
  pass(&f, 2900 * TKT_MS);
  server_text(&f, 0, ".1:5225\n");
  pass(&f, 30 * TKT_S);
  assert_false(f.peers[0].closed);
  server_text(&f, 0, "L1");
  pass(&f, 3010 * TKT_MS);
  assert_true(f.peers[0].closed);
  fix_end(&f);
}

static void handshake_waits_for_the_first_frame_of_servers_like_ours(void **state) {
  (void)state;
  const char *words[] = {"single n\n", "cluster n\n"};
  for (int i = 0; i < 2; i++) {
    struct fixture f;
    fix_init(&f);
    f.greeting = words[i];
    f.welcome = NULL;
    fix_new(&f);
    turn(&f);
    pass(&f, TKT_S);
    assert_false(tkt_client_usable(f.client));
    struct tkt_call call;
    acquire(&f, &call, "k", 5, 60);
    turn(&f);
    assert_int_equal(requests_left(&f), 0);
    server_text(&f, 1, "\n");
    assert_true(tkt_client_usable(f.client));
    turn(&f);
    expect_request(&f, 1, TKT_MSG_ACQUIRE);
    fix_end(&f);
  }
}

static void handshake_with_other_words_needs_100_ms_or_a_frame(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.greeting = "TICKETING n\n";
  f.welcome = NULL;
  fix_new(&f);
  turn(&f);
  pass(&f, 99 * TKT_MS);
  assert_false(tkt_client_usable(f.client));
  pass(&f, 3 * TKT_MS);
  assert_true(tkt_client_usable(f.client));
  fix_end(&f);
  fix_init(&f);
  f.greeting = "TICKETING n\n";
  fix_new(&f);
  turn(&f);
  assert_true(tkt_client_usable(f.client));
  fix_end(&f);
}

static void t2_the_proof_is_of_token_and_nonce(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.greeting = "single aB3dEf_g\n";
  f.config.token = tkt_span_str("secret");
  fix_new(&f);
  turn(&f);
  const char *line = "WvDLEd0VIA9cVatiwxXYXRGMDSXw0ibHllLgAMBffdg\n";
  assert_true(tkt_span_equal(tkt_buf_span(&f.peers[0].received), tkt_span_str(line)));
  fix_end(&f);
}

static void a_frame_before_the_proof_left_does_not_make_it_usable(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.greeting = "single n\n\n\n";
  f.welcome = NULL;
  fix_new(&f);
  turn(&f);
  assert_false(tkt_client_usable(f.client));
  fix_end(&f);
}

static void b1_wait_ready_tells_when_a_session_is_usable(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.refuse = true;
  fix_new(&f);
  turn(&f);
  struct tkt_call now = {0}, soon = {0}, later = {0}, ever = {0}, after = {0};
  tkt_client_wait_ready(f.client, &now, 0, f.now);
  assert_int_equal(now.outcome, TKT_TIMEOUT);
  tkt_client_wait_ready(f.client, &soon, 2 * TKT_S, f.now);
  tkt_client_wait_ready(f.client, &later, 20 * TKT_S, f.now);
  tkt_client_wait_ready(f.client, &ever, INT64_MAX, f.now);
  pass(&f, 2010 * TKT_MS);
  assert_int_equal(soon.outcome, TKT_TIMEOUT);
  f.refuse = false;
  pass(&f, 5 * TKT_S);
  assert_int_equal(later.outcome, TKT_OK);
  assert_int_equal(ever.outcome, TKT_OK);
  tkt_client_wait_ready(f.client, &after, 0, f.now);
  assert_int_equal(after.outcome, TKT_OK);
  fix_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(b1_nothing_fails_for_lack_of_a_server),
      TEST(b2_one_address_is_held_by_two_sessions_used_in_turn),
      TEST(b4_backoff_doubles_from_100_ms_to_3200_ms_with_jitter),
      TEST(b4_a_session_that_lived_well_is_dialled_again_after_the_shortest_pause),
      TEST(b4_sessions_that_die_at_once_are_dialled_ever_more_slowly),
      TEST(b4_a_session_closed_for_a_cancel_is_replaced_at_once_but_not_faster),
      TEST(b4_at_most_8_sessions_of_an_address_are_closing),
      TEST(b4_the_handshake_has_10_s),
      TEST(b4_a_frame_must_go_on_within_3_s),
      TEST(handshake_waits_for_the_first_frame_of_servers_like_ours),
      TEST(handshake_with_other_words_needs_100_ms_or_a_frame),
      TEST(t2_the_proof_is_of_token_and_nonce),
      TEST(a_frame_before_the_proof_left_does_not_make_it_usable),
      TEST(b1_wait_ready_tells_when_a_session_is_usable),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
