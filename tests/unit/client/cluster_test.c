#include "unit/client/fixture.h"

static const char *const leader_is[] = {"L127.0.0.1:1\n", "L127.0.0.1:2\n", "L127.0.0.1:3\n"};

static void start(struct fixture *f) {
  fix_start_cluster(f, 3);
  assert_int_equal(f->peer_count, 3); /* B2: one session each */
}

/* Starts `n` acquires and returns how many were sent on `peer`. */
static size_t sent_on(struct fixture *f, struct tkt_call *calls, int n, size_t peer) {
  for (int i = 0; i < n; i++)
    acquire(f, &calls[i], "k", 60, 60);
  turn(f);
  size_t count = 0;
  struct tkt_msg msg;
  while (server_next(f, peer, &msg))
    count++;
  requests_left(f);
  return count;
}

static void b2_without_a_hint_the_sessions_take_turns(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  struct tkt_call calls[9];
  assert_int_equal(sent_on(&f, calls, 9, 1), 3);
  fix_end(&f);
}

static void b2_m6_requests_go_to_the_leader_named(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  server_text(&f, 0, leader_is[1]);
  struct tkt_call calls[9];
  assert_int_equal(sent_on(&f, calls, 9, 1), 9);
  server_text(&f, 1, leader_is[2]);
  struct tkt_call more[9];
  assert_int_equal(sent_on(&f, more, 9, 2), 9);
  assert_int_equal(open_sessions(&f), 3); /* L keeps the session */
  fix_end(&f);
}

/* Acquires that were given to a session and did not leave yet. */
static void acquires_given(struct fixture *f, struct tkt_call *calls, int n) {
  for (int i = 0; i < n; i++)
    acquire(f, &calls[i], "k", 60, 60);
}

static size_t count_on(struct fixture *f, size_t peer) {
  size_t count = 0;
  struct tkt_msg msg;
  while (server_next(f, peer, &msg))
    count++;
  assert_int_equal(requests_left(f), 0);
  return count;
}

static void b2_m5_m6_what_has_not_left_goes_to_the_leader_named(void **state) {
  (void)state;
  for (int moved = 0; moved < 2; moved++) {
    struct fixture f;
    start(&f);
    struct tkt_call calls[6];
    acquires_given(&f, calls, 6);
    server_text(&f, 0, moved ? "M127.0.0.1:2\n" : leader_is[1]);
    pass(&f, 20 * TKT_MS);
    assert_int_equal(count_on(&f, 1), 6);
    fix_end(&f);
  }
}

static void b2_what_has_not_left_goes_to_the_leader_that_came_up(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  f.welcome = NULL;
  tkt_session_eof(f.peers[1].session, f.now);
  pass(&f, 4 * TKT_S);
  assert_int_equal(f.peer_count, 4);
  server_text(&f, 0, leader_is[1]);
  struct tkt_call calls[6];
  acquires_given(&f, calls, 6);
  server_text(&f, 3, leader_is[1]);
  turn(&f);
  assert_int_equal(count_on(&f, 3), 6);
  fix_end(&f);
}

static void b2_the_hint_is_dropped_with_its_session(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  server_text(&f, 0, leader_is[1]);
  f.refuse = true;
  tkt_session_eof(f.peers[1].session, f.now);
  struct tkt_call calls[8];
  assert_int_equal(sent_on(&f, calls, 8, 2), 4);
  fix_end(&f);
}

/* All followers name it: to ask them instead would only lose the requests. */
static void b2_s3_a_leader_left_for_a_cancel_leads_on(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  server_text(&f, 0, leader_is[1]);
  server_text(&f, 2, leader_is[1]);
  struct tkt_call call, calls[4];
  struct tkt_msg msg;
  assert_int_equal(send_acquire(&f, &call, "k", 60, 60, &msg), 1);
  f.silent = true;
  tkt_client_cancel(f.client, &call, f.now);
  turn(&f);
  assert_true(f.peers[1].shut);
  assert_int_equal(f.peer_count, 4); /* dialled again at once (B4) */
  assert_int_equal(f.peers[3].address, 1);
  for (int i = 0; i < 4; i++)
    acquire(&f, &calls[i], "k", 60, 60);
  turn(&f);
  assert_int_equal(requests_left(&f), 0);
  f.refuse = true;
  tkt_session_failed(f.peers[3].session, "refused", f.now); /* now the hint is gone */
  pass(&f, 10 * TKT_MS);
  assert_int_equal(requests_left(&f), 4);
  fix_end(&f);
}

static void b2_s6_a_leader_that_does_not_answer_leads_no_more(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  server_text(&f, 0, leader_is[1]);
  server_text(&f, 2, leader_is[1]);
  struct tkt_call call, calls[4];
  struct tkt_msg msg;
  assert_int_equal(send_acquire(&f, &call, "k", 1, 60, &msg), 1);
  f.silent = true;
  pass(&f, 6 * TKT_S + 10 * TKT_MS);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  assert_int_equal(sent_on(&f, calls, 4, 0), 2);
  fix_end(&f);
}

