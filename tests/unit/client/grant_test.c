#include "unit/client/fixture.h"

static void g1_a_ticket_is_valid_from_the_sending_on(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  int64_t sent_at = f.now;
  size_t peer = send_acquire(&f, &call, "k", 20, 60, &msg);
  pass(&f, 15 * TKT_S);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 9, "k");
  struct tkt_ticket *ticket;
  assert_int_equal(tkt_client_take(f.client, &call, f.now, &ticket), TKT_OK);
  assert_int_equal(tkt_ticket_valid_until(ticket), sent_at + 60 * TKT_S);
  assert_int_equal(tkt_ticket_token(ticket), 9);
  assert_int_equal(tkt_ticket_key_count(ticket), 1);
  assert_true(tkt_span_equal(tkt_ticket_key(ticket, 0), tkt_span_str("k")));
  assert_int_equal(tkt_ticket_key(ticket, 1).len, 0);
  assert_int_equal(call.detail.queued_ns, 15 * TKT_S);
  fix_end(&f);
}

static void g1_an_insufficient_grant_settles_so_and_is_released(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  acquire_budget(&f, &call, "k", 20, 10, 4 * TKT_S + TKT_MS);
  turn(&f);
  struct tkt_msg msg;
  size_t peer = find_request(&f, &msg);
  pass(&f, 6 * TKT_S);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 14, "k");
  assert_int_equal(call.outcome, TKT_INSUFFICIENT_LEASE);
  assert_int_equal(call.detail.remaining_ns, 4 * TKT_S);
  assert_int_equal(call.detail.queued_ns, 6 * TKT_S);
  assert_int_equal(counter(&f, "acquires_insufficient_lease"), 1);
  struct tkt_ticket *ticket;
  assert_int_equal(tkt_client_take(f.client, &call, f.now, &ticket), TKT_INSUFFICIENT_LEASE);
  turn(&f);
  find_request(&f, &msg);
  assert_int_equal(msg.kind, TKT_MSG_RELEASE);
  assert_int_equal(msg.token, 14);
  fix_end(&f);
}

static void g1_exactly_the_budget_is_enough_and_nothing_left_is_not(void **state) {
  (void)state;
  for (int s = 6; s <= 10; s += 4) {
    struct fixture f;
    fix_start(&f);
    struct tkt_call call;
    acquire_budget(&f, &call, "k", 20, 10, s == 6 ? 4 * TKT_S : 0);
    turn(&f);
    struct tkt_msg msg;
    size_t peer = find_request(&f, &msg);
    pass(&f, s * TKT_S);
    reply(&f, peer, TKT_MSG_GRANTED, msg.id, 14, "k");
    assert_int_equal(call.outcome, s == 6 ? TKT_OK : TKT_INSUFFICIENT_LEASE);
    fix_end(&f);
  }
}

static void g1_the_taker_decides_again_with_a_fresh_now(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  acquire_budget(&f, &call, "k", 5, 10, 4 * TKT_S);
  turn(&f);
  struct tkt_msg msg;
  size_t peer = find_request(&f, &msg);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 15, "k");
  assert_int_equal(call.outcome, TKT_OK);
  f.now += 7 * TKT_S;
  struct tkt_ticket *ticket;
  assert_int_equal(tkt_client_take(f.client, &call, f.now, &ticket), TKT_INSUFFICIENT_LEASE);
  assert_null(ticket);
  assert_int_equal(call.outcome, TKT_INSUFFICIENT_LEASE);
  assert_int_equal(call.detail.remaining_ns, 3 * TKT_S);
  turn(&f);
  find_request(&f, &msg);
  assert_int_equal(msg.kind, TKT_MSG_RELEASE);
  assert_int_equal(tkt_client_take(f.client, &call, f.now, &ticket), TKT_INSUFFICIENT_LEASE);
  fix_end(&f);
}

static void a_ticket_is_taken_once(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  struct tkt_ticket *ticket;
  acquire(&f, &call, "k", 5, 60);
  assert_int_equal(tkt_client_take(f.client, &call, f.now, &ticket), TKT_PENDING);
  turn(&f);
  size_t peer = find_request(&f, &msg);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 3, "k");
  assert_int_equal(tkt_client_take(f.client, &call, f.now, &ticket), TKT_OK);
  assert_non_null(ticket);
  assert_int_equal(tkt_client_take(f.client, &call, f.now, &ticket), TKT_INVALID_ARGUMENT);
  assert_null(ticket);
  fix_end(&f);
}

static void g4_a_detached_ticket_is_not_released_by_a_drop(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 5);
  tkt_client_detach(f.client, ticket);
  tkt_client_drop(f.client, ticket, f.now);
  pass(&f, 10 * TKT_S);
  assert_int_equal(requests_left(&f), 0);
  assert_int_equal(counter(&f, "tickets"), 0);
  struct tkt_call call; /* it is the holder's to release, by key and token */
  start_release_exact(&f, &call, "k", 5);
  turn(&f);
  struct tkt_msg msg;
  size_t peer = find_request(&f, &msg);
  assert_int_equal(msg.token, 5);
  reply(&f, peer, TKT_MSG_RELEASED, 0, 5, "k");
  assert_int_equal(call.outcome, TKT_OK);
  assert_int_equal(counter(&f, "tickets"), 0);
  fix_end(&f);
}

static void g4_a_detached_ticket_may_still_be_released(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_ticket *ticket = hold(&f, "k", 5);
  tkt_client_detach(f.client, ticket);
  struct tkt_call call;
  start_release(&f, &call, ticket);
  turn(&f);
  struct tkt_msg msg;
  size_t peer = find_request(&f, &msg);
  reply(&f, peer, TKT_MSG_RELEASED, 0, 5, "k");
  assert_int_equal(call.outcome, TKT_OK);
  tkt_client_drop(f.client, ticket, f.now);
  assert_int_equal(counter(&f, "tickets"), 0);
  fix_end(&f);
}

static void a_grant_with_token_0_is_malformed(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_call call;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &call, "k", 5, 60, &msg);
  reply(&f, peer, TKT_MSG_GRANTED, msg.id, 0, "k");
  assert_int_equal(call.outcome, TKT_INDETERMINATE);
  turn(&f);
  assert_true(f.peers[peer].closed);
  fix_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(g1_a_ticket_is_valid_from_the_sending_on),
      TEST(g1_an_insufficient_grant_settles_so_and_is_released),
      TEST(g1_exactly_the_budget_is_enough_and_nothing_left_is_not),
      TEST(g1_the_taker_decides_again_with_a_fresh_now),
      TEST(a_ticket_is_taken_once),
      TEST(g4_a_detached_ticket_is_not_released_by_a_drop),
      TEST(g4_a_detached_ticket_may_still_be_released),
      TEST(a_grant_with_token_0_is_malformed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
