/* The blocking calls, in both modes. */
#include "unit/abi/abi_test.h"

/* Each test runs in both modes. */
#define IN_MODE(test, mode)                                                                        \
  { #test "_" #mode, test, NULL, NULL, (void *)(intptr_t)TICKETING_IO_##mode }
#define BOTH(name) IN_MODE(name, THREAD), IN_MODE(name, CALLER)

static int mode_of(void **state) {
  return (int)(intptr_t)*state;
}

static void acquire_gives_a_growing_token_and_release_returns_ok(void **state) {
  struct fixture f = start_fixture(mode_of(state));
  uint64_t last = 0;
  for (int i = 0; i < 20; i++) {
    ticketing_ticket *ticket = must_acquire(f.broker, "order-42");
    assert_true(ticketing_ticket_token(ticket) > last);
    last = ticketing_ticket_token(ticket);
    assert_int_equal(ticketing_ticket_key_count(ticket), 1);
    ticketing_key key = ticketing_ticket_key(ticket, 0);
    assert_int_equal(key.len, 8);
    assert_memory_equal(key.data, "order-42", 8);
    assert_null(ticketing_ticket_key(ticket, 1).data);
    int64_t left = ticketing_ticket_remaining_ns(ticket);
    assert_true(left > 0 && left <= 30 * TICKETING_SECOND);
    assert_true(ticketing_ticket_valid_until_ns(ticket) > ticketing_now_ns());
    assert_int_equal(ticketing_ticket_release(ticket, NULL), TICKETING_OK);
    assert_int_equal(ticketing_ticket_release(ticket, NULL), TICKETING_OK); /* the same again */
    ticketing_ticket_free(ticket);
  }
  assert_int_equal(atomic_load(&f.server->releases), 20);
  end_fixture(&f);
}

static void m3_timeout_leaves_nothing_behind(void **state) {
  struct fixture f = start_fixture(mode_of(state));
  ticketing_ticket *holder = must_acquire(f.broker, "k"), *other = holder;
  char message[TICKETING_MESSAGE_SIZE] = "";
  assert_int_equal(acquire(f.broker, "k", 0, &other, message), TICKETING_E_TIMEOUT);
  assert_null(other);
  assert_true(strlen(message) > 0);
  assert_int_equal(acquire(f.broker, "k", 1, &other, message), TICKETING_E_TIMEOUT);
  ticketing_ticket_free(holder); /* R3: a dropped ticket is released */
  other = must_acquire(f.broker, "k");
  ticketing_ticket_free(other);
  end_fixture(&f);
}

static void m4_busy_is_definitive(void **state) {
  struct fixture f = start_fixture(mode_of(state));
  atomic_store(&f.server->busy, true);
  ticketing_ticket *ticket;
  char message[TICKETING_MESSAGE_SIZE] = "";
  assert_int_equal(acquire(f.broker, "k", 5, &ticket, message), TICKETING_E_BUSY);
  assert_non_null(strstr(message, "capacity"));
  assert_int_equal(atomic_load(&f.server->acquires), 1);
  end_fixture(&f);
}

static void r2_release_of_a_foreign_token_is_not_current(void **state) {
  struct fixture f = start_fixture(mode_of(state));
  ticketing_key key = {"k", 1};
  char message[TICKETING_MESSAGE_SIZE] = "";
  assert_int_equal(ticketing_release(f.broker, &key, 1, 4711, message), TICKETING_NOT_CURRENT);
  ticketing_ticket *ticket = must_acquire(f.broker, "k");
  uint64_t token = ticketing_ticket_token(ticket);
  ticketing_ticket_detach(ticket); /* G4: freeing it releases nothing */
  ticketing_ticket_free(ticket);
  assert_int_equal(ticketing_release(f.broker, &key, 1, token, message), TICKETING_OK);
  end_fixture(&f);
}

static void b5_refused_everywhere_is_auth(void **state) {
  struct lock_server *server = lock_server_start();
  atomic_store(&server->refuse_proof, true);
  ticketing_broker *broker = open_broker(server->address, mode_of(state));
  assert_int_equal(ticketing_broker_wait_ready(broker, 20 * TICKETING_SECOND), TICKETING_E_AUTH);
  ticketing_ticket *ticket;
  char message[TICKETING_MESSAGE_SIZE] = "";
  assert_int_equal(acquire(broker, "k", 5, &ticket, message), TICKETING_E_AUTH);
  assert_int_equal(ticketing_broker_close(broker), TICKETING_OK);
  ticketing_broker_free(broker);
  lock_server_stop(server);
}

static void b1_wait_ready_ends_at_its_timeout(void **state) {
  struct lock_server *server = lock_server_start();
  char address[32];
  snprintf(address, sizeof address, "%s", server->address);
  lock_server_stop(server); /* nobody listens there now */
  ticketing_broker *broker = open_broker(address, mode_of(state));
  assert_int_equal(ticketing_broker_wait_ready(broker, 50 * TICKETING_MILLISECOND),
                   TICKETING_E_TIMEOUT);
  assert_int_equal(ticketing_broker_wait_ready(broker, 0), TICKETING_E_TIMEOUT);
  ticketing_ticket *ticket;
  assert_int_equal(acquire(broker, "k", 1, &ticket, NULL), TICKETING_E_NOT_CONNECTED);
  ticketing_broker_free(broker);
}

static void b7_after_close_everything_answers_closed(void **state) {
  struct fixture f = start_fixture(mode_of(state));
  ticketing_ticket *ticket = must_acquire(f.broker, "k"), *done = must_acquire(f.broker, "l"),
                   *none;
  assert_int_equal(ticketing_ticket_release(done, NULL), TICKETING_OK);
  assert_int_equal(ticketing_broker_close(f.broker), TICKETING_OK);
  assert_int_equal(ticketing_broker_close(f.broker), TICKETING_OK);
  char message[TICKETING_MESSAGE_SIZE] = "";
  assert_int_equal(acquire(f.broker, "m", 1, &none, message), TICKETING_E_CLOSED);
  assert_true(strlen(message) > 0);
  assert_int_equal(ticketing_ticket_release(ticket, NULL), TICKETING_E_CLOSED);
  assert_int_equal(ticketing_ticket_release(done, NULL), TICKETING_OK);
  assert_int_equal(ticketing_broker_wait_ready(f.broker, TICKETING_SECOND), TICKETING_E_CLOSED);
  ticketing_key key = {"k", 1};
  assert_int_equal(ticketing_release(f.broker, &key, 1, 1, NULL), TICKETING_E_CLOSED);
  assert_true(ticketing_ticket_token(ticket) > 0); /* still tells what it was */
  ticketing_ticket_free(ticket);
  ticketing_ticket_free(done);
  ticketing_broker_free(f.broker);
  f.broker = NULL;
  end_fixture(&f);
}

static void r1_release_without_an_answer_is_indeterminate_and_the_ticket_stays(void **state) {
  struct fixture f = start_fixture(mode_of(state));
  ticketing_ticket *ticket = must_acquire(f.broker, "k");
  atomic_store(&f.server->mute, true);
  char message[TICKETING_MESSAGE_SIZE] = "";
  assert_int_equal(ticketing_ticket_release(ticket, message), TICKETING_E_INDETERMINATE);
  assert_true(strlen(message) > 0);
  atomic_store(&f.server->mute, false);
  /* A new call takes over the attempts in flight; whichever late reply comes first settles it (R3).
   */
  int rc = ticketing_ticket_release(ticket, message);
  assert_true(rc == TICKETING_OK || rc == TICKETING_NOT_CURRENT);
  /* The other attempt's R may still prove that it was our own release. */
  int again = ticketing_ticket_release(ticket, message);
  assert_true(again == rc || again == TICKETING_OK);
  ticketing_ticket_free(ticket);
  end_fixture(&f);
}

static void g1_budget_of_the_whole_lease_cannot_be_met(void **state) {
  struct fixture f = start_fixture(mode_of(state));
  ticketing_key key = {"k", 1};
  ticketing_acquire_params p = params_for(&key, 1);
  p.budget_ns = p.lease_ns;
  ticketing_ticket *ticket;
  char message[TICKETING_MESSAGE_SIZE] = "";
  assert_int_equal(ticketing_acquire(f.broker, &p, &ticket, message),
                   TICKETING_E_INSUFFICIENT_LEASE);
  assert_non_null(strstr(message, "budget"));
  EVENTUALLY((ticketing_broker_wait_ready(f.broker, 0), atomic_load(&f.server->held_now) == 0));
  end_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      BOTH(acquire_gives_a_growing_token_and_release_returns_ok),
      BOTH(m3_timeout_leaves_nothing_behind),
      BOTH(m4_busy_is_definitive),
      BOTH(r2_release_of_a_foreign_token_is_not_current),
      BOTH(b5_refused_everywhere_is_auth),
      BOTH(b1_wait_ready_ends_at_its_timeout),
      BOTH(b7_after_close_everything_answers_closed),
      BOTH(r1_release_without_an_answer_is_indeterminate_and_the_ticket_stays),
      BOTH(g1_budget_of_the_whole_lease_cannot_be_met),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
