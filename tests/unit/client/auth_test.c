#include "unit/client/fixture.h"

static void start_refusing(struct fixture *f) {
  fix_init(f);
  f->welcome = "Eauth_failed\n";
  fix_new(f);
  turn(f);
}

static void b5_acquires_fail_with_auth_at_once(void **state) {
  (void)state;
  struct fixture f;
  start_refusing(&f);
  struct tkt_call call;
  acquire(&f, &call, "k", 5, 60);
  assert_int_equal(call.outcome, TKT_AUTH);
  pass(&f, 10 * TKT_S);
  acquire(&f, &call, "k", 5, 60);
  assert_int_equal(call.outcome, TKT_AUTH);
  fix_end(&f);
}

static void b5_those_that_wait_end_when_the_verdict_comes(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.welcome = NULL;
  f.config.max_in_flight = 2;
  fix_new(&f);
  turn(&f);
  struct tkt_call calls[4];
  for (int i = 0; i < 4; i++)
    acquire(&f, &calls[i], "k", 60, 60);
  turn(&f);
  server_text(&f, 0, "Eauth_failed\n");
  for (int i = 0; i < 4; i++)
    assert_int_equal(calls[i].outcome, TKT_AUTH);
  fix_end(&f);
}

static void b1_b5_wait_ready_returns_early_with_auth(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.welcome = NULL;
  fix_new(&f);
  turn(&f);
  struct tkt_call before = {0}, after = {0};
  tkt_client_wait_ready(f.client, &before, 60 * TKT_S, f.now);
  server_text(&f, 0, "Eauth_failed\n");
  assert_int_equal(before.outcome, TKT_AUTH);
  tkt_client_wait_ready(f.client, &after, 60 * TKT_S, f.now);
  assert_int_equal(after.outcome, TKT_AUTH);
  fix_end(&f);
}

static void b5_m7_reconnects_go_on_at_the_longest_backoff_and_heal(void **state) {
  (void)state;
  struct fixture f;
  start_refusing(&f);
  pass(&f, 1500 * TKT_MS);
  assert_int_equal(f.peer_count, 2);
  pass(&f, 1800 * TKT_MS);
  assert_int_equal(f.peer_count, 4);
  f.welcome = "\n";
  pass(&f, 3300 * TKT_MS);
  assert_true(tkt_client_usable(f.client));
  struct tkt_call call;
  struct tkt_msg msg;
  send_acquire(&f, &call, "k", 5, 60, &msg);
  assert_int_equal(call.outcome, TKT_PENDING);
  fix_end(&f);
}

static void b5_an_unreachable_server_is_not_auth(void **state) {
  (void)state;
  struct fixture f;
  start_refusing(&f);
  f.refuse = true;
  pass(&f, 3300 * TKT_MS);
  struct tkt_call call;
  acquire(&f, &call, "k", 1, 60);
  assert_int_equal(call.outcome, TKT_PENDING); /* the last attempt reached no verdict */
  pass(&f, 1010 * TKT_MS);
  assert_int_equal(call.outcome, TKT_NOT_CONNECTED);
  fix_end(&f);
}

static void b5_one_address_of_several_that_refuses_is_not_enough_for_wait_ready(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.addresses[1] = "127.0.0.1:2";
  f.config.address_count = 2;
  f.welcome = NULL;
  fix_new(&f);
  turn(&f);
  struct tkt_call ready = {0}, call;
  tkt_client_wait_ready(f.client, &ready, 60 * TKT_S, f.now);
  acquire(&f, &call, "k", 60, 60);
  server_text(&f, 0, "Eauth_failed\n");
  assert_int_equal(ready.outcome, TKT_PENDING);
  assert_int_equal(call.outcome, TKT_AUTH); /* every address that reached a verdict refused */
  server_text(&f, 1, "\n");
  assert_int_equal(ready.outcome, TKT_OK);
  acquire(&f, &call, "k", 60, 60);
  assert_int_equal(call.outcome, TKT_PENDING);
  fix_end(&f);
}

static void t3_the_token_never_shows(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.config.token = tkt_span_str("hunter2-secret");
  f.welcome = "Eauth_failed\n";
  fix_new(&f);
  turn(&f);
  struct tkt_call call;
  acquire(&f, &call, "k", 5, 60);
  char text[512];
  tkt_call_explain(&call, text, sizeof text);
  assert_null(strstr(text, "hunter2"));
  for (size_t i = 0; i < 2; i++) {
    struct tkt_span sent = tkt_buf_span(&f.peers[i].received);
    assert_int_equal(sent.len, TKT_WIRE2_PROOF_LEN + 1);
    assert_null(memmem(sent.data, sent.len, "hunter2", 7));
  }
  fix_end(&f);
}

static void t2_a_token_may_be_absent_or_long(void **state) {
  (void)state;
  static uint8_t token[100000];
  memset(token, 7, sizeof token);
  for (int i = 0; i < 2; i++) {
    struct fixture f;
    fix_init(&f);
    f.config.token = tkt_span(token, i ? sizeof token : 0);
    fix_new(&f);
    turn(&f);
    assert_true(tkt_client_usable(f.client));
    fix_end(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(b5_acquires_fail_with_auth_at_once),
      TEST(b5_those_that_wait_end_when_the_verdict_comes),
      TEST(b1_b5_wait_ready_returns_early_with_auth),
      TEST(b5_m7_reconnects_go_on_at_the_longest_backoff_and_heal),
      TEST(b5_an_unreachable_server_is_not_auth),
      TEST(b5_one_address_of_several_that_refuses_is_not_enough_for_wait_ready),
      TEST(t3_the_token_never_shows),
      TEST(t2_a_token_may_be_absent_or_long),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
