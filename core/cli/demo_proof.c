#include "cli/demo_proof.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct proof {
  const struct tkt_proof_plan *plan;
  void (*tell)(void *context, bool held, const char *sentence);
  void *context;
  sqlite3 *database;
  bool all_held;
};

__attribute__((format(printf, 3, 4))) static void tell(struct proof *proof, bool held,
                                                       const char *format, ...) {
  char sentence[TKT_PROOF_SENTENCE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  if (!held) proof->all_held = false;
  proof->tell(proof->context, held, sentence);
}

/* The one number `sql` gives, with ?1 and ?2 bound. False, told, where it cannot be had. */
static bool ask(struct proof *proof, const char *sql, int64_t one, int64_t two, int64_t *out) {
  sqlite3_stmt *s = NULL;
  bool got = sqlite3_prepare_v2(proof->database, sql, -1, &s, NULL) == SQLITE_OK;
  if (got) {
    if (sqlite3_bind_parameter_count(s) >= 1) sqlite3_bind_int64(s, 1, one);
    if (sqlite3_bind_parameter_count(s) >= 2) sqlite3_bind_int64(s, 2, two);
    got = sqlite3_step(s) == SQLITE_ROW;
  }
  if (got) *out = sqlite3_column_int64(s, 0);
  if (!got) tell(proof, false, "the database cannot be read: %s", sqlite3_errmsg(proof->database));
  sqlite3_finalize(s);
  return got;
}

static void prove_money(struct proof *proof) {
  int64_t sum, start = (int64_t)proof->plan->accounts * TKT_BANK_START_BALANCE;
  if (!ask(proof, "SELECT sum(balance) FROM account", 0, 0, &sum)) return;
  if (sum == start) {
    tell(proof, true, "money: %u accounts hold %lld in all, as at the start", proof->plan->accounts,
         (long long)sum);
  } else {
    tell(proof, false, "money: %u accounts hold %lld in all, %lld at the start: %lld %s",
         proof->plan->accounts, (long long)sum, (long long)start, llabs(sum - start),
         sum < start ? "are lost" : "came from nowhere");
  }
}

/* The sum could be right by luck; this looks at every account. */
static void prove_no_update_lost(struct proof *proof) {
  static const char wrong_accounts[] =
      "SELECT count(*) FROM account WHERE balance <> ?1"
      " + (SELECT coalesce(sum(amount), 0) FROM journal WHERE target = account.id)"
      " - (SELECT coalesce(sum(amount), 0) FROM journal WHERE source = account.id)";
  int64_t transfers, wrong;
  if (!ask(proof, "SELECT count(*) FROM journal", 0, 0, &transfers) ||
      !ask(proof, wrong_accounts, TKT_BANK_START_BALANCE, 0, &wrong))
    return;
  if (wrong == 0) {
    tell(proof, transfers > 0,
         "no update lost: every balance is what %lld transfers in the journal make it",
         (long long)transfers);
  } else {
    tell(proof, false,
         "updates lost: %lld of %u balances are not what %lld transfers in the journal make them",
         (long long)wrong, proof->plan->accounts, (long long)transfers);
  }
}

static void prove_order(struct proof *proof) {
  /* Journal numbers follow the order of commits: writing transactions exclude each other. */
  static const char out_of_order[] =
      "WITH use AS (SELECT seq, source AS account, source_token AS token FROM journal UNION ALL"
      " SELECT seq, target, target_token FROM journal)"
      " SELECT count(*) FROM (SELECT token <= lag(token, 1, 0) OVER"
      " (PARTITION BY account ORDER BY seq) AS wrong FROM use) WHERE wrong";
  static const char wrong_fences[] =
      "SELECT count(*) FROM account WHERE fence <> (SELECT coalesce(max(token), 0) FROM"
      " (SELECT source_token AS token FROM journal WHERE source = account.id UNION ALL"
      "  SELECT target_token FROM journal WHERE target = account.id))";
  int64_t uses, wrong, fences;
  if (!ask(proof, "SELECT 2 * count(*) FROM journal", 0, 0, &uses) ||
      !ask(proof, out_of_order, 0, 0, &wrong) || !ask(proof, wrong_fences, 0, 0, &fences))
    return;
  if (wrong == 0) {
    tell(proof, true,
         "order of tokens: on every account each token is above the one before (%lld writes)",
         (long long)uses);
  } else {
    tell(proof, false,
         "order of tokens: %lld of %lld writes have a token at or below the one before",
         (long long)wrong, (long long)uses);
  }
  if (fences)
    tell(proof, false, "fences: %lld accounts do not hold the highest token of their writes",
         (long long)fences);
}

static void prove_fencing(struct proof *proof) {
  const struct tkt_transfer *stale = proof->plan->stale;
  int64_t written, after;
  if (!ask(
          proof,
          "SELECT count(*) FROM journal WHERE source_token IN (?1, ?2) OR target_token IN (?1, ?2)",
          (int64_t)stale->source_token, (int64_t)stale->target_token, &written) ||
      !ask(proof,
           "SELECT count(*) FROM journal WHERE max(source_token, target_token) > max(?1, ?2)",
           (int64_t)stale->source_token, (int64_t)stale->target_token, &after))
    return;
  tell(proof, written == 0,
       written == 0 ? "fencing: nothing was ever written with the killed worker's tokens"
                    : "fencing: the killed worker's late write is in the journal");
  tell(proof, after > 0, "going on: %lld transfers were made with tokens above the killed worker's",
       (long long)after);
}

static void prove_file(struct proof *proof) {
  sqlite3_stmt *s = NULL;
  bool whole =
      sqlite3_prepare_v2(proof->database, "PRAGMA integrity_check", -1, &s, NULL) == SQLITE_OK &&
      sqlite3_step(s) == SQLITE_ROW &&
      sqlite3_stricmp((const char *)sqlite3_column_text(s, 0), "ok") == 0;
  sqlite3_finalize(s);
  if (!whole) tell(proof, false, "file: SQLite finds the database damaged");
}

bool tkt_demo_prove(const struct tkt_proof_plan *plan,
                    void (*told)(void *context, bool held, const char *sentence), void *context) {
  struct proof proof = {.plan = plan, .tell = told, .context = context, .all_held = true};
  if (sqlite3_open_v2(plan->database, &proof.database, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
    tell(&proof, false, "the database cannot be opened: %s",
         proof.database ? sqlite3_errmsg(proof.database) : "out of memory");
  } else {
    prove_file(&proof);
    prove_money(&proof);
    prove_no_update_lost(&proof);
    if (plan->locks) prove_order(&proof);
    if (plan->locks && plan->stale) prove_fencing(&proof);
  }
  sqlite3_close(proof.database);
  return proof.all_held;
}
