/* `ticketing demo`: options, the scratch folder and the private server around the show. */
#include "cli/commands.h"
#include "cli/demo_show.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/scratch.h"
#include "cli/status.h"
#include "cli/streams.h"
#include "cli/values.h"

#include <argp.h>
#include <stdio.h>

enum {
  WORKERS_DEFAULT = 4,
  ACCOUNTS_DEFAULT = 8,
  ACCOUNTS_MAX = 1000,
  SECONDS_DEFAULT = 8,
  SECONDS_MAX = 86400,
  TRANSFERS_MAX = 1000000000,
  DATABASE_SIZE = TKT_SCRATCH_SIZE + 32,
};

enum key { KEY_WORKERS = 256, KEY_SECONDS, KEY_ACCOUNTS, KEY_TRANSFERS, KEY_NO_LOCKS, KEY_KEEP };

struct demo {
  const char *name;
  uint64_t workers, accounts, seconds, transfers;
  bool locks;
  bool keep;
};

static const struct argp_option options[] = {
    {"workers", KEY_WORKERS, "N", 0, "Worker processes (4; from 2 to 64)", 0},
    {"accounts", KEY_ACCOUNTS, "N", 0, "Accounts (8; from 2 to 1000); fewer mean more waiting", 0},
    {"seconds", KEY_SECONDS, "N", 0,
     "How long (8); longer where the killed worker's lease has not ended by then", 0},
    {"transfers", KEY_TRANSFERS, "N", 0, "Stop after N transfers if that comes first", 0},
    {"no-locks", KEY_NO_LOCKS, NULL, 0,
     "The same work without locks and fencing: see the money go wrong", 1},
    {"keep", KEY_KEEP, NULL, 0,
     "Keep the folder with the accounts and the server's log, and say where it is", 1},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  struct demo *demo = state->input;
  char why[TKT_VALUE_WHY_SIZE];
  bool good = true;
  switch (key) {
  case KEY_WORKERS:
    good =
        tkt_value_count("--workers", arg, 2, TKT_DEMO_WORKERS_MAX, "workers", &demo->workers, why);
    break;
  case KEY_ACCOUNTS:
    good = tkt_value_count("--accounts", arg, 2, ACCOUNTS_MAX, "accounts", &demo->accounts, why);
    break;
  case KEY_SECONDS:
    good = tkt_value_count("--seconds", arg, 1, SECONDS_MAX, "seconds", &demo->seconds, why);
    break;
  case KEY_TRANSFERS:
    good =
        tkt_value_count("--transfers", arg, 1, TRANSFERS_MAX, "transfers", &demo->transfers, why);
    break;
  case KEY_NO_LOCKS:
    demo->locks = false;
    break;
  case KEY_KEEP:
    demo->keep = true;
    break;
  default:
    return ARGP_ERR_UNKNOWN;
  }
  if (!good) argp_error(state, "%s", why);
  return 0;
}

static char *help(int key, const char *text, void *input) {
  static const int statuses[] = {TKT_EXIT_FAILED,
                                 TKT_EXIT_USAGE,
                                 TKT_EXIT_NO_SERVER,
                                 TKT_EXIT_SYSTEM,
                                 TKT_EXIT_OUTPUT,
                                 TKT_EXIT_SIGNAL,
                                 -1};
  (void)input;
  return tkt_help_filter(
      key, text,
      "Each account has a lock of its own, and a transfer takes its two locks in the order of the "
      "account numbers, so that workers never wait for each other in a circle. (One lock for the "
      "pair would not protect: the pairs 1-2 and 2-3 share an account.) The fence is kept per "
      "account: in one transaction a write is refused unless its token is above the highest one "
      "the "
      "account has seen, the token is stored, the balances are written; only then are the locks "
      "released.\n",
      statuses);
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .doc =
        "Start a private lock server and several worker processes that move money between "
        "accounts in an SQLite file. A worker reads two balances, thinks for a moment and writes "
        "the new ones: without a lock, two that overlap lose an update. One worker is killed "
        "between reading and writing; the others get its locks when its lease ends; its write, "
        "made late, is refused by fencing. At the end the database is read afresh to prove that "
        "no money and no order was lost; the exit status is 1 if the proof does not hold.",
    .help_filter = help,
};

