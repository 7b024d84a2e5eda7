#include "unit/client/fixture.h"

static void start_unconnected(struct fixture *f) {
  fix_init(f);
  f->refuse = true;
  fix_new(f);
  turn(f);
}

static void s6_unsent_without_any_session_is_not_connected_at_the_wait(void **state) {
  (void)state;
  struct fixture f;
  start_unconnected(&f);
  struct tkt_call call;
  acquire(&f, &call, "k", 3, 60);
  pass(&f, 2990 * TKT_MS);
  assert_int_equal(call.outcome, TKT_PENDING);
  pass(&f, 12 * TKT_MS);
  assert_int_equal(call.outcome, TKT_NOT_CONNECTED);
  fix_end(&f);
}

static void s6_unsent_although_a_session_was_usable_is_timeout(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  f.peers[0].room = f.peers[1].room = 0;
  struct tkt_call call;
  acquire(&f, &call, "k", 2, 60);
  pass(&f, 2010 * TKT_MS);
  assert_int_equal(call.outcome, TKT_TIMEOUT);
  assert_int_equal(requests_left(&f), 0);
  fix_end(&f);
}

static void s6_it_is_never_sent_as_an_immediate_try(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  acquire(&f, &call, "k", 2, 60);
  f.now += 2 * TKT_S; /* the driver slept: its timers are due, but only within this tick's grain */
  while (fix_step(&f)) {
  }
  assert_int_equal(requests_left(&f), 0);
  assert_int_equal(call.outcome, TKT_TIMEOUT);
  fix_end(&f);
}

static void s6_sent_has_5_s_more_then_indeterminate_and_the_session_closes(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 3, 60, &msg);
  pass(&f, 7990 * TKT_MS);
  assert_int_equal(call.outcome, TKT_PENDING);
  pass(&f, 15 * TKT_MS);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  assert_true(f.peers[peer].shut);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 5, "k"); /* too late for the caller: given back */
  turn(&f);
  find_request(&f, &msg);
  assert_int_equal(msg.kind, TKT_MSG_RELEASE);
  fix_end(&f);
}

static void s6_the_servers_own_t_wins_within_the_allowance(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 3, 60, &msg);
  pass(&f, 7 * TKT_S);
  reply(&f, peer, TKT_MSG_TIMED_OUT, msg.id, 0, "k");
  assert_int_equal(call.outcome, TKT_TIMEOUT);
  fix_end(&f);
}

static void s6_wait_0_has_the_allowance_alone(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 0, 60, &msg);
  assert_int_equal(msg.wait_s, 0);
  pass(&f, 4990 * TKT_MS);
  assert_int_equal(call.outcome, TKT_PENDING);
  pass(&f, 15 * TKT_MS);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  assert_true(f.peers[peer].shut);
  fix_end(&f);
}

static void s6_wait_0_answered_t_at_once_is_timeout(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 0, 60, &msg);
  reply(&f, peer, TKT_MSG_TIMED_OUT, msg.id, 0, "k");
  assert_int_equal(call.outcome, TKT_TIMEOUT);
  fix_end(&f);
}

static void s6_wait_0_unsent_is_not_connected_after_5_s(void **state) {
  (void)state;
  struct fixture f;
  start_unconnected(&f);
  struct tkt_call call;
  acquire(&f, &call, "k", 0, 60);
  pass(&f, 4990 * TKT_MS);
  assert_int_equal(call.outcome, TKT_PENDING);
  pass(&f, 15 * TKT_MS);
  assert_int_equal(call.outcome, TKT_NOT_CONNECTED);
  fix_end(&f);
}

static void s6_wait_0_is_sent_when_a_session_comes_up_in_time(void **state) {
  (void)state;
  struct fixture f;
  start_unconnected(&f);
  struct tkt_call call;
  acquire(&f, &call, "k", 0, 60);
  pass(&f, TKT_S);
  f.refuse = false;
  pass(&f, 3500 * TKT_MS);
  struct tkt_msg msg;
  find_request(&f, &msg);
  assert_int_equal(msg.wait_s, 0);
  fix_end(&f);
}

