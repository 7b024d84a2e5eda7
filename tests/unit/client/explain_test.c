#include "unit/client/fixture.h"

static char text[512];

static void says(const struct tkt_call *call, const char *part) {
  tkt_call_explain(call, text, sizeof text);
  if (!strstr(text, part)) fail_msg("\"%s\" does not say \"%s\"", text, part);
}

static void every_outcome_of_every_kind_has_a_sentence(void **state) {
  (void)state;
  for (int kind = 0; kind <= TKT_CALL_CLOSE; kind++)
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

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(every_outcome_of_every_kind_has_a_sentence),
      TEST(the_numbers_that_explain_it_are_there),
      TEST(a_short_buffer_gets_the_beginning),
      TEST(reasons_narrow_it_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
