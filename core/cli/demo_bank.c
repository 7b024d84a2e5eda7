#include "cli/demo_bank.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

/* Writers queue for SQLite's own write lock for an instant only: the thinking is done outside. */
enum { BUSY_LIMIT_MS = 10000 };

enum statement {
  BEGIN_READ,
  BEGIN_WRITE,
  COMMIT,
  ROLLBACK,
  READ_BALANCE,
  READ_FENCE,
  WRITE_ACCOUNT,
  WRITE_JOURNAL,
  TOTAL,
  SUCCESSOR,
  STATEMENTS
};

static const char *const sql[STATEMENTS] = {
    [BEGIN_READ] = "BEGIN",
    [BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [READ_BALANCE] = "SELECT balance FROM account WHERE id = ?1",
    [READ_FENCE] = "SELECT fence FROM account WHERE id = ?1",
    [WRITE_ACCOUNT] = "UPDATE account SET balance = ?2, fence = ?3 WHERE id = ?1",
    [WRITE_JOURNAL] = "INSERT INTO journal (worker, source, target, amount, source_token, "
                      "target_token) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    [TOTAL] = "SELECT sum(balance) FROM account",
    [SUCCESSOR] = "SELECT worker, CASE WHEN source = ?1 THEN source_token ELSE target_token END "
                  "AS token FROM journal WHERE (source = ?1 AND source_token > ?2) "
                  "OR (target = ?1 AND target_token > ?2) ORDER BY seq LIMIT 1",
};

struct tkt_bank {
  sqlite3 *database;
  sqlite3_stmt *statements[STATEMENTS];
};

static bool fail(sqlite3 *database, const char *doing, char *why) {
  snprintf(why, TKT_BANK_WHY_SIZE, "%s: %s", doing,
           database ? sqlite3_errmsg(database) : "out of memory");
  return false;
}

static bool open_database(const char *path, int flags, sqlite3 **database_out, char *why) {
  *database_out = NULL;
  int rc = sqlite3_open_v2(path, database_out, flags, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_busy_timeout(*database_out, BUSY_LIMIT_MS);
  if (rc == SQLITE_OK) return true;
  fail(*database_out, "cannot open the accounts", why);
  sqlite3_close(*database_out);
  *database_out = NULL;
  return false;
}

bool tkt_bank_create(const char *path, uint32_t accounts, char *why) {
  sqlite3 *database;
  if (!open_database(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &database, why))
    return false;
  char schema[1024];
  snprintf(schema, sizeof schema,
           "PRAGMA journal_mode = WAL;"
           "BEGIN;"
           "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL,"
           " fence INTEGER NOT NULL DEFAULT 0);"
           "CREATE TABLE journal (seq INTEGER PRIMARY KEY AUTOINCREMENT, worker INTEGER NOT NULL,"
           " source INTEGER NOT NULL, target INTEGER NOT NULL, amount INTEGER NOT NULL,"
           " source_token INTEGER NOT NULL, target_token INTEGER NOT NULL);"
           "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < %u)"
           " INSERT INTO account (id, balance) SELECT n, %d FROM number;"
           "COMMIT",
           accounts, TKT_BANK_START_BALANCE);
  bool made = sqlite3_exec(database, schema, NULL, NULL, NULL) == SQLITE_OK;
  if (!made) fail(database, "cannot create the accounts", why);
  sqlite3_close(database);
  return made;
}

bool tkt_bank_open(const char *path, struct tkt_bank **bank_out, char *why) {
  *bank_out = NULL;
  struct tkt_bank *bank = calloc(1, sizeof *bank);
  if (!bank) return fail(NULL, "cannot open the accounts", why);
  bool opened = open_database(path, SQLITE_OPEN_READWRITE, &bank->database, why);
  /* The demo kills processes, not the machine: what the kernel has, a later reader sees. */
  if (opened && sqlite3_exec(bank->database, "PRAGMA synchronous = OFF", NULL, NULL, NULL))
    opened = fail(bank->database, "cannot set up the accounts", why);
  for (int i = 0; opened && i < STATEMENTS; i++)
    if (sqlite3_prepare_v3(bank->database, sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                           &bank->statements[i], NULL) != SQLITE_OK)
      opened = fail(bank->database, "cannot read the accounts", why);
  if (opened) {
    *bank_out = bank;
  } else {
    tkt_bank_close(bank);
  }
  return opened;
}

void tkt_bank_close(struct tkt_bank *bank) {
  if (!bank) return;
  for (int i = 0; i < STATEMENTS; i++)
    sqlite3_finalize(bank->statements[i]);
  sqlite3_close(bank->database);
  free(bank);
}

/* Runs a statement that gives no row. */
static bool run(struct tkt_bank *bank, enum statement which) {
  sqlite3_stmt *s = bank->statements[which];
  int rc = sqlite3_step(s);
  sqlite3_reset(s);
  return rc == SQLITE_DONE;
}

/* Runs a statement that gives one row with one number. */
static bool number(struct tkt_bank *bank, enum statement which, uint32_t account, int64_t *out) {
  sqlite3_stmt *s = bank->statements[which];
  if (account) sqlite3_bind_int64(s, 1, account);
  bool found = sqlite3_step(s) == SQLITE_ROW;
  if (found) *out = sqlite3_column_int64(s, 0);
  sqlite3_reset(s);
  return found;
}

bool tkt_bank_read(struct tkt_bank *bank, struct tkt_transfer *t, char *why) {
  if (!run(bank, BEGIN_READ)) return fail(bank->database, "cannot begin to read", why);
  bool both = number(bank, READ_BALANCE, t->source, &t->source_balance) &&
              number(bank, READ_BALANCE, t->target, &t->target_balance);
  if (!both) fail(bank->database, "cannot read a balance", why);
  run(bank, ROLLBACK);
  return both;
}

static bool write_account(struct tkt_bank *bank, uint32_t account, int64_t balance,
                          uint64_t token) {
  sqlite3_stmt *s = bank->statements[WRITE_ACCOUNT];
  sqlite3_bind_int64(s, 1, account);
  sqlite3_bind_int64(s, 2, balance);
  sqlite3_bind_int64(s, 3, (sqlite3_int64)token);
  return run(bank, WRITE_ACCOUNT);
}

static bool write_journal(struct tkt_bank *bank, const struct tkt_transfer *t) {
  sqlite3_stmt *s = bank->statements[WRITE_JOURNAL];
  sqlite3_bind_int64(s, 1, t->worker);
  sqlite3_bind_int64(s, 2, t->source);
  sqlite3_bind_int64(s, 3, t->target);
  sqlite3_bind_int64(s, 4, t->amount);
  sqlite3_bind_int64(s, 5, (sqlite3_int64)t->source_token);
  sqlite3_bind_int64(s, 6, (sqlite3_int64)t->target_token);
  return run(bank, WRITE_JOURNAL);
}

/* True where `token` may write the account; *broken where that could not be read. Token 0 is a
 * worker without locks, which nothing fences. Tokens are below 2^53, so they compare as SQL does.
 */
static bool passes_fence(struct tkt_bank *bank, uint32_t account, uint64_t token, bool *broken) {
  int64_t fence = 0;
  if (!number(bank, READ_FENCE, account, &fence)) {
    *broken = true;
    return false;
  }
  return token == 0 || token > (uint64_t)fence;
}

enum tkt_bank_write tkt_bank_write(struct tkt_bank *bank, const struct tkt_transfer *t, char *why) {
  if (!run(bank, BEGIN_WRITE)) {
    fail(bank->database, "cannot begin to write", why);
    return TKT_BANK_BROKEN;
  }
  bool broken = false;
  bool passes = passes_fence(bank, t->source, t->source_token, &broken) &&
                passes_fence(bank, t->target, t->target_token, &broken);
  if (passes && write_account(bank, t->source, t->source_balance - t->amount, t->source_token) &&
      write_account(bank, t->target, t->target_balance + t->amount, t->target_token) &&
      write_journal(bank, t) && run(bank, COMMIT))
    return TKT_BANK_WRITTEN;
  if (passes || broken) fail(bank->database, "cannot write a transfer", why);
  run(bank, ROLLBACK);
  return passes || broken ? TKT_BANK_BROKEN : TKT_BANK_FENCED;
}

bool tkt_bank_high_water(struct tkt_bank *bank, uint32_t account, uint64_t *token_out, char *why) {
  int64_t fence;
  if (!number(bank, READ_FENCE, account, &fence))
    return fail(bank->database, "cannot read a high-water token", why);
  *token_out = (uint64_t)fence;
  return true;
}

bool tkt_bank_total(struct tkt_bank *bank, int64_t *total_out, char *why) {
  return number(bank, TOTAL, 0, total_out) || fail(bank->database, "cannot add up", why);
}

bool tkt_bank_successor(struct tkt_bank *bank, uint32_t account, uint64_t token,
                        uint32_t *worker_out, uint64_t *token_out, char *why) {
  sqlite3_stmt *s = bank->statements[SUCCESSOR];
  sqlite3_bind_int64(s, 1, account);
  sqlite3_bind_int64(s, 2, (sqlite3_int64)token);
  int rc = sqlite3_step(s);
  *worker_out = rc == SQLITE_ROW ? (uint32_t)sqlite3_column_int64(s, 0) : 0;
  *token_out = rc == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(s, 1) : 0;
  sqlite3_reset(s);
  if (rc == SQLITE_ROW || rc == SQLITE_DONE) return true;
  return fail(bank->database, "cannot read the journal", why);
}
