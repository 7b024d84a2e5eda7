#include "unit/client/fixture.h"

static void start_small(struct fixture *f, uint32_t in_flight, uint32_t unsent) {
  fix_init(f);
  f->config.max_in_flight = in_flight;
  f->config.max_unsent = unsent;
  fix_new(f);
  turn(f);
}

static void b6_above_both_bounds_it_is_client_capacity_at_once(void **state) {
  (void)state;
  struct fixture f;
  start_small(&f, 2, 3);
  struct tkt_call calls[5], over;
  for (int i = 0; i < 5; i++)
    acquire(&f, &calls[i], "k", 60, 60);
  acquire(&f, &over, "k", 60, 60);
  assert_int_equal(over.outcome, TKT_CLIENT_CAPACITY);
  assert_int_equal(over.detail.limit, 5);
  turn(&f);
  assert_int_equal(requests_left(&f), 2);
  for (int i = 0; i < 5; i++)
    assert_int_equal(calls[i].outcome, TKT_PENDING);
  fix_end(&f);
}

static void b6_the_next_is_sent_when_a_slot_is_free(void **state) {
  (void)state;
  struct fixture f;
  start_small(&f, 1, 8);
  struct tkt_call calls[4];
  const char *keys[] = {"a", "b", "c", "d"};
  for (int i = 0; i < 4; i++)
    acquire(&f, &calls[i], keys[i], 60, 60);
  for (int i = 0; i < 4; i++) { /* in the order of the calls */
    turn(&f);
    struct tkt_msg msg;
    size_t peer = find_request(&f, &msg);
    assert_true(tkt_span_equal(msg.keys[0], tkt_span_str(keys[i])));
    assert_int_equal(requests_left(&f), 0);
    reply(&f, peer, i % 2 ? TKT_MSG_BUSY : TKT_MSG_GRANTED, msg.id, (uint64_t)(i + 1), keys[i]);
    assert_int_equal(calls[i].outcome, i % 2 ? TKT_BUSY : TKT_OK);
  }
  assert_int_equal(counter(&f, "requests_with_slot"), 0);
  fix_end(&f);
}

static void b6_every_way_to_end_frees_the_slot(void **state) {
  (void)state;
  struct fixture f;
  start_small(&f, 1, 0);
  for (int way = 0; way < 6; way++) {
    struct tkt_call call;
    struct tkt_msg msg;
    size_t peer = send_acquire(&f, &call, "k", 2, 60, &msg);
    switch (way) {
    case 0:
      reply(&f, peer, TKT_MSG_BUSY, msg.id, 0, "k");
      break;
    case 1:
      pass(&f, 2 * TKT_S);
      reply(&f, peer, TKT_MSG_TIMED_OUT, msg.id, 0, "k");
      break;
    case 2:
      tkt_client_cancel(f.client, &call, f.now);
      break;
    case 3:
      tkt_client_forget(f.client, &call, f.now);
      break;
    case 4:
      tkt_session_eof(f.peers[peer].session, f.now);
      break;
    case 5:
      pass(&f, 7100 * TKT_MS);
      break;
    }
    pass(&f, 4 * TKT_S);
    assert_int_equal(counter(&f, "requests_with_slot"), 0);
  }
  fix_end(&f);
}

static void b6_with_no_unsent_allowed_a_free_slot_still_works(void **state) {
  (void)state;
  struct fixture f;
  start_small(&f, 1, 0);
  struct tkt_call call;
  struct tkt_msg msg;
  send_acquire(&f, &call, "k", 5, 60, &msg);
  fix_end(&f);
}

static void b6_waiting_for_a_slot_keeps_the_own_deadline(void **state) {
  (void)state;
  struct fixture f;
  start_small(&f, 1, 8);
  struct tkt_call first, second;
  struct tkt_msg msg;
  size_t peer = send_acquire(&f, &first, "k", 60, 60, &msg);
  acquire(&f, &second, "k", 10, 60);
  pass(&f, 4 * TKT_S);
  reply(&f, peer, TKT_MSG_BUSY, msg.id, 0, "k");
  turn(&f);
  find_request(&f, &msg);
  assert_int_equal(msg.wait_s, 6);
  fix_end(&f);
}

static void b6_the_default_takes_1024_and_65536(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  size_t n = TKT_IN_FLIGHT_DEFAULT + TKT_UNSENT_DEFAULT;
  struct tkt_call *calls = calloc(n + 1, sizeof *calls);
  for (size_t i = 0; i <= n; i++)
    acquire(&f, &calls[i], "k", 60, 60);
  assert_int_equal(calls[n - 1].outcome, TKT_PENDING);
  assert_int_equal(calls[n].outcome, TKT_CLIENT_CAPACITY);
  turn(&f);
  assert_int_equal(requests_left(&f), TKT_IN_FLIGHT_DEFAULT);
  pass(&f, 61 * TKT_S);
  for (size_t i = TKT_IN_FLIGHT_DEFAULT; i < n; i++)
    assert_int_equal(calls[i].outcome, TKT_CLIENT_CAPACITY);
  fix_end(&f);
  free(calls);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(b6_above_both_bounds_it_is_client_capacity_at_once),
      TEST(b6_the_next_is_sent_when_a_slot_is_free),
      TEST(b6_every_way_to_end_frees_the_slot),
      TEST(b6_with_no_unsent_allowed_a_free_slot_still_works),
      TEST(b6_waiting_for_a_slot_keeps_the_own_deadline),
      TEST(b6_the_default_takes_1024_and_65536),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
