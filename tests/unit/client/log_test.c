/* The log ring: what it notes, its bound, and what never stands in it. */
#include "unit/client/fixture.h"

static char text[512];

/* Drains the log; true where an entry's sentence holds `part`, *entry: that one. */
static bool logged(struct fixture *f, const char *part, struct tkt_log_entry *entry) {
  struct tkt_log_entry e;
  bool found = false;
  while (tkt_client_log_next(f->client, &e)) {
    size_t len = tkt_log_sentence(&e, text, sizeof text);
    assert_int_equal(len, strlen(text));
    if (strstr(text, part)) {
      *entry = e;
      found = true;
    }
  }
  return found;
}

static void sessions_are_noted_with_address_and_instant(void **state) {
  (void)state;
  struct fixture f;
  struct tkt_log_entry e;
  fix_start(&f);
  assert_true(logged(&f, "127.0.0.1:5225: session usable after 0 ms", &e));
  assert_int_equal(e.level, TKT_LOG_INFO);
  assert_int_equal(e.at, f.now);
  assert_false(tkt_client_log_next(f.client, &e));
  f.now += TKT_S;
  tkt_session_failed(f.peers[0].session, "connection reset by peer", f.now);
  f.refuse = true;
  assert_true(logged(&f, "127.0.0.1:5225: the session ended: connection reset by peer", &e));
  assert_int_equal(e.level, TKT_LOG_WARNING);
  pass(&f, 200 * TKT_MS);
  assert_true(logged(&f, "127.0.0.1:5225: no session came up: connection refused", &e));
  fix_end(&f);
}

static void faults_and_refusals_are_errors(void **state) {
  (void)state;
  struct fixture f;
  struct tkt_log_entry e;
  fix_start(&f);
  server_text(&f, 0, "?");
  assert_true(logged(&f, "unknown reply", &e));
  assert_int_equal(e.level, TKT_LOG_ERROR);
  f.welcome = "Eauth_failed\n";
  tkt_session_eof(f.peers[1].session, f.now);
  pass(&f, 200 * TKT_MS);
  assert_true(logged(&f, "refused the token", &e));
  assert_int_equal(e.level, TKT_LOG_ERROR);
  fix_end(&f);
}

static void m10_a_foreign_leader_is_noted_once_an_address(void **state) {
  (void)state;
  struct fixture f;
  struct tkt_log_entry e;
  fix_start_cluster(&f, 3);
  server_text(&f, 0, "Lelsewhere:1\n");
  assert_true(logged(&f, "127.0.0.1:1: it named a leader that is not", &e));
  server_text(&f, 0, "Lelsewhere:2\n");
  assert_false(logged(&f, "it named", &e));
  server_text(&f, 1, "Lelsewhere:2\n");
  assert_true(logged(&f, "127.0.0.1:2: it named a leader that is not", &e));
  server_text(&f, 1, "L127.0.0.1:3\n");
  assert_true(logged(&f, "127.0.0.1:3: named as the leader", &e));
  server_text(&f, 2, "L127.0.0.1:3\n");
  assert_false(logged(&f, "named as the leader", &e)); /* nothing new */
  fix_end(&f);
}

static void what_is_not_drained_is_overwritten_and_counted(void **state) {
  (void)state;
  struct fixture f;
  struct tkt_log_entry e;
  fix_start(&f);
  while (tkt_client_log_next(f.client, &e)) {
  }
  for (int i = 0; i < TKT_LOG_ENTRIES + 5; i++)
    tkt_client_note(f.client, TKT_LOG_WARNING, i < 5 ? "old" : "new");
  assert_true(tkt_client_log_next(f.client, &e));
  assert_string_equal(e.text, "new");
  assert_int_equal(e.lost, 5);
  int n = 1;
  for (; tkt_client_log_next(f.client, &e); n++)
    assert_int_equal(e.lost, 0);
  assert_int_equal(n, TKT_LOG_ENTRIES);
  fix_end(&f);
}

static void t3_neither_token_nor_proof_stands_in_it(void **state) {
  (void)state;
  struct fixture f;
  struct tkt_log_entry e;
  fix_init(&f);
  f.config.token = tkt_span_str("swordfish");
  f.welcome = "Eauth_failed\n";
  fix_new(&f);
  pass(&f, 10 * TKT_S);
  char proof[TKT_WIRE2_PROOF_LEN + 1] = "";
  assert_true(tkt_wire2_proof(f.config.token, tkt_span_str("nonce-1"), proof));
  int n = 0;
  for (; tkt_client_log_next(f.client, &e); n++) {
    tkt_log_sentence(&e, text, sizeof text);
    assert_null(strstr(text, "swordfish"));
    assert_null(strstr(text, proof));
  }
  assert_true(n > 4);
  fix_end(&f);
}

static void a_short_buffer_gets_the_beginning(void **state) {
  (void)state;
  struct tkt_log_entry e = {.text = "after # ms", .number = -12, .where = "h:1", .reason = "why"};
  char small[6];
  assert_int_equal(tkt_log_sentence(&e, small, sizeof small), strlen("h:1: after -12 ms: why"));
  assert_string_equal(small, "h:1: ");
  assert_int_equal(tkt_log_sentence(&e, NULL, 0), strlen("h:1: after -12 ms: why"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(sessions_are_noted_with_address_and_instant),
      TEST(faults_and_refusals_are_errors),
      TEST(m10_a_foreign_leader_is_noted_once_an_address),
      TEST(what_is_not_drained_is_overwritten_and_counted),
      TEST(t3_neither_token_nor_proof_stands_in_it),
      TEST(a_short_buffer_gets_the_beginning),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