static void s6_without_a_slot_it_is_client_capacity(void **state) {
  (void)state;
  for (int wait = 0; wait <= 3; wait += 3) {
    struct fixture f;
    fix_init(&f);
    f.config.max_in_flight = 1;
    fix_new(&f);
    turn(&f);
    struct tkt_call first, second;
    struct tkt_msg msg;
    send_acquire(&f, &first, "k", 60, 60, &msg);
    acquire(&f, &second, "k", wait, 60);
    pass(&f, (wait ? wait : 5) * TKT_S + 5 * TKT_MS);
    assert_int_equal(second.outcome, TKT_CLIENT_CAPACITY);
    assert_int_equal(second.detail.limit, 1);
    fix_end(&f);
  }
}

static void s6_s4_a_process_that_slept_finds_its_replies_before_its_deadlines(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 3, 200, &msg);
  f.now += 100 * TKT_S;
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 6, "k"); /* I/O first in every turn */
  turn(&f);
  assert_int_equal(call.outcome, TKT_OK);
  fix_end(&f);
}

static void s4_what_is_readable_settles_before_a_local_close(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call calls[4];
  struct tkt_msg msgs[4];
  size_t peers[4];
  for (int i = 0; i < 4; i++)
    peers[i] = send_acquire(&f, &calls[i], "k", 60, 60, &msgs[i]);
  reply_unread(&f, peers[0], TKT_MSG_GRANTED, msgs[0].id, 12, "k");
  server_text(&f, peers[0], "A"); /* a frame that never ends: 3 s */
  pass(&f, 3100 * TKT_MS);
  assert_true(f.peers[peers[0]].closed);
  assert_true(f.peers[peers[0]].last_read);
  assert_int_equal(calls[2].outcome, TKT_INDETERMINATE);
  assert_int_equal(calls[1].outcome, TKT_PENDING);
  fix_end(&f);
}

static void s4_replies_found_in_the_last_read_settle_their_waiters(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call cancelled, neighbour, lost;
  struct tkt_call other;
  struct tkt_msg a, b, c, d;
  size_t peer = send_acquire(&f, &cancelled, "a", 5, 60, &a);
  send_acquire(&f, &other, "x", 60, 60, &d);
  send_acquire(&f, &neighbour, "b", 5, 60, &b);
  send_acquire(&f, &other, "x", 60, 60, &d);
  send_acquire(&f, &lost, "c", 5, 60, &c);
  reply_unread(&f, peer, TKT_MSG_GRANTED, a.id, 71, "a");
  reply_unread(&f, peer, TKT_MSG_GRANTED, b.id, 72, "b");
  tkt_client_cancel(f.client, &cancelled, f.now);
  pass(&f, 2100 * TKT_MS); /* no EOF: it closes hard, after a last read */
  assert_true(f.peers[peer].last_read);
  assert_int_equal(neighbour.outcome, TKT_OK);
  assert_int_equal(lost.outcome, TKT_INDETERMINATE);
  struct tkt_msg msg;
  find_request(&f, &msg);
  assert_int_equal(msg.kind, TKT_MSG_RELEASE);
  assert_int_equal(msg.token, 71);
  fix_end(&f);
}

static void s4_eof_makes_sent_acquires_indeterminate_at_once(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 60, 60, &msg);
  tkt_session_eof(f.peers[peer].session, f.now);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  assert_ptr_equal(tkt_client_next_done(f.client), &call);
  fix_end(&f);
}

static void a_wait_of_255_s_ends_at_255_s(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 255, 250, &msg);
  assert_int_equal(msg.wait_s, 255);
  pass(&f, 254500 * TKT_MS);
  assert_int_equal(call.outcome, TKT_PENDING);
  reply(&f, peer, TKT_MSG_TIMED_OUT, msg.id, 0, "k");
  assert_int_equal(call.outcome, TKT_TIMEOUT);
  fix_end(&f);
}

static void s6_wait_0_unsent_although_a_session_was_usable_is_not_connected(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  f.peers[0].room = f.peers[1].room = 0;
  struct tkt_call call;
  acquire(&f, &call, "k", 0, 60);
  turn(&f);
  f.silent = true; /* both close after 3 s without progress; nothing comes up */
  pass(&f, 5010 * TKT_MS);
  assert_int_equal(call.outcome, TKT_NOT_CONNECTED);
  fix_end(&f);
}