static void
b2_a_session_that_named_another_leader_takes_no_requests_while_the_hint_lives(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.addresses[0] = "127.0.0.1:1";
  f.addresses[1] = "127.0.0.1:2";
  f.config.address_count = 2;
  f.silent = true;
  fix_new(&f);
  turn(&f);
  f.silent = false;
  tkt_session_connected(f.peers[0].session, f.now);
  server_text(&f, 0, f.greeting);
  f.welcome = leader_is[1]; /* the first frame already names the other one, which is not up yet */
  turn(&f);
  struct tkt_call calls[4];
  assert_int_equal(sent_on(&f, calls, 4, 0), 0);
  tkt_session_failed(f.peers[1].session, "refused", f.now); /* now the hint is gone */
  f.refuse = true;
  turn(&f);
  struct tkt_msg msg;
  assert_true(server_next(&f, 0, &msg));
  fix_end(&f);
}

static void m5_moved_keeps_a_configured_leader_and_closes(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  struct tkt_call sent, later[4];
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &sent, "k", 60, 60, &msg);
  assert_int_equal(peer, 0);
  server_text(&f, 0, "M127.0.0.1:3\n");
  turn(&f);
  assert_true(f.peers[0].shut);
  assert_false(f.peers[0].closed);
  assert_int_equal(sent.outcome, TKT_PENDING); /* M answers nothing */
  assert_int_equal(f.peer_count, 4);           /* B4: redialled at once, a request was sent */
  assert_int_equal(sent_on(&f, later, 4, 2), 4);
  tkt_session_eof(f.peers[0].session, f.now);
  assert_int_equal(sent.outcome, TKT_INDETERMINATE);
  fix_end(&f);
}

static void m5_moved_before_any_request_counts_as_a_failure(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  server_text(&f, 0, "M127.0.0.1:3\n");
  turn(&f);
  assert_true(f.peers[0].closed); /* nothing to wait for */
  assert_int_equal(f.peer_count, 3);
  pass(&f, 101 * TKT_MS);
  assert_int_equal(f.peer_count, 4);
  fix_end(&f);
}

static void m5_m6_m10_addresses_not_configured_are_ignored(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  server_text(&f, 0, "L10.0.0.1:1\n");
  server_text(&f, 1, "M10.0.0.1:1\n");
  turn(&f);
  assert_int_equal(counter(&f, "leaders_not_configured"), 2);
  pass(&f, 5 * TKT_S);
  for (size_t i = 0; i < f.peer_count; i++)
    assert_true(f.peers[i].address < 3);
  struct tkt_call calls[6];
  assert_true(sent_on(&f, calls, 6, 2) > 0);
  fix_end(&f);
}

static void m5_withdrawn_neighbours_go_on_at_the_leader(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 60, 60, &msg);
  server_text(&f, peer, "M127.0.0.1:2\n");
  turn(&f);
  reply(&f, peer, TKT_MSG_TIMED_OUT, msg.id, 0, "k");
  pass(&f, 20 * TKT_MS);
  struct tkt_msg again = expect_request(&f, 1, TKT_MSG_ACQUIRE);
  assert_true(again.id != msg.id);
  fix_end(&f);
}

static void m7_no_leader_closes_backs_off_and_drops_the_hint(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  server_text(&f, 0, leader_is[1]);
  server_text(&f, 1, "Eno_leader\n");
  turn(&f);
  assert_true(f.peers[1].closed);
  struct tkt_call calls[4];
  assert_int_equal(sent_on(&f, calls, 4, 0), 2); /* 0 named the old leader, but no hint lives */
  fix_end(&f);
}

static void m7_no_leader_of_another_server_keeps_the_hint(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  server_text(&f, 1, leader_is[1]);
  server_text(&f, 0, "Eno_leader\n"); /* nothing was sent to it */
  struct tkt_call calls[6];
  assert_int_equal(sent_on(&f, calls, 6, 1), 6);
  fix_end(&f);
}

static void m7_not_active_backs_off_doubling(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.welcome = "Enot_active\n";
  f.addresses[0] = "127.0.0.1:1";
  f.addresses[1] = "127.0.0.1:2";
  f.config.address_count = 2;
  fix_new(&f);
  pass(&f, 20 * TKT_S);
  size_t dials = 0;
  for (size_t i = 0; i < f.peer_count; i++)
    dials += f.peers[i].address == 0;
  assert_in_range(dials, 9, 18);
  assert_false(tkt_client_usable(f.client));
  struct tkt_call call;
  acquire(&f, &call, "k", 1, 60);
  assert_int_equal(call.outcome, TKT_PENDING); /* no verdict on the token */
  fix_end(&f);
}

static void m7_requests_in_flight_still_get_their_replies(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 60, 60, &msg);
  server_text(&f, peer, "Enot_active\n");
  turn(&f);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 7, "k");
  assert_int_equal(call.outcome, TKT_OK);
  fix_end(&f);
}

