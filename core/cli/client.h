/* What the client commands share: where the server is, who we are, and a broker whose waits end on
 * a signal too.
 *
 * The broker runs in CALLER mode, so the process has one thread: the commands poll its descriptor
 * beside a signalfd, no signal is lost between a look and a sleep, and `run` may fork. */
#ifndef TKT_CLI_CLIENT_H
#define TKT_CLI_CLIENT_H

#include "cli/tls_options.h"

#include <argp.h>
#include <signal.h>
#include <stdbool.h>
#include <ticketing.h>

enum { TKT_CLIENT_ADDRESSES_MAX = 6 };

struct tkt_cli_client_options {
  const char *addresses[TKT_CLIENT_ADDRESSES_MAX];
  size_t address_count;   /* 0: $TICKETING_ADDR, else 127.0.0.1:5225 */
  const char *token_file; /* NULL: $TICKETING_CLIENT_TOKEN, else none */
  struct tkt_cli_tls tls;
};

/* --addr, --token-file and those of TLS, as a child of a command's argp; its input is the options.
 */
extern const struct argp tkt_cli_client_argp;

struct tkt_cli_client {
  const char *program; /* "ticketing acquire": what sentences begin with */
  const struct tkt_cli_client_options *options;
  ticketing_broker *broker;
  int signal_fd;
  sigset_t mask_before; /* for a child */
};

/* Blocks the signals that end a program (and SIGCHLD), and opens the broker. An exit status; where
 * it is not OK the reason was printed and nothing is open. `options` must outlive the client. Does
 * not wait for a server. */
int tkt_cli_open(struct tkt_cli_client *client, const char *program,
                 const struct tkt_cli_client_options *options);

/* Drives the broker until `op` ends, or until a signal comes: its number, 0 where the op ended.
 * SIGCHLD is passed over. */
int tkt_cli_await(struct tkt_cli_client *client, ticketing_op *op);

/* One signal that has come, 0 if none (SIGCHLD is passed over). *from_terminal_out (or NULL): the
 * kernel sent it for a terminal, to the whole process group. */
int tkt_cli_next_signal(struct tkt_cli_client *client, bool *from_terminal_out);

/* Closes the broker (it may dispatch up to 5 s for releases under way) and frees it. */
void tkt_cli_close(struct tkt_cli_client *client);

/* Prints how an op or a call failed, in the command's name, with what to do where an option of the
 * command line can help. Returns the exit status for it. */
int tkt_cli_failed(const struct tkt_cli_client *client, int result, const char *message);
int tkt_cli_op_failed(const struct tkt_cli_client *client, const ticketing_op *op);

#endif