/* The caller asked a while before the engine heard of it, as in an event loop that was busy. */
static void s6_s7_deadlines_run_from_the_asking(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_span key = tkt_span_str("k");
  struct tkt_acquire_plan plan = {.keys = {key}, .key_count = 1, .wait_s = 20, .lease_s = 60};
  struct tkt_call call = {.asked_at = f.now - 2200 * TKT_MS};
  struct tkt_msg msg;
  tkt_client_acquire(f.client, &call, &plan, f.now);
  turn(&f);
  find_request(&f, &msg);
  assert_int_equal(msg.wait_s, 18);
  pass(&f, 22700 * TKT_MS); /* 20 + 5 - 2.2 s, less a little */
  assert_int_equal(call.outcome, TKT_PENDING);
  pass(&f, 200 * TKT_MS);
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  struct tkt_call late = {.asked_at = f.now - 21 * TKT_S};
  tkt_client_acquire(f.client, &late, &plan, f.now);
  turn(&f);
  assert_int_equal(late.outcome, TKT_TIMEOUT); /* not sent as an immediate try */
  assert_int_equal(requests_left(&f), 0);
  struct tkt_call ahead = {.asked_at = f.now + TKT_S}; /* a clock read after the turn's */
  tkt_client_acquire(f.client, &ahead, &plan, f.now);
  turn(&f);
  find_request(&f, &msg);
  assert_int_equal(msg.wait_s, 20);
  fix_end(&f);
}

static void b1_r1_readiness_and_releases_run_from_the_asking(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.silent = true;
  fix_new(&f);
  turn(&f);
  struct tkt_call ready = {.asked_at = f.now - 1500 * TKT_MS}, over = ready;
  struct tkt_call release = {.asked_at = f.now - 2 * TKT_S};
  struct tkt_span key = tkt_span_str("k");
  tkt_client_wait_ready(f.client, &ready, 2 * TKT_S, f.now);
  tkt_client_wait_ready(f.client, &over, TKT_S, f.now);
  tkt_client_release_exact(f.client, &release, &key, 1, 7, f.now);
  assert_int_equal(over.outcome, TKT_TIMEOUT);
  pass(&f, 490 * TKT_MS);
  assert_int_equal(ready.outcome, TKT_PENDING);
  pass(&f, 20 * TKT_MS);
  assert_int_equal(ready.outcome, TKT_TIMEOUT);
  pass(&f, 2480 * TKT_MS);
  assert_int_equal(release.outcome, TKT_PENDING);
  pass(&f, 20 * TKT_MS);
  assert_int_equal(release.outcome, TKT_NOT_CONNECTED);
  fix_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(s6_unsent_without_any_session_is_not_connected_at_the_wait),
      TEST(s6_unsent_although_a_session_was_usable_is_timeout),
      TEST(s6_it_is_never_sent_as_an_immediate_try),
      TEST(s6_sent_has_5_s_more_then_indeterminate_and_the_session_closes),
      TEST(s6_the_servers_own_t_wins_within_the_allowance),
      TEST(s6_wait_0_has_the_allowance_alone),
      TEST(s6_wait_0_answered_t_at_once_is_timeout),
      TEST(s6_wait_0_unsent_is_not_connected_after_5_s),
      TEST(s6_wait_0_is_sent_when_a_session_comes_up_in_time),
      TEST(s6_without_a_slot_it_is_client_capacity),
      TEST(s6_s4_a_process_that_slept_finds_its_replies_before_its_deadlines),
      TEST(s4_what_is_readable_settles_before_a_local_close),
      TEST(s4_replies_found_in_the_last_read_settle_their_waiters),
      TEST(s4_eof_makes_sent_acquires_indeterminate_at_once),
      TEST(a_wait_of_255_s_ends_at_255_s),
      TEST(s6_wait_0_unsent_although_a_session_was_usable_is_not_connected),
      TEST(s6_s7_deadlines_run_from_the_asking),
      TEST(b1_r1_readiness_and_releases_run_from_the_asking),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
