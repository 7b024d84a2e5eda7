/* One holder of the kill test: moves money between two rows under a lock, with fencing, until told
 * to stop or killed.
 *
 *   fenced_worker ADDRESS DATABASE KEYS SEED
 *
 * The lock key "pair-K" guards the rows 2K and 2K+1. The worker reads both balances outside any
 * transaction, dawdles, then writes them in one transaction that first refuses a token at or below
 * the stored high-water mark (F1): without the lock updates would be lost, without the fence a
 * worker that outlived its lease would undo a later one. Prints a line an event; the driver counts
 * them. Lines are written with one write(2), so a kill never cuts the count short by more than one.
 */
#include <ticketing.h>

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stop;

static void on_term(int signal_number) {
  (void)signal_number;
  stop = 1;
}

static void say(const char *event, uint64_t token) {
  char line[96];
  int n = snprintf(line, sizeof line, "%s %llu\n", event, (unsigned long long)token);
  if (write(STDOUT_FILENO, line, (size_t)n) != n) stop = 1;
}

static sqlite3_int64 number(sqlite3 *db, const char *format, int row) {
  char sql[128];
  snprintf(sql, sizeof sql, format, row);
  sqlite3_stmt *statement = NULL;
  sqlite3_int64 value = -1;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW)
    value = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return value;
}

static int run_sql(sqlite3 *db, const char *sql) {
  return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* True where the transfer was committed. */
static int transfer(sqlite3 *db, int pair, uint64_t token) {
  sqlite3_int64 a = number(db, "SELECT balance FROM account WHERE id=%d", 2 * pair);
  sqlite3_int64 b = number(db, "SELECT balance FROM account WHERE id=%d", 2 * pair + 1);
  usleep((useconds_t)(rand() % 3000));
  char sql[512];
  if (run_sql(db, "BEGIN IMMEDIATE") != SQLITE_OK) return 0;
  sqlite3_int64 high = number(db, "SELECT token FROM fence WHERE pair=%d", pair);
  if (high < 0 || (uint64_t)high >= token) {
    run_sql(db, "ROLLBACK");
    return 0;
  }
  sqlite3_int64 amount = rand() % 10;
  snprintf(sql, sizeof sql,
           "UPDATE fence SET token=%llu WHERE pair=%d;"
           "UPDATE account SET balance=%lld WHERE id=%d;"
           "UPDATE account SET balance=%lld WHERE id=%d;"
           "INSERT INTO history(pair,token) VALUES(%d,%llu);",
           (unsigned long long)token, pair, (long long)(a - amount), 2 * pair,
           (long long)(b + amount), 2 * pair + 1, pair, (unsigned long long)token);
  if (run_sql(db, sql) != SQLITE_OK || run_sql(db, "COMMIT") != SQLITE_OK) {
    run_sql(db, "ROLLBACK");
    return 0;
  }
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: fenced_worker ADDRESS DATABASE KEYS SEED\n");
    return 64;
  }
  int keys = atoi(argv[3]);
  srand((unsigned)atoi(argv[4]));
  signal(SIGTERM, on_term);
  sqlite3 *db = NULL;
  if (sqlite3_open(argv[2], &db) != SQLITE_OK) return 1;
  sqlite3_busy_timeout(db, 10000);
  ticketing_broker *broker = NULL;
  if (ticketing_connect(argv[1], &broker) != TICKETING_OK) return 1;
  while (!stop) {
    char name[32], why[TICKETING_MESSAGE_SIZE];
    int pair = rand() % keys;
    snprintf(name, sizeof name, "pair-%d", pair);
    ticketing_key key = {name, strlen(name)};
    ticketing_acquire_params params = TICKETING_ACQUIRE_PARAMS_INIT;
    params.keys = &key;
    params.key_count = 1;
    params.wait_ns = 10 * TICKETING_SECOND;
    params.lease_ns = 2 * TICKETING_SECOND;
    ticketing_ticket *ticket = NULL;
    int rc = ticketing_acquire(broker, &params, &ticket, why);
    if (rc != TICKETING_OK) {
      say(ticketing_error_name(rc), 0);
      if (rc != TICKETING_E_TIMEOUT && rc != TICKETING_E_INSUFFICIENT_LEASE) usleep(20000);
      continue;
    }
    uint64_t token = ticketing_ticket_token(ticket);
    say(transfer(db, pair, token) ? "moved" : "refused", token);
    rc = ticketing_ticket_release(ticket, why);
    if (rc != TICKETING_OK) say(ticketing_error_name(rc), token);
    ticketing_ticket_free(ticket);
  }
  ticketing_broker_close(broker);
  ticketing_broker_free(broker);
  sqlite3_close(db);
  return 0;
}