static int status_of(enum tkt_demo_verdict verdict) {
  switch (verdict) {
  case TKT_DEMO_HELD:
    return TKT_EXIT_OK;
  case TKT_DEMO_DID_NOT_HOLD:
    return TKT_EXIT_FAILED;
  case TKT_DEMO_BROKE_OFF:
    return TKT_EXIT_SIGNAL + tkt_interrupted();
  case TKT_DEMO_NO_SYSTEM:
    return TKT_EXIT_SYSTEM;
  }
  return TKT_EXIT_INTERNAL;
}

static void conclude(const struct demo *demo, struct tkt_demo_view *view, int status) {
  if (status == TKT_EXIT_OK && demo->locks) {
    tkt_demo_view_say(view, TKT_DEMO_GOOD, "The locks held.");
  } else if (status == TKT_EXIT_OK) {
    tkt_demo_view_say(
        view, TKT_DEMO_PLAIN,
        "Nothing was lost this time, by luck: try more --workers or fewer --accounts.");
  } else if (status == TKT_EXIT_FAILED && !demo->locks) {
    tkt_demo_view_say(view, TKT_DEMO_PLAIN,
                      "That is what locks are for: try it again without --no-locks.");
  } else if (status == TKT_EXIT_FAILED) {
    tkt_demo_view_say(view, TKT_DEMO_BAD, "The proof did not hold.");
  } else if (status > TKT_EXIT_SIGNAL) {
    tkt_demo_view_say(view, TKT_DEMO_PLAIN, "Interrupted; workers and server are stopped.");
  }
}

/* Everything inside the scratch folder; the exit status. */
static int show_in(const struct demo *demo, const struct tkt_scratch *scratch) {
  char database[DATABASE_SIZE], why[TKT_VALUE_WHY_SIZE];
  snprintf(database, sizeof database, "%s/accounts.db", scratch->path);
  if (!tkt_bank_create(database, (uint32_t)demo->accounts, why)) {
    fprintf(stderr, "%s: %s\n", demo->name, why);
    return TKT_EXIT_SYSTEM;
  }
  struct tkt_private_server server = {0};
  if (demo->locks &&
      !tkt_private_server_start(&server, scratch->path, TKT_PRIVATE_ANY_CPU, NULL, why)) {
    if (tkt_interrupted()) return TKT_EXIT_SIGNAL + tkt_interrupted();
    fprintf(stderr, "%s: %s\n", demo->name, why);
    return TKT_EXIT_NO_SERVER;
  }
  struct tkt_demo_view view;
  tkt_demo_view_open(&view);
  struct tkt_demo_show show = {
      .plan = {.address = server.address,
               .database = database,
               .workers = (uint32_t)demo->workers,
               .accounts = (uint32_t)demo->accounts,
               .locks = demo->locks},
      .server = demo->locks ? &server : NULL,
      .view = &view,
      .seconds = (int64_t)demo->seconds,
      .transfers = demo->transfers,
  };
  tkt_demo_view_say(&view, TKT_DEMO_PLAIN,
                    "%u workers move money between %u accounts of %d each, %s%s", show.plan.workers,
                    show.plan.accounts, TKT_BANK_START_BALANCE,
                    demo->locks ? "under locks from a private server on " : "WITHOUT any lock",
                    demo->locks ? server.address : "");
  int status = status_of(tkt_demo_show_run(&show));
  tkt_private_server_stop(&server);
  conclude(demo, &view, status);
  return status;
}

int tkt_cli_demo(int argc, char **argv) {
  struct demo demo = {.name = argv[0],
                      .workers = WORKERS_DEFAULT,
                      .accounts = ACCOUNTS_DEFAULT,
                      .seconds = SECONDS_DEFAULT,
                      .locks = true};
  if (argp_parse(&argp, argc, argv, 0, NULL, &demo) != 0) return TKT_EXIT_SYSTEM;
  tkt_interrupt_catch();
  struct tkt_scratch scratch;
  char why[TKT_VALUE_WHY_SIZE];
  if (!tkt_scratch_make(&scratch, "demo", why)) {
    fprintf(stderr, "%s: %s\n", demo.name, why);
    return TKT_EXIT_SYSTEM;
  }
  int status = show_in(&demo, &scratch);
  if (demo.keep) {
    printf("The accounts and their journal are in %s/accounts.db\n", scratch.path);
  } else {
    tkt_scratch_remove(&scratch);
  }
  return tkt_streams_flush(demo.name) ? status : TKT_EXIT_OUTPUT;
}
