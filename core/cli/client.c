#include "cli/client.h"

#include "cli/status.h"
#include "cli/token_file.h"
#include "cli/values.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define DEFAULT_ADDRESS "127.0.0.1:5225"
#define ADDRESS_VARIABLE "TICKETING_ADDR"
#define TOKEN_VARIABLE "TICKETING_CLIENT_TOKEN"

/* --- options ------------------------------------------------------------------------------------
 */

static const struct argp_option options[] = {
    {"addr", 'a', "HOST:PORT", 0,
     "The lock server; repeat it for the servers of one cluster, at most 6 (default: the "
     "environment "
     "variable " ADDRESS_VARIABLE ", with commas between several, else " DEFAULT_ADDRESS ")",
     20},
    {"token-file", 't', "FILE", 0,
     "A file whose first entry (SECRET, or LABEL SECRET) is the client token (default: the "
     "environment variable " TOKEN_VARIABLE ", else none)",
     20},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  struct tkt_cli_client_options *o = state->input;
  char why[TKT_VALUE_WHY_SIZE];
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->tls;
    return 0;
  case 'a':
    if (!tkt_value_address("--addr", arg, why)) argp_error(state, "%s", why);
    if (o->address_count == TKT_CLIENT_ADDRESSES_MAX)
      argp_error(state, "--addr is given more than %d times", TKT_CLIENT_ADDRESSES_MAX);
    o->addresses[o->address_count++] = arg;
    return 0;
  case 't':
    o->token_file = arg;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_child children[] = {{&tkt_cli_tls_argp, 0, NULL, 0}, {0}};

const struct argp tkt_cli_client_argp = {.options = options, .parser = parse, .children = children};

/* --- life ---------------------------------------------------------------------------------------
 */

static int usage(const char *program, const char *why) {
  fprintf(stderr, "%s: %s\n", program, why);
  return TKT_EXIT_USAGE;
}

static int add_address(const char *program, ticketing_options *o, const char *name,
                       const char *address) {
  int rc = ticketing_options_add_address(o, address);
  if (rc == TICKETING_OK) return TKT_EXIT_OK;
  char why[TKT_VALUE_WHY_SIZE];
  if (tkt_value_address(name, address, why)) /* by itself it is fine: given twice, or no memory */
    snprintf(why, sizeof why, "%s: %s", name, ticketing_options_message(o));
  usage(program, why);
  return tkt_exit_of(rc);
}

static int add_addresses(const char *program, ticketing_options *o,
                         const struct tkt_cli_client_options *from) {
  int status = TKT_EXIT_OK;
  for (size_t i = 0; i < from->address_count && status == TKT_EXIT_OK; i++)
    status = add_address(program, o, "--addr", from->addresses[i]);
  if (from->address_count) return status;
  const char *value = getenv(ADDRESS_VARIABLE);
  if (!value || !*value) return add_address(program, o, "the default address", DEFAULT_ADDRESS);
  char *copy = strdup(value), *rest = copy;
  if (!copy) return tkt_exit_of(TICKETING_E_NO_MEMORY);
  while (rest && status == TKT_EXIT_OK)
    status = add_address(program, o, ADDRESS_VARIABLE, strsep(&rest, ","));
  free(copy);
  return status;
}

static int add_token(const char *program, ticketing_options *o,
                     const struct tkt_cli_client_options *from) {
  struct tkt_tokens tokens;
  char why[TKT_VALUE_WHY_SIZE];
  bool read = from->token_file ? tkt_tokens_read_file(&tokens, program, from->token_file, why)
                               : tkt_tokens_read_environment(&tokens, TOKEN_VARIABLE, why);
  int status = read ? TKT_EXIT_OK : usage(program, why);
  if (read && tokens.count > 0)
    status = tkt_exit_of(
        ticketing_options_set_token(o, tokens.entries[0].secret, strlen(tokens.entries[0].secret)));
  tkt_tokens_release(&tokens);
  return status;
}

static int add_tls(const char *program, ticketing_options *o,
                   const struct tkt_cli_client_options *from) {
  char why[TKT_VALUE_WHY_SIZE];
  return tkt_cli_tls_apply(&from->tls, program, o, why) ? TKT_EXIT_OK : usage(program, why);
}

static bool open_signals(struct tkt_cli_client *client) {
  const int watched[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
    sigaddset(&set, watched[i]);
  /* An inherited "ignore" would make the kernel reap children before we can ask how they ended. */
  signal(SIGCHLD, SIG_DFL);
  if (sigprocmask(SIG_BLOCK, &set, &client->mask_before) != 0) return false;
  client->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  return client->signal_fd >= 0;
}

int tkt_cli_open(struct tkt_cli_client *client, const char *program,
                 const struct tkt_cli_client_options *from) {
  memset(client, 0, sizeof *client);
  client->program = program;
  client->options = from;
  client->signal_fd = -1;
  ticketing_options *o = NULL;
  int status = tkt_exit_of(ticketing_options_new(&o));
  if (status == TKT_EXIT_OK) status = add_addresses(program, o, from);
  if (status == TKT_EXIT_OK) status = add_token(program, o, from);
  if (status == TKT_EXIT_OK) status = add_tls(program, o, from);
  if (status == TKT_EXIT_OK) {
    ticketing_options_set_io_mode(o, TICKETING_IO_CALLER);
    int rc = open_signals(client) ? ticketing_broker_open(o, &client->broker) : TICKETING_E_SYSTEM;
    if (rc != TICKETING_OK) status = tkt_cli_failed(client, rc, ticketing_error_text(rc));
  }
  ticketing_options_free(o);
  if (status != TKT_EXIT_OK) tkt_cli_close(client);
  return status;
}

void tkt_cli_close(struct tkt_cli_client *client) {
  if (client->broker) {
    ticketing_broker_close(client->broker);
    ticketing_broker_free(client->broker);
    client->broker = NULL;
  }
  if (client->signal_fd >= 0) close(client->signal_fd);
  client->signal_fd = -1;
}

/* --- waiting ------------------------------------------------------------------------------------
 */

int tkt_cli_next_signal(struct tkt_cli_client *client, bool *from_terminal_out) {
  struct signalfd_siginfo info;
  while (read(client->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
    if (info.ssi_signo == SIGCHLD) continue;
    if (from_terminal_out) *from_terminal_out = info.ssi_code == SI_KERNEL;
    return (int)info.ssi_signo;
  }
  return 0;
}

int tkt_cli_await(struct tkt_cli_client *client, ticketing_op *op) {
  struct pollfd fds[] = {{.fd = ticketing_broker_fd(client->broker), .events = POLLIN},
                         {.fd = client->signal_fd, .events = POLLIN}};
  for (;;) {
    if (ticketing_broker_dispatch(client->broker, 0) < 0) return 0;
    if (ticketing_op_status(op) != TICKETING_PENDING) return 0;
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return 0;
    int number = fds[1].revents ? tkt_cli_next_signal(client, NULL) : 0;
    if (number) return number;
  }
}

static void print_addresses(const struct tkt_cli_client_options *from) {
  const char *variable = getenv(ADDRESS_VARIABLE);
  if (from->address_count == 0)
    fprintf(stderr, "%s", variable && *variable ? variable : DEFAULT_ADDRESS);
  for (size_t i = 0; i < from->address_count; i++)
    fprintf(stderr, "%s%s", i ? ", " : "", from->addresses[i]);
}

int tkt_cli_failed(const struct tkt_cli_client *client, int result, const char *message) {
  fprintf(stderr, "%s: %s", client->program, *message ? message : ticketing_error_text(result));
  if (result == TICKETING_E_NOT_CONNECTED) {
    fprintf(stderr, "; tried ");
    print_addresses(client->options);
    fprintf(stderr, ": %s",
            strstr(message, "TLS") ? "--tls, --tls-ca FILE or none of them has to fit the server"
                                   : "start a server there with `ticketing serve`, or name another "
                                     "with --addr HOST:PORT");
  } else if (result == TICKETING_E_AUTH) {
    fprintf(stderr, "; --token-file FILE or " TOKEN_VARIABLE " gives the client token that the "
                    "server knows");
  }
  fprintf(stderr, "\n");
  return tkt_exit_of(result);
}

int tkt_cli_op_failed(const struct tkt_cli_client *client, const ticketing_op *op) {
  char message[TICKETING_MESSAGE_SIZE];
  ticketing_op_message(op, message, sizeof message);
  return tkt_cli_failed(client, ticketing_op_status(op), message);
}
