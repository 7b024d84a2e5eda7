/* `ticketing run`: run a command while holding a lock. */
#include "cli/commands.h"
#include "cli/guard.h"
#include "cli/help.h"
#include "cli/lock_request.h"
#include "cli/status.h"
#include "cli/values.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRACE_DEFAULT (2 * TICKETING_SECOND)

struct run {
  struct tkt_lock_request lock;
  int64_t grace_ns; /* -1: not given */
  char **command;   /* NULL: no "--" */
};

/* --- arguments ----------------------------------------------------------------------------------
 */

static const struct argp_option options[] = {
    {"grace", 'g', "DURATION", 0,
     "Time between TERM and KILL for a command that outlasts its lock, 0 to the lease (default 2s, "
     "less for short leases)",
     15},
    {0}};

/* The command gets its budget undisturbed: grace and the kill's lead come on top of it, so that a
 * lock with less left is given back instead of starting what would be stopped. */
static void settle_times(struct run *run, struct argp_state *state) {
  struct tkt_lock_request *lock = &run->lock;
  int64_t lease = tkt_lock_lease_rounded(lock);
  bool chosen = run->grace_ns >= 0;
  if (!chosen) {
    run->grace_ns = (lease - lock->budget_ns) / 4;
    if (run->grace_ns > GRACE_DEFAULT) run->grace_ns = GRACE_DEFAULT;
  }
  int64_t needed = lock->budget_ns + run->grace_ns + TKT_GUARD_KILL_LEAD_NS;
  if (chosen && needed >= lease) {
    char grace[TKT_VALUE_TEXT_SIZE], budget[TKT_VALUE_TEXT_SIZE], text[TKT_VALUE_TEXT_SIZE];
    argp_error(
        state,
        "--grace is %s, which with --budget %s leaves nothing of --lease %s; together they may "
        "be up to 0.2s below the lease",
        tkt_value_duration_text(run->grace_ns, grace),
        tkt_value_duration_text(lock->budget_ns, budget), tkt_value_duration_text(lease, text));
  }
  lock->budget_ns = needed < lease ? needed : lease;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  struct run *run = state->input;
  char why[TKT_VALUE_WHY_SIZE];
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &run->lock;
    return 0;
  case 'g':
    if (!tkt_value_duration("--grace", arg, 0, TKT_LOCK_LEASE_MAX, &run->grace_ns, why))
      argp_error(state, "%s", why);
    return 0;
  case ARGP_KEY_ARG:
    tkt_lock_request_add_key(&run->lock, arg, state);
    return 0;
  case ARGP_KEY_SUCCESS: /* after the children's own checks */
    if (run->lock.key_count == 0) argp_error(state, "no KEY is given: say what to lock");
    if (!run->command || !run->command[0])
      argp_error(state, "no command is given: put -- and the command behind the keys");
    settle_times(run, state);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static char *help(int key, const char *text, void *input) {
  static const int statuses[] = {TKT_EXIT_USAGE,        TKT_EXIT_NO_SERVER,
                                 TKT_EXIT_SYSTEM,       TKT_EXIT_NOT_OBTAINED,
                                 TKT_EXIT_PROTOCOL,     TKT_EXIT_AUTH,
                                 TKT_EXIT_BUSY,         TKT_EXIT_INDETERMINATE,
                                 TKT_EXIT_INSUFFICIENT, TKT_EXIT_LOST,
                                 TKT_EXIT_CANNOT_RUN,   TKT_EXIT_NOT_FOUND,
                                 TKT_EXIT_SIGNAL,       -1};
  (void)input;
  return tkt_help_filter(
      key, text,
      "The command finds in its environment: TICKETING_TOKEN, the fencing token; TICKETING_KEYS, "
      "the "
      "keys with blanks between, and TICKETING_KEY, the first; TICKETING_VALID_FOR, the seconds "
      "the "
      "lock has left at its start; TICKETING_VALID_UNTIL, the same as an instant on the clock of "
      "/proc/uptime's first number.\n\n"
      "A command that would outlast its lock gets TERM early enough, KILL after --grace, and the "
      "exit "
      "status is 83. TERM, INT, HUP, QUIT, USR1 and USR2 are passed on to it. It stays in the "
      "process group, so that a terminal's keys work, and dies if this program dies. Children of "
      "the "
      "command that it leaves behind are not watched.\n\n" TKT_HELP_KEYS " " TKT_HELP_DURATIONS "\n"
      "\nExamples:\n"
      "  ticketing run nightly-report -- ./report.sh\n"
      "  ticketing run --wait 0 backup -- rsync -a /data /mnt || echo somebody else does it\n"
      "  ticketing run --wait 60 --lease 120 --budget 30 db -- sh -c 'migrate $TICKETING_TOKEN'\n"
      "\nThe exit status is the command's own, unless one of these applies.\n",
      statuses);
}

static const struct argp_child children[] = {{&tkt_lock_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "KEY... -- COMMAND [ARGUMENT...]",
    .doc =
        "Obtain the lock on KEY, run COMMAND while it is held, release it when COMMAND has ended.",
    .children = children,
    .help_filter = help,
};

/* --- the environment of the command -------------------------------------------------------------
 */

static bool set_number(const char *name, const char *format, uint64_t whole, uint64_t milli) {
  char text[48];
  snprintf(text, sizeof text, format, whole, milli);
  return setenv(name, text, 1) == 0;
}

static bool set_keys(const ticketing_ticket *ticket) {
  char keys[TKT_LOCK_KEYS_MAX * 129 + 1], first[129];
  size_t at = 0, count = ticketing_ticket_key_count(ticket);
  first[0] = keys[0] = '\0';
  for (size_t i = 0; i < count; i++) {
    ticketing_key key = ticketing_ticket_key(ticket, i);
    if (at + key.len + 2 > sizeof keys || key.len >= sizeof first) return false;
    if (i > 0) keys[at++] = ' ';
    memcpy(keys + at, key.data, key.len);
    at += key.len;
    keys[at] = '\0';
    if (i == 0) memcpy(first, keys, at + 1);
  }
  return setenv("TICKETING_KEYS", keys, 1) == 0 && setenv("TICKETING_KEY", first, 1) == 0;
}

static bool set_environment(const ticketing_ticket *ticket) {
  uint64_t until = (uint64_t)ticketing_ticket_valid_until_ns(ticket);
  uint64_t left = (uint64_t)ticketing_ticket_remaining_ns(ticket);
  const uint64_t s = TICKETING_SECOND, ms = TICKETING_MILLISECOND;
  return set_keys(ticket) &&
         set_number("TICKETING_TOKEN", "%" PRIu64, ticketing_ticket_token(ticket), 0) &&
         set_number("TICKETING_VALID_UNTIL", "%" PRIu64 ".%03" PRIu64, until / s, until % s / ms) &&
         set_number("TICKETING_VALID_FOR", "%" PRIu64 ".%03" PRIu64, left / s, left % s / ms);
}

/* --- running ------------------------------------------------------------------------------------
 */

static int cannot_run(const struct tkt_cli_client *client, const char *command, int error) {
  char quoted[TKT_VALUE_QUOTE_SIZE];
  bool fork_refused = error == EAGAIN || error == ENOMEM;
  fprintf(stderr, "%s: the command %s cannot be run: %s\n", client->program,
          tkt_value_quote(command, quoted), strerror(error));
  if (fork_refused) return TKT_EXIT_SYSTEM;
  return error == ENOENT ? TKT_EXIT_NOT_FOUND : TKT_EXIT_CANNOT_RUN;
}

static int run_command(struct tkt_cli_client *client, const struct run *run,
                       const ticketing_ticket *ticket) {
  struct tkt_child child;
  if (!set_environment(ticket)) return cannot_run(client, run->command[0], ENOMEM);
  int error = tkt_child_start(&child, run->command, &client->mask_before);
  if (error != 0) return cannot_run(client, run->command[0], error);
  int64_t end = ticketing_ticket_valid_until_ns(ticket);
  struct tkt_guard guard = {.client = client,
                            .child = &child,
                            .kill_at = end - TKT_GUARD_KILL_LEAD_NS,
                            .term_at = end - TKT_GUARD_KILL_LEAD_NS - run->grace_ns};
  bool lost;
  error = tkt_guard_watch(&guard, &lost);
  if (error != 0) {
    fprintf(stderr, "%s: the command could not be watched and was killed: %s\n", client->program,
            strerror(error));
    return TKT_EXIT_SYSTEM;
  }
  if (!lost) return tkt_child_exit_status(&child);
  fprintf(
      stderr,
      "%s: the lock was about to end, so the command was ended; give it a longer --lease (at most "
      "250s), or less to do\n",
      client->program);
  return TKT_EXIT_LOST;
}

/* Whether the command succeeded stands in its status; that the lock was not ours to the end is
 * worse than any success. */
static int give_back(struct tkt_cli_client *client, ticketing_ticket *ticket, int status) {
  ticketing_op *op = NULL;
  int rc = ticketing_ticket_release_start(ticket, NULL, NULL, &op);
  char message[TICKETING_MESSAGE_SIZE];
  if (rc != TICKETING_OK) {
    fprintf(stderr, "%s: the lock could not be released and stays until its lease ends: %s\n",
            client->program, ticketing_error_text(rc));
    return status;
  }
  /* Signals wait here: the release takes at most 5 s, and then this process ends anyway. */
  while (ticketing_op_status(op) == TICKETING_PENDING)
    tkt_cli_await(client, op);
  rc = ticketing_op_status(op);
  if (rc == TICKETING_NOT_CURRENT && ticketing_op_attempts(op) <= 1) {
    fprintf(stderr,
            "%s: the server no longer knew the lock when it was released (was it restarted, or the "
            "lock released elsewhere?): others may have held it while the command ran\n",
            client->program);
    if (status == TKT_EXIT_OK) status = TKT_EXIT_LOST;
  } else if (rc < 0) {
    ticketing_op_message(op, message, sizeof message);
    fprintf(stderr, "%s: the lock may stay until its lease ends: %s\n", client->program, message);
  }
  ticketing_op_free(op);
  return status;
}

/* Index of the first "--", argc where there is none: all behind it is the command's, whatever it
 * looks like. */
static int find_command(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--") == 0) return i;
  return argc;
}

int tkt_cli_run(int argc, char **argv) {
  struct run run = {.grace_ns = -1};
  tkt_lock_request_init(&run.lock);
  int split = find_command(argc, argv);
  if (split < argc) {
    run.command = argv + split + 1;
    argv[split] = NULL; /* argp wants its arguments to end */
  }
  if (argp_parse(&argp, split, argv, 0, NULL, &run) != 0) return TKT_EXIT_SYSTEM;
  struct tkt_cli_client client;
  int status = tkt_cli_open(&client, argv[0], &run.lock.client);
  if (status != TKT_EXIT_OK) return status;
  ticketing_ticket *ticket;
  status = tkt_lock_obtain(&client, &run.lock, &ticket);
  if (status == TKT_EXIT_OK) {
    status = run_command(&client, &run, ticket);
    status = give_back(&client, ticket, status);
  }
  ticketing_ticket_free(ticket);
  tkt_cli_close(&client);
  return status;
}
