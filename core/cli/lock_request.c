#include "cli/lock_request.h"

#include "cli/status.h"
#include "cli/values.h"

#include <stdio.h>
#include <string.h>

static const struct argp_option options[] = {
    {"wait", 'w', "DURATION", 0,
     "How long to queue for the lock, 0 to 255 seconds; 0 tries once (default 10s)", 10},
    {"lease", 'l', "DURATION", 0,
     "How long the lock lives unless released, up to 250 seconds, rounded up to whole ones; time "
     "spent queueing comes off it (default 60s)",
     10},
    {"budget", 'b', "DURATION", 0,
     "The time the work needs, 0 to the lease: a lock with less left is given back (default 0)",
     10},
    {0}};

static void check_budget(const struct tkt_lock_request *request, struct argp_state *state) {
  char budget[TKT_VALUE_TEXT_SIZE], lease[TKT_VALUE_TEXT_SIZE];
  if (request->budget_ns <= tkt_lock_lease_rounded(request)) return;
  argp_error(
      state,
      "--budget is %s, above --lease %s; it may be 0 to the lease, and to be obtained at all "
      "the lease should be at least --wait plus --budget",
      tkt_value_duration_text(request->budget_ns, budget),
      tkt_value_duration_text(request->lease_ns, lease));
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  struct tkt_lock_request *request = state->input;
  char why[TKT_VALUE_WHY_SIZE];
  bool ok = true;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &request->client;
    return 0;
  case 'w':
    ok = tkt_value_duration("--wait", arg, 0, TKT_LOCK_WAIT_MAX, &request->wait_ns, why);
    break;
  case 'l':
    ok = tkt_value_duration("--lease", arg, TICKETING_MILLISECOND, TKT_LOCK_LEASE_MAX,
                            &request->lease_ns, why);
    break;
  case 'b':
    ok = tkt_value_duration("--budget", arg, 0, TKT_LOCK_LEASE_MAX, &request->budget_ns, why);
    break;
  case ARGP_KEY_END:
    check_budget(request, state);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
  if (!ok) argp_error(state, "%s", why);
  return 0;
}

static const struct argp_child children[] = {{&tkt_cli_client_argp, 0, NULL, 0}, {0}};
const struct argp tkt_lock_argp = {.options = options, .parser = parse, .children = children};

void tkt_lock_request_init(struct tkt_lock_request *request) {
  memset(request, 0, sizeof *request);
  request->wait_ns = TKT_LOCK_WAIT_DEFAULT;
  request->lease_ns = TKT_LOCK_LEASE_DEFAULT;
}

void tkt_lock_request_add_key(struct tkt_lock_request *request, const char *key,
                              struct argp_state *state) {
  if (request->key_count == TKT_LOCK_KEYS_MAX) {
    argp_error(state, "more than %d keys are given; it may be 1 to %d", TKT_LOCK_KEYS_MAX,
               TKT_LOCK_KEYS_MAX);
    return;
  }
  request->keys[request->key_count++] = (ticketing_key){key, strlen(key)};
}

int64_t tkt_lock_lease_rounded(const struct tkt_lock_request *request) {
  return (request->lease_ns + TICKETING_SECOND - 1) / TICKETING_SECOND * TICKETING_SECOND;
}

/* After a signal: nothing may stay behind, and what may have stayed is said. */
static int give_up(struct tkt_cli_client *client, ticketing_op *op, int number) {
  ticketing_op_cancel(op);
  bool unknown = ticketing_op_status(op) == TICKETING_E_INDETERMINATE;
  fprintf(stderr, "%s: ended by SIG%s before the lock was obtained%s\n", client->program,
          sigabbrev_np(number),
          unknown
              ? "; if the server grants it all the same it is given back, at the latest when its "
                "lease ends"
              : "");
  return TKT_EXIT_SIGNAL + number;
}

int tkt_lock_obtain(struct tkt_cli_client *client, const struct tkt_lock_request *request,
                    ticketing_ticket **ticket_out) {
  ticketing_acquire_params params = TICKETING_ACQUIRE_PARAMS_INIT;
  params.keys = request->keys;
  params.key_count = request->key_count;
  params.wait_ns = request->wait_ns;
  params.lease_ns = request->lease_ns;
  params.budget_ns = request->budget_ns;
  char message[TICKETING_MESSAGE_SIZE] = "";
  ticketing_op *op = NULL;
  *ticket_out = NULL;
  int rc = ticketing_acquire_start(client->broker, &params, NULL, NULL, &op, message);
  if (rc != TICKETING_OK) return tkt_cli_failed(client, rc, message);
  int number = tkt_cli_await(client, op);
  int status = TKT_EXIT_OK;
  if (number)
    status = give_up(client, op, number);
  else if (ticketing_op_take_ticket(op, ticket_out) != TICKETING_OK)
    status = tkt_cli_op_failed(client, op);
  ticketing_op_free(op);
  return status;
}
