/* One server process from its first check to its exit: data directory, engine, loop, signals, ready
 * line, clean stop. Runs once in a process: it takes the signals over and raises the soft limit of
 * descriptors. */
#ifndef TKT_DAEMON_DAEMON_H
#define TKT_DAEMON_DAEMON_H

#include "daemon/listen_spec.h"
#include "daemon/log.h"
#include "daemon/why.h"
#include "server/server.h"

#include <stdbool.h>

/* SIGTERM to the end: what has not left by then is cut off. */
#define TKT_DAEMON_STOP_NS (4500 * TKT_MS)

struct tkt_daemon_config {
  const struct tkt_listen_spec *listens; /* at least one, at most TKT_LISTENERS_MAX */
  size_t listen_count;
  const char *data_path; /* NULL: tkt_data_directory_default */
  struct tkt_server_limits limits;
  const struct tkt_client_token *tokens; /* copied by the engine */
  size_t token_count;
  /* Reads the tokens anew for SIGHUP, into memory of `context` that stays until its next call;
   * false with a sentence in `why` (TKT_DAEMON_WHY_SIZE bytes). NULL: they cannot change. */
  bool (*reread_tokens)(void *context, const struct tkt_client_token **tokens_out,
                        size_t *count_out, char *why);
  void *reread_context;
  const char *tls_cert, *tls_key; /* PEM files for the listeners that speak TLS, or NULL */
  bool allow_no_auth;             /* admits listeners off loopback without tokens */
  int ready_fd;                   /* gets one line of JSON once the server serves; -1: none */
  struct tkt_log log;
};

enum tkt_daemon_result {
  TKT_DAEMON_STOPPED = 0, /* after SIGTERM or SIGINT, every reply out or its time over */
  TKT_DAEMON_CUT,         /* by a second signal, at once */
  TKT_DAEMON_REFUSED,     /* the configuration contradicts itself */
  TKT_DAEMON_CANNOT_OPEN, /* a listening address or the data directory is not to be had */
  TKT_DAEMON_DATA_IN_USE, /* another server works on the data directory */
  TKT_DAEMON_SYSTEM,      /* memory, descriptors, randomness: the system refused */
};

/* Serves until a signal ends it. On a result from REFUSED on nothing was served and `why`
 * (TKT_DAEMON_WHY_SIZE bytes) is the sentence for the user. *signal_out: the last signal, 0: none.
 */
enum tkt_daemon_result tkt_daemon_run(const struct tkt_daemon_config *config, int *signal_out,
                                      char *why);

#endif