static void m11_unsent_requests_of_a_lost_session_pause_and_go_elsewhere(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  f.peers[0].room = f.peers[1].room = f.peers[2].room = 0;
  for (size_t i = 0; i < 3; i++)
    f.peers[i].mute = true; /* encoded, offered, not taken */
  struct tkt_call calls[3];
  for (int i = 0; i < 3; i++)
    acquire(&f, &calls[i], "k", 60, 60);
  turn(&f);
  f.refuse = true;
  tkt_session_eof(f.peers[0].session, f.now);
  tkt_session_eof(f.peers[1].session, f.now);
  for (int i = 0; i < 3; i++)
    assert_int_equal(calls[i].outcome, TKT_PENDING);
  unblock(&f, 2, SIZE_MAX);
  assert_int_equal(requests_left(&f), 1);
  pass(&f, 12 * TKT_MS);
  assert_int_equal(requests_left(&f), 2);
  fix_end(&f);
}

static void b3_single_among_several_addresses_is_unsupported(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.addresses[1] = "127.0.0.1:2";
  f.config.address_count = 2;
  f.greeting = NULL;
  fix_new(&f);
  turn(&f);
  server_text(&f, 1, "cluster n\n");
  turn(&f);
  assert_true(tkt_client_usable(f.client));
  struct tkt_call waiting, ready = {0}, later;
  tkt_client_cancel(f.client, &ready, f.now);
  acquire(&f, &waiting, "k", 60, 60);
  server_text(&f, 0, "single n\n"); /* two holders could be: refused by name, at once */
  assert_int_equal(waiting.outcome, TKT_UNSUPPORTED);
  acquire(&f, &later, "k", 60, 60);
  assert_int_equal(later.outcome, TKT_UNSUPPORTED);
  char text[300];
  tkt_call_explain(&later, text, sizeof text);
  assert_non_null(strstr(text, "works alone"));
  tkt_client_wait_ready(f.client, &ready, TKT_S, f.now);
  assert_int_equal(ready.outcome, TKT_UNSUPPORTED);
  turn(&f);
  assert_true(f.peers[0].closed);
  assert_int_equal(tkt_buf_len(&f.peers[0].received), 0);
  fix_end(&f);
}

static void b3_unknown_words_are_accepted(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.addresses[1] = "127.0.0.1:2";
  f.config.address_count = 2;
  f.greeting = "whatever n\n";
  fix_new(&f);
  turn(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  send_acquire(&f, &call, "k", 5, 60, &msg);
  fix_end(&f);
}

static void m7_no_leader_of_another_server_drops_the_hint_once_it_had_a_request(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  struct tkt_call call, calls[6];
  struct tkt_msg msg;
  assert_int_equal(send_acquire(&f, &call, "k", 60, 60, &msg), 0);
  server_text(&f, 1, leader_is[1]);
  server_text(&f, 0, "Eno_leader\n");
  assert_int_equal(sent_on(&f, calls, 6, 1), 3);
  fix_end(&f);
}

static void b5_a_usable_session_of_another_address_is_enough(void **state) {
  (void)state;
  for (int silent = 0; silent < 2; silent++) {
    struct fixture f;
    fix_init(&f);
    f.addresses[1] = "127.0.0.1:2";
    f.config.address_count = 2;
    f.greeting = "other n\n";
    f.welcome = NULL;
    fix_new(&f);
    turn(&f);
    server_text(&f, 0, "Eauth_failed\n");
    struct tkt_call call;
    if (silent) { /* usable without a word, so without a verdict */
      pass(&f, 110 * TKT_MS);
    } else { /* accepted, but down now */
      server_text(&f, 1, "\n");
      f.refuse = true;
      tkt_session_eof(f.peers[1].session, f.now);
    }
    acquire(&f, &call, "k", 60, 60);
    assert_int_equal(call.outcome, TKT_PENDING);
    fix_end(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(b2_without_a_hint_the_sessions_take_turns),
      TEST(b2_m6_requests_go_to_the_leader_named),
      TEST(b2_m5_m6_what_has_not_left_goes_to_the_leader_named),
      TEST(b2_what_has_not_left_goes_to_the_leader_that_came_up),
      TEST(b2_the_hint_is_dropped_with_its_session),
      TEST(b2_s3_a_leader_left_for_a_cancel_leads_on),
      TEST(b2_s6_a_leader_that_does_not_answer_leads_no_more),
      TEST(b2_a_session_that_named_another_leader_takes_no_requests_while_the_hint_lives),
      TEST(m5_moved_keeps_a_configured_leader_and_closes),
      TEST(m5_moved_before_any_request_counts_as_a_failure),
      TEST(m5_m6_m10_addresses_not_configured_are_ignored),
      TEST(m5_withdrawn_neighbours_go_on_at_the_leader),
      TEST(m7_no_leader_closes_backs_off_and_drops_the_hint),
      TEST(m7_no_leader_of_another_server_keeps_the_hint),
      TEST(m7_not_active_backs_off_doubling),
      TEST(m7_requests_in_flight_still_get_their_replies),
      TEST(m11_unsent_requests_of_a_lost_session_pause_and_go_elsewhere),
      TEST(b3_single_among_several_addresses_is_unsupported),
      TEST(b3_unknown_words_are_accepted),
      TEST(m7_no_leader_of_another_server_drops_the_hint_once_it_had_a_request),
      TEST(b5_a_usable_session_of_another_address_is_enough),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
