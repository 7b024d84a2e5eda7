/* The bank of the demo: accounts in an SQLite file, and a journal of every transfer.
 *
 * A transfer is read, think, write, as programs that use locks do it: the balances are read in one
 * transaction and written as new absolute values in a later one. Nothing but the locks keeps two
 * workers from writing over each other's work, and nothing but fencing keeps out a worker that
 * comes back after its lease ended. */
#ifndef TKT_CLI_DEMO_BANK_H
#define TKT_CLI_DEMO_BANK_H

#include <stdbool.h>
#include <stdint.h>

enum { TKT_BANK_START_BALANCE = 1000, TKT_BANK_WHY_SIZE = 256 };

struct tkt_bank; /* one connection; not shared between processes or threads */

/* Creates the file with `accounts` accounts, numbered from 1, of TKT_BANK_START_BALANCE each.
 * False: a sentence in `why` (TKT_BANK_WHY_SIZE bytes), here and below. */
bool tkt_bank_create(const char *path, uint32_t accounts, char *why);

/* Opens a connection; `bank_out` is closed with tkt_bank_close. */
bool tkt_bank_open(const char *path, struct tkt_bank **bank_out, char *why);
void tkt_bank_close(struct tkt_bank *bank);

struct tkt_transfer {
  uint32_t worker;
  uint32_t source, target; /* account numbers */
  int64_t amount;
  int64_t source_balance, target_balance; /* as read; the new ones are computed from these */
  uint64_t source_token, target_token;    /* of the locks held; 0: no lock, no fencing */
};

/* Reads both balances of `transfer` into it, in one transaction. */
bool tkt_bank_read(struct tkt_bank *bank, struct tkt_transfer *transfer, char *why);

enum tkt_bank_write {
  TKT_BANK_WRITTEN,
  TKT_BANK_FENCED, /* a token is not above the highest this account has seen: nothing was written */
  TKT_BANK_BROKEN, /* the database failed; see `why` */
};
/* In one transaction: refuses tokens at or below the stored high-water of their account, stores
 * them as the new one, writes both balances and the journal, commits (rule F1). */
enum tkt_bank_write tkt_bank_write(struct tkt_bank *bank, const struct tkt_transfer *transfer,
                                   char *why);

/* The highest token an account has seen, and how much money there is in all. */
bool tkt_bank_high_water(struct tkt_bank *bank, uint32_t account, uint64_t *token_out, char *why);
bool tkt_bank_total(struct tkt_bank *bank, int64_t *total_out, char *why);

/* Who wrote an account first with a token above `token`, from the journal; worker 0: nobody yet. */
bool tkt_bank_successor(struct tkt_bank *bank, uint32_t account, uint64_t token,
                        uint32_t *worker_out, uint64_t *token_out, char *why);

#endif
