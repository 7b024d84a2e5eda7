/* `ticketing demo`: options, the scratch folder and the private server around the show. */
#include "cli/commands.h"
#include "cli/demo_show.h"
#include "cli/interrupt.h"
#include "cli/scratch.h"
#include "cli/status.h"
#include "cli/values.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum {
  WORKERS_DEFAULT = 4,
  ACCOUNTS_DEFAULT = 8,
  ACCOUNTS_MAX = 1000,
  SECONDS_DEFAULT = 8,
  SECONDS_MAX = 86400,
  TRANSFERS_MAX = 1000000000,
  DATABASE_SIZE = TKT_SCRATCH_SIZE + 32,
};

enum option_id {
  OPT_WORKERS = 256,
  OPT_SECONDS,
  OPT_ACCOUNTS,
  OPT_TRANSFERS,
  OPT_NO_LOCKS,
  OPT_KEEP,
  OPT_HELP
};

struct demo {
  const char *name;
  uint64_t workers, accounts, seconds, transfers;
  bool locks;
  bool keep;
};

static const char help[] =
    "usage: ticketing demo [OPTION...]\n"
    "\n"
    "Starts a private lock server and several worker processes that move money between accounts "
    "in\n"
    "an SQLite file. A worker reads two balances, thinks for a moment and writes the new ones:\n"
    "without a lock, two that overlap lose an update. One worker is killed between reading and\n"
    "writing; the others get its locks when its lease ends; its write, made late, is refused by\n"
    "fencing. At the end the database is read afresh to prove that no money and no order was "
    "lost.\n"
    "\n"
    "Each account has a lock of its own, and a transfer takes its two locks in the order of the\n"
    "account numbers, so that workers never wait for each other in a circle. (One lock for the "
    "pair\n"
    "would not protect: the pairs 1-2 and 2-3 share an account.) The fence is kept per account: "
    "in\n"
    "one transaction a write is refused unless its token is above the highest one the account has\n"
    "seen, the token is stored, the balances are written; only then are the locks released.\n"
    "\n"
    "  --workers N     worker processes (4; from 2 to 64)\n"
    "  --accounts N    accounts (8; from 2 to 1000); fewer mean more waiting\n"
    "  --seconds N     how long (8); never shorter than the killed worker's lease needs to end\n"
    "  --transfers N   stop after N transfers if that comes first\n"
    "  --no-locks      the same work without locks and fencing: see the money go wrong\n"
    "  --keep          keep the folder with the accounts and the server's log, and say where it "
    "is\n"
    "  --help          this text\n";

static void print_help(void) {
  static const int statuses[] = {TKT_EXIT_FAILED, TKT_EXIT_USAGE, TKT_EXIT_NO_SERVER,
                                 TKT_EXIT_SYSTEM, -1};
  char text[2048];
  printf("%s\nExit status (1: the proof did not hold, as --no-locks should have it; 128 and the\n"
         "signal's number after Ctrl-C):\n%s",
         help, tkt_exit_help(statuses, text, sizeof text));
}

static bool read_option(struct demo *demo, int option, const char *value, char *why) {
  switch (option) {
  case OPT_WORKERS:
    return tkt_value_count("--workers", value, 2, TKT_DEMO_WORKERS_MAX, "workers", &demo->workers,
                           why);
  case OPT_SECONDS:
    return tkt_value_count("--seconds", value, 1, SECONDS_MAX, "seconds", &demo->seconds, why);
  case OPT_ACCOUNTS:
    return tkt_value_count("--accounts", value, 2, ACCOUNTS_MAX, "accounts", &demo->accounts, why);
  case OPT_TRANSFERS:
    return tkt_value_count("--transfers", value, 1, TRANSFERS_MAX, "transfers", &demo->transfers,
                           why);
  case OPT_NO_LOCKS:
    demo->locks = false;
    return true;
  default:
    demo->keep = true;
    return true;
  }
}

/* -1: go on; else the exit status. */
static int read_command_line(struct demo *demo, int argc, char **argv) {
  static const struct option options[] = {{"workers", required_argument, NULL, OPT_WORKERS},
                                          {"seconds", required_argument, NULL, OPT_SECONDS},
                                          {"accounts", required_argument, NULL, OPT_ACCOUNTS},
                                          {"transfers", required_argument, NULL, OPT_TRANSFERS},
                                          {"no-locks", no_argument, NULL, OPT_NO_LOCKS},
                                          {"keep", no_argument, NULL, OPT_KEEP},
                                          {"help", no_argument, NULL, OPT_HELP},
                                          {NULL, 0, NULL, 0}};
  char why[TKT_VALUE_WHY_SIZE];
  optind = 1;
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (option == OPT_HELP) {
      print_help();
      return TKT_EXIT_OK;
    }
    if (option == '?') {
      fprintf(stderr, "Try '%s --help'.\n", demo->name);
      return TKT_EXIT_USAGE;
    }
    if (!read_option(demo, option, optarg, why)) {
      fprintf(stderr, "%s: %s\nTry '%s --help'.\n", demo->name, why, demo->name);
      return TKT_EXIT_USAGE;
    }
  }
  if (optind == argc) return -1;
  char quoted[TKT_VALUE_QUOTE_SIZE];
  fprintf(stderr, "%s: takes no argument beside options, but got %s\nTry '%s --help'.\n",
          demo->name, tkt_value_quote(argv[optind], quoted), demo->name);
  return TKT_EXIT_USAGE;
}

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
  if (demo->locks && !tkt_private_server_start(&server, scratch->path, TKT_PRIVATE_ANY_CPU, why)) {
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
  int status = read_command_line(&demo, argc, argv);
  if (status >= 0) return status;
  tkt_interrupt_catch();
  struct tkt_scratch scratch;
  char why[TKT_VALUE_WHY_SIZE];
  if (!tkt_scratch_make(&scratch, "demo", why)) {
    fprintf(stderr, "%s: %s\n", demo.name, why);
    return TKT_EXIT_SYSTEM;
  }
  status = show_in(&demo, &scratch);
  if (demo.keep) {
    printf("The accounts and their journal are in %s/accounts.db\n", scratch.path);
  } else {
    tkt_scratch_remove(&scratch);
  }
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "%s: standard output cannot be written\n", demo.name);
    return TKT_EXIT_OUTPUT;
  }
  return status;
}
