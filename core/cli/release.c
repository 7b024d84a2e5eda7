/* `ticketing release`: give back a lock known by its keys and token. */
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/lock_request.h"
#include "cli/status.h"
#include "cli/values.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct release {
  struct tkt_cli_client_options client;
  struct tkt_lock_request keys; /* only its keys */
  const char *last;             /* the newest argument: a key once another follows */
  uint64_t token;
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  struct release *release = state->input;
  char why[TKT_VALUE_WHY_SIZE];
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &release->client;
    return 0;
  case ARGP_KEY_ARG:
    if (release->last) tkt_lock_request_add_key(&release->keys, release->last, state);
    release->last = arg;
    return 0;
  case ARGP_KEY_END:
    if (release->keys.key_count == 0) {
      argp_error(state, "KEY and TOKEN are both needed: `ticketing acquire` printed the token");
      return 0;
    }
    if (!tkt_value_count("TOKEN", release->last, 1, UINT64_MAX, "", &release->token, why))
      argp_error(state, "%s, as `ticketing acquire` printed it", why);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static char *help(int key, const char *text, void *input) {
  static const int statuses[] = {TKT_EXIT_USAGE,       TKT_EXIT_NO_SERVER, TKT_EXIT_SYSTEM,
                                 TKT_EXIT_PROTOCOL,    TKT_EXIT_AUTH,      TKT_EXIT_INDETERMINATE,
                                 TKT_EXIT_NOT_CURRENT, TKT_EXIT_SIGNAL,    -1};
  (void)input;
  return tkt_help_filter(
      key, text,
      "It is tried for at most 5 seconds. Releasing a token twice is harmless: the "
      "second time ends with status 84.\n"
      "\nExample:\n"
      "  ticketing release nightly-report 1790000000000000\n",
      statuses);
}

static const struct argp_child children[] = {{&tkt_cli_client_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .parser = parse,
    .args_doc = "KEY... TOKEN",
    .doc =
        "Release the lock on KEY that was granted with TOKEN, and no other: a lock that somebody "
        "else obtained since stays his.",
    .children = children,
    .help_filter = help,
};

static int finish(struct tkt_cli_client *client, ticketing_op *op, uint64_t token) {
  int number = tkt_cli_await(client, op);
  if (number) {
    fprintf(stderr, "%s: ended by SIG%s before the server answered: the lock may still be held\n",
            client->program, sigabbrev_np(number));
    return TKT_EXIT_SIGNAL + number;
  }
  int status = ticketing_op_status(op);
  if (status == TICKETING_OK) return TKT_EXIT_OK;
  if (status != TICKETING_NOT_CURRENT) return tkt_cli_op_failed(client, op);
  fprintf(stderr,
          "%s: token %" PRIu64
          " holds nothing there (any more): it was released before, or its lease "
          "ended%s\n",
          client->program, token,
          ticketing_op_attempts(op) > 1 ? "; an earlier try of this command may have done it" : "");
  return TKT_EXIT_NOT_CURRENT;
}

int tkt_cli_release(int argc, char **argv) {
  struct release release;
  memset(&release, 0, sizeof release);
  if (argp_parse(&argp, argc, argv, 0, NULL, &release) != 0) return TKT_EXIT_SYSTEM;
  struct tkt_cli_client client;
  int status = tkt_cli_open(&client, argv[0], &release.client);
  if (status != TKT_EXIT_OK) return status;
  char message[TICKETING_MESSAGE_SIZE] = "";
  ticketing_op *op = NULL;
  int rc = ticketing_release_start(client.broker, release.keys.keys, release.keys.key_count,
                                   release.token, NULL, NULL, &op, message);
  status = rc == TICKETING_OK ? finish(&client, op, release.token)
                              : tkt_cli_failed(&client, rc, message);
  ticketing_op_free(op);
  tkt_cli_close(&client);
  return status;
}
