/* `ticketing acquire`: obtain a lock, print its token, leave it to whoever releases it. */
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/lock_request.h"
#include "cli/status.h"
#include "cli/streams.h"

#include <inttypes.h>
#include <stdio.h>

static error_t parse(int key, char *arg, struct argp_state *state) {
  struct tkt_lock_request *request = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = request;
    return 0;
  case ARGP_KEY_ARG:
    tkt_lock_request_add_key(request, arg, state);
    return 0;
  case ARGP_KEY_NO_ARGS:
    argp_error(state, "no KEY is given: say what to lock");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static char *help(int key, const char *text, void *input) {
  static const int statuses[] = {
      TKT_EXIT_USAGE,         TKT_EXIT_NO_SERVER,    TKT_EXIT_SYSTEM, TKT_EXIT_OUTPUT,
      TKT_EXIT_NOT_OBTAINED,  TKT_EXIT_PROTOCOL,     TKT_EXIT_AUTH,   TKT_EXIT_BUSY,
      TKT_EXIT_INDETERMINATE, TKT_EXIT_INSUFFICIENT, TKT_EXIT_SIGNAL, -1};
  (void)input;
  return tkt_help_filter(key, text,
                         TKT_HELP_KEYS
                         " " TKT_HELP_DURATIONS "\n"
                         "\nExamples:\n"
                         "  token=$(ticketing acquire --lease 30 nightly-report) || exit\n"
                         "  ...\n"
                         "  ticketing release nightly-report $token\n",
                         statuses);
}

static const struct argp_child children[] = {{&tkt_lock_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .parser = parse,
    .args_doc = "KEY...",
    .doc =
        "Obtain the lock on KEY, print its fencing token on standard output, and leave: the lock "
        "stays until `ticketing release KEY TOKEN` or until its lease ends.",
    .children = children,
    .help_filter = help,
};

/* The token is the only handle on the lock: if it cannot be given out, the lock is given back. */
static int hand_out(struct tkt_cli_client *client, ticketing_ticket *ticket) {
  signal(SIGPIPE, SIG_IGN); /* a reader that is gone is one way of not giving it out */
  printf("%" PRIu64 "\n", ticketing_ticket_token(ticket));
  if (tkt_streams_flush(client->program)) {
    ticketing_ticket_detach(ticket);
    return TKT_EXIT_OK;
  }
  char message[TICKETING_MESSAGE_SIZE] = "";
  if (ticketing_ticket_release(ticket, message) < 0)
    fprintf(stderr, "%s: the lock could not be given back either: %s\n", client->program, message);
  return TKT_EXIT_OUTPUT;
}

int tkt_cli_acquire(int argc, char **argv) {
  struct tkt_lock_request request;
  tkt_lock_request_init(&request);
  error_t rc = argp_parse(&argp, argc, argv, 0, NULL, &request);
  if (rc != 0) return TKT_EXIT_SYSTEM;
  /* Before anything is sent: nobody could receive the token. */
  if (tkt_streams_output_missing()) {
    tkt_streams_flush(argv[0]);
    return TKT_EXIT_OUTPUT;
  }
  struct tkt_cli_client client;
  int status = tkt_cli_open(&client, argv[0], &request.client);
  if (status != TKT_EXIT_OK) return status;
  ticketing_ticket *ticket;
  status = tkt_lock_obtain(&client, &request, &ticket);
  if (status == TKT_EXIT_OK) status = hand_out(&client, ticket);
  ticketing_ticket_free(ticket);
  tkt_cli_close(&client);
  return status;
}
