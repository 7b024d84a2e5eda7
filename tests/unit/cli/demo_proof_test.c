/* The demo's proof is worth something only if it fails when it should: each test breaks one thing
 * in a database that would pass. */
#include "cli/demo_proof.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ACCOUNTS = 4 };

struct place {
  char folder[64];
  char database[96];
  struct tkt_bank *bank;
  char why[TKT_BANK_WHY_SIZE];
  int failed;
  char sentences[4096];
};

/* A transfer under locks with these tokens, reading first as a worker does. */
static enum tkt_bank_write transfer(struct place *p, uint32_t source, uint32_t target,
                                    uint64_t source_token, uint64_t target_token) {
  struct tkt_transfer t = {.worker = 1,
                           .source = source,
                           .target = target,
                           .amount = 10,
                           .source_token = source_token,
                           .target_token = target_token};
  assert_true(tkt_bank_read(p->bank, &t, p->why));
  return tkt_bank_write(p->bank, &t, p->why);
}

static int setup(void **state) {
  struct place *p = calloc(1, sizeof *p);
  if (!p) return -1;
  *state = p;
  strcpy(p->folder, "/tmp/ticketing-proof-XXXXXX");
  if (!mkdtemp(p->folder)) return -1;
  snprintf(p->database, sizeof p->database, "%s/accounts.db", p->folder);
  if (!tkt_bank_create(p->database, ACCOUNTS, p->why)) return -1;
  if (!tkt_bank_open(p->database, &p->bank, p->why)) return -1;
  assert_int_equal(transfer(p, 1, 2, 101, 102), TKT_BANK_WRITTEN);
  assert_int_equal(transfer(p, 3, 2, 104, 103), TKT_BANK_WRITTEN);
  assert_int_equal(transfer(p, 2, 1, 110, 111), TKT_BANK_WRITTEN);
  return 0;
}

static int teardown(void **state) {
  struct place *p = *state;
  tkt_bank_close(p->bank);
  char path[128];
  const char *const endings[] = {"", "-wal", "-shm"};
  for (size_t i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s%s", p->database, endings[i]);
    unlink(path);
  }
  rmdir(p->folder);
  free(p);
  return 0;
}

static void vandalise(struct place *p, const char *sql) {
  sqlite3 *database;
  assert_int_equal(sqlite3_open(p->database, &database), SQLITE_OK);
  assert_int_equal(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_close(database), SQLITE_OK);
}

static void hear(void *context, bool held, const char *sentence) {
  struct place *p = context;
  if (!held) p->failed++;
  strncat(p->sentences, sentence, sizeof p->sentences - strlen(p->sentences) - 2);
  strcat(p->sentences, "\n");
}

static bool prove(struct place *p, const struct tkt_transfer *stale) {
  struct tkt_proof_plan plan = {
      .database = p->database, .accounts = ACCOUNTS, .locks = true, .stale = stale};
  return tkt_demo_prove(&plan, hear, p);
}

static void a_sound_database_passes(void **state) {
  struct place *p = *state;
  const struct tkt_transfer stale = {.source_token = 105, .target_token = 106};
  assert_true(prove(p, &stale));
  assert_int_equal(p->failed, 0);
}

static void changed_money_fails(void **state) {
  struct place *p = *state;
  vandalise(p, "UPDATE account SET balance = balance + 1 WHERE id = 4");
  assert_false(prove(p, NULL));
  assert_non_null(strstr(p->sentences, "1 came from nowhere"));
}

static void money_on_the_wrong_accounts_fails_though_the_sum_is_right(void **state) {
  struct place *p = *state;
  vandalise(p, "UPDATE account SET balance = balance + 5 WHERE id = 4;"
               "UPDATE account SET balance = balance - 5 WHERE id = 1");
  assert_false(prove(p, NULL));
  assert_int_equal(p->failed, 1);
  assert_non_null(strstr(p->sentences, "updates lost: 2 of 4"));
}

/* What two workers without a lock do: both read, both write. */
static void a_lost_update_fails(void **state) {
  struct place *p = *state;
  struct tkt_transfer one = {.worker = 1, .source = 1, .target = 4, .amount = 10};
  struct tkt_transfer two = {.worker = 2, .source = 4, .target = 3, .amount = 20};
  assert_true(tkt_bank_read(p->bank, &one, p->why));
  assert_true(tkt_bank_read(p->bank, &two, p->why));
  assert_int_equal(tkt_bank_write(p->bank, &one, p->why), TKT_BANK_WRITTEN);
  assert_int_equal(tkt_bank_write(p->bank, &two, p->why), TKT_BANK_WRITTEN);
  assert_false(prove(p, NULL));
  assert_non_null(strstr(p->sentences, "10 are lost"));
}

