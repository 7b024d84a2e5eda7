#include "unit/client/fixture.h"

static char text[512];

static void says(const struct tkt_call *call, const char *part) {
  tkt_call_explain(call, text, sizeof text);
  if (!strstr(text, part)) fail_msg("\"%s\" does not say \"%s\"", text, part);
}

static void every_outcome_of_every_kind_has_a_sentence(void **state) {
  (void)state;
  for (int kind = 0; kind <= TKT_CALL_WATCH; kind++)
    for (int outcome = TKT_NO_MEMORY; outcome <= TKT_NOT_CURRENT; outcome++) {
      struct tkt_call call = {.kind = (enum tkt_call_kind)kind,
                              .outcome = (enum tkt_outcome)outcome,
                              .reason = "because"};
      size_t len = tkt_call_explain(&call, text, sizeof text);
      assert_int_equal(len, strlen(text));
      assert_true(len > strlen(": because"));
      assert_non_null(strstr(text, ": because"));
      assert_null(strstr(text, "unknown outcome"));
    }
}

static void the_numbers_that_explain_it_are_there(void **state) {
  (void)state;
  struct tkt_call call = {.kind = TKT_CALL_ACQUIRE};
  call.detail.wait_ns = 30 * TKT_S;
  call.detail.lease_ns = 60 * TKT_S;
  call.detail.budget_ns = 2500 * TKT_MS;
  call.detail.queued_ns = 58 * TKT_S;
  call.detail.remaining_ns = 2 * TKT_S;
  call.detail.limit = 66560;
  call.outcome = TKT_INSUFFICIENT_LEASE;
  says(&call, "2.000 s of the lease left");
  says(&call, "budget of 2.500 s");
  says(&call, "queued for 58.000 s");
  says(&call, "lease >= wait + budget");
  call.outcome = TKT_TIMEOUT;
  says(&call, "30 s");
  call.outcome = TKT_CLIENT_CAPACITY;
  says(&call, "66560");
  call.outcome = TKT_INDETERMINATE;
  says(&call, "58.000 s ago");
  struct tkt_call release = {.kind = TKT_CALL_RELEASE, .outcome = TKT_NOT_CURRENT};
  release.detail.attempts = 3;
  says(&release, "3 attempts");
}

static void a_short_buffer_gets_the_beginning(void **state) {
  (void)state;
  struct tkt_call call = {.kind = TKT_CALL_ACQUIRE, .outcome = TKT_BUSY};
  char small[8];
  memset(small, 'z', sizeof small);
  size_t len = tkt_call_explain(&call, small, sizeof small);
  assert_true(len > sizeof small);
  assert_string_equal(small, "the ser");
  assert_int_equal(tkt_call_explain(&call, NULL, 0), len);
}

static void reasons_narrow_it_down(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  tkt_session_failed(f.peers[peer].session, "connection reset by peer", f.now);
  says(&call, "connection reset by peer");
  fix_end(&f);
}

static void not_connected_says_why_the_last_attempt_failed(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.refuse = true;
  fix_new(&f);
  turn(&f);
  struct tkt_call call, ready = {0}, release;
  tkt_client_wait_ready(f.client, &ready, 2 * TKT_S, f.now);
  acquire(&f, &call, "k", 2, 60);
  start_release_exact(&f, &release, "k", 7);
  pass(&f, 6 * TKT_S);
  assert_int_equal(call.outcome, TKT_NOT_CONNECTED);
  says(&call, ": 127.0.0.1:5225: connection refused");
  assert_int_equal(ready.outcome, TKT_TIMEOUT);
  says(&ready, ": 127.0.0.1:5225: connection refused");
  assert_int_equal(release.outcome, TKT_NOT_CONNECTED);
  says(&release, ": 127.0.0.1:5225: connection refused");
  fix_end(&f);
}

static void not_connected_says_how_far_the_attempt_is(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.silent = true;
  fix_new(&f);
  turn(&f);
  struct tkt_call ready = {0};
  tkt_client_wait_ready(f.client, &ready, 0, f.now);
  says(&ready, ": 127.0.0.1:5225: still connecting");
  fix_end(&f);
  fix_init(&f);
  f.greeting = NULL;
  fix_new(&f);
  turn(&f);
  tkt_client_wait_ready(f.client, memset(&ready, 0, sizeof ready), 0, f.now);
  says(&ready, "has not greeted");
  server_text(&f, 0, "single nonce\n");
  tkt_client_wait_ready(f.client, memset(&ready, 0, sizeof ready), 0, f.now);
  says(&ready, "has not accepted the token yet");
  fix_end(&f);
}

static void an_old_failure_is_no_reason_any_more(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.refuse = true;
  fix_new(&f);
  turn(&f);
  f.refuse = false;
  pass(&f, 200 * TKT_MS);
  assert_int_equal(counter(&f, "sessions_usable"), 2);
  f.silent = true;
  for (int i = 0; i < 2; i++) { /* closed by us: no failure of the server's */
    struct tkt_call call;
    struct tkt_msg msg;
    size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
    tkt_client_cancel(f.client, &call, f.now);
    turn(&f);
    tkt_session_eof(f.peers[peer].session, f.now);
    turn(&f);
    assert_ptr_equal(tkt_client_next_done(f.client), &call);
  }
  struct tkt_call ready = {0};
  tkt_client_wait_ready(f.client, &ready, 0, f.now);
  assert_int_equal(ready.outcome, TKT_TIMEOUT);
  says(&ready, "still connecting");
  fix_end(&f);
}

static void auth_names_the_address_and_no_secret(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.config.token = tkt_span_str("swordfish");
  f.welcome = "Eauth_failed\n";
  fix_new(&f);
  turn(&f);
  struct tkt_call call;
  acquire(&f, &call, "k", 2, 60);
  assert_int_equal(call.outcome, TKT_AUTH);
  says(&call, ": 127.0.0.1:5225: the server refused the token");
  assert_null(strstr(text, "swordfish"));
  fix_end(&f);
}

static void b3_unsupported_names_the_server_that_works_alone(void **state) {
  (void)state;
  struct fixture f;
  fix_init(&f);
  f.addresses[1] = "127.0.0.1:2";
  f.config.address_count = 2;
  f.greeting = "single nonce\n";
  fix_new(&f);
  turn(&f);
  struct tkt_call call;
  acquire(&f, &call, "k", 2, 60);
  assert_int_equal(call.outcome, TKT_UNSUPPORTED);
  says(&call, "127.0.0.1:");
  says(&call, "works alone");
  fix_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(every_outcome_of_every_kind_has_a_sentence),
      TEST(the_numbers_that_explain_it_are_there),
      TEST(a_short_buffer_gets_the_beginning),
      TEST(reasons_narrow_it_down),
      TEST(not_connected_says_why_the_last_attempt_failed),
      TEST(not_connected_says_how_far_the_attempt_is),
      TEST(an_old_failure_is_no_reason_any_more),
      TEST(auth_names_the_address_and_no_secret),
      TEST(b3_unsupported_names_the_server_that_works_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
