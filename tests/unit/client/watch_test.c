/* Watches: the event a chosen lead before a ticket's validity ends (G2). */
#include "unit/client/fixture.h"

static void watch(struct fixture *f, struct tkt_call *call, struct tkt_ticket *ticket,
                  int64_t lead) {
  memset(call, 0, sizeof *call);
  tkt_client_watch(f->client, call, ticket, lead, f->now);
}

static void g2_watch_ends_the_lead_before_validity_ends(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *t = hold(&f, "k", 7); /* lease 60 s */
  struct tkt_call early, late;
  watch(&f, &early, t, 20 * TKT_S);
  watch(&f, &late, t, 0);
  pass(&f, 39900 * TKT_MS);
  assert_int_equal(early.outcome, TKT_PENDING);
  pass(&f, 102 * TKT_MS);
  assert_int_equal(early.outcome, TKT_OK);
  assert_ptr_equal(tkt_client_next_done(f.client), &early);
  assert_int_equal(late.outcome, TKT_PENDING);
  pass(&f, 20 * TKT_S);
  assert_int_equal(late.outcome, TKT_OK);
  tkt_client_drop(f.client, t, f.now);
  fix_end(&f);
}

static void g2_watch_with_a_lead_that_has_come_ends_at_once(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *t = hold(&f, "k", 7);
  struct tkt_call call;
  watch(&f, &call, t, 60 * TKT_S);
  assert_int_equal(call.outcome, TKT_OK);
  watch(&f, &call, t, INT64_MAX);
  assert_int_equal(call.outcome, TKT_OK);
  pass(&f, 90 * TKT_S);
  watch(&f, &call, t, 0);
  assert_int_equal(call.outcome, TKT_OK);
  tkt_client_drop(f.client, t, f.now);
  fix_end(&f);
}

static void g2_watch_ends_as_not_current_when_the_release_is_confirmed(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *t = hold(&f, "k", 7);
  struct tkt_call call, release;
  struct tkt_msg msg;
  watch(&f, &call, t, TKT_S);
  start_release(&f, &release, t);
  turn(&f);
  assert_int_equal(call.outcome, TKT_PENDING); /* nobody knows yet */
  size_t peer = find_request(&f, &msg);
  reply(&f, peer, TKT_MSG_RELEASED, 0, 7, "k");
  assert_int_equal(call.outcome, TKT_NOT_CURRENT);
  watch(&f, &call, t, TKT_S);
  assert_int_equal(call.outcome, TKT_NOT_CURRENT);
  tkt_client_drop(f.client, t, f.now);
  fix_end(&f);
}

static void g2_watch_does_not_keep_a_dropped_ticket(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *t = hold(&f, "k", 7), *detached = hold(&f, "m", 8);
  struct tkt_call call, other;
  watch(&f, &call, t, TKT_S);
  watch(&f, &other, detached, TKT_S);
  tkt_client_drop(f.client, t, f.now);
  assert_int_equal(call.outcome, TKT_NOT_CURRENT);
  tkt_client_detach(f.client, detached);
  assert_int_equal(other.outcome, TKT_PENDING);
  tkt_client_drop(f.client, detached, f.now);
  assert_int_equal(other.outcome, TKT_NOT_CURRENT);
  assert_int_equal(counter(&f, "tickets"), 1); /* the one whose release is under way */
  fix_end(&f);
}

static void g2_watch_is_cancelled_and_forgotten(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *t = hold(&f, "k", 7);
  struct tkt_call calls[2];
  watch(&f, &calls[0], t, TKT_S);
  watch(&f, &calls[1], t, TKT_S);
  tkt_client_cancel(f.client, &calls[0], f.now);
  assert_int_equal(calls[0].outcome, TKT_CANCELLED);
  assert_ptr_equal(tkt_client_next_done(f.client), &calls[0]);
  tkt_client_forget(f.client, &calls[1], f.now);
  memset(calls, 0xa5, sizeof calls);
  pass(&f, 61 * TKT_S);
  assert_null(tkt_client_next_done(f.client));
  tkt_client_drop(f.client, t, f.now);
  fix_end(&f);
}

static void b7_close_ends_watches(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *t = hold(&f, "k", 7);
  struct tkt_call call, later, close = {0};
  watch(&f, &call, t, TKT_S);
  tkt_client_close(f.client, &close, f.now);
  assert_int_equal(call.outcome, TKT_CLOSED);
  watch(&f, &later, t, TKT_S);
  assert_int_equal(later.outcome, TKT_CLOSED);
  tkt_client_drop(f.client, t, f.now);
  turn(&f);
  fix_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(g2_watch_ends_the_lead_before_validity_ends),
      TEST(g2_watch_with_a_lead_that_has_come_ends_at_once),
      TEST(g2_watch_ends_as_not_current_when_the_release_is_confirmed),
      TEST(g2_watch_does_not_keep_a_dropped_ticket),
      TEST(g2_watch_is_cancelled_and_forgotten),
      TEST(b7_close_ends_watches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