static void tokens_out_of_order_fail(void **state) {
  struct place *p = *state;
  vandalise(p, "UPDATE journal SET target_token = 101 WHERE seq = 2");
  assert_false(prove(p, NULL));
  assert_non_null(strstr(p->sentences, "1 of 6 writes"));
}

static void a_token_used_twice_fails(void **state) {
  struct place *p = *state;
  vandalise(p, "UPDATE journal SET target_token = 102 WHERE seq = 2");
  assert_false(prove(p, NULL));
  assert_non_null(strstr(p->sentences, "1 of 6 writes"));
}

static void a_fence_that_fell_fails(void **state) {
  struct place *p = *state;
  vandalise(p, "UPDATE account SET fence = 103 WHERE id = 2");
  assert_false(prove(p, NULL));
  assert_non_null(strstr(p->sentences, "fences: 1 account"));
}

static void a_write_with_the_killed_workers_token_fails(void **state) {
  struct place *p = *state;
  const struct tkt_transfer stale = {.source_token = 104, .target_token = 100};
  assert_false(prove(p, &stale));
  assert_non_null(strstr(p->sentences, "late write is in the journal"));
}

static void nobody_going_on_after_the_kill_fails(void **state) {
  struct place *p = *state;
  const struct tkt_transfer stale = {.source_token = 200, .target_token = 201};
  assert_false(prove(p, &stale));
}

static void an_empty_journal_proves_nothing(void **state) {
  struct place *p = *state;
  vandalise(p, "DELETE FROM journal; UPDATE account SET balance = 1000, fence = 0");
  assert_false(prove(p, NULL));
}

static void a_missing_database_fails(void **state) {
  struct place *p = *state;
  struct tkt_proof_plan plan = {
      .database = "/nonexistent/accounts.db", .accounts = ACCOUNTS, .locks = true};
  assert_false(tkt_demo_prove(&plan, hear, p));
}

static void f1_bank_refuses_a_token_at_or_below_the_high_water_of_either_account(void **state) {
  struct place *p = *state;
  uint64_t fence;
  assert_int_equal(transfer(p, 1, 4, 111, 120), TKT_BANK_FENCED); /* at the mark */
  assert_int_equal(transfer(p, 1, 4, 50, 120), TKT_BANK_FENCED);  /* below it */
  assert_int_equal(transfer(p, 4, 1, 120, 111), TKT_BANK_FENCED); /* the second account */
  assert_true(tkt_bank_high_water(p->bank, 4, &fence, p->why));
  assert_int_equal(fence, 0); /* refused as a whole: the other account was not touched */
  assert_int_equal(transfer(p, 1, 4, 112, 120), TKT_BANK_WRITTEN);
  assert_true(tkt_bank_high_water(p->bank, 1, &fence, p->why));
  assert_int_equal(fence, 112);
  assert_true(prove(p, NULL));
}

static void the_successor_is_the_first_writer_above_a_token(void **state) {
  struct place *p = *state;
  uint32_t worker;
  uint64_t token;
  assert_true(tkt_bank_successor(p->bank, 2, 102, &worker, &token, p->why));
  assert_int_equal(worker, 1);
  assert_int_equal(token, 103);
  assert_true(tkt_bank_successor(p->bank, 2, 110, &worker, &token, p->why));
  assert_int_equal(worker, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      T(a_sound_database_passes),
      T(changed_money_fails),
      T(money_on_the_wrong_accounts_fails_though_the_sum_is_right),
      T(a_lost_update_fails),
      T(tokens_out_of_order_fail),
      T(a_token_used_twice_fails),
      T(a_fence_that_fell_fails),
      T(a_write_with_the_killed_workers_token_fails),
      T(nobody_going_on_after_the_kill_fails),
      T(an_empty_journal_proves_nothing),
      T(a_missing_database_fails),
      T(f1_bank_refuses_a_token_at_or_below_the_high_water_of_either_account),
      T(the_successor_is_the_first_writer_above_a_token),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
