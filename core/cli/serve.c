/* `ticketing serve`: options into a daemon configuration, its result into an exit status. */
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/status.h"
#include "cli/token_file.h"
#include "cli/values.h"
#include "daemon/daemon.h"
#include "daemon/loop.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Both protocols, each on the port its clients expect. */
static const char *const default_listens[] = {"127.0.0.1:5225", "127.0.0.1:5325,wire=3"};
enum { DEFAULT_LISTENS = sizeof default_listens / sizeof *default_listens };
#define TOKENS_VARIABLE "TICKETING_CLIENT_TOKENS"

/* --- limits: one table for options, help and reading --------------------------------------------
 */

enum option_key {
  OPTION_LIMIT = 0x200, /* plus the index into limits[] */
  OPTION_DATA = 0x300,
  OPTION_DURABILITY,
  OPTION_TOKEN_FILE,
  OPTION_NO_AUTH,
  OPTION_READY_FD,
  OPTION_LOG_LEVEL,
  OPTION_HANDSHAKE,
  OPTION_WAIT_MARGIN,
  OPTION_TLS_CERT,
  OPTION_TLS_KEY,
};

struct limit {
  const char *option; /* with the dashes */
  const char *unit;
  size_t offset;
  uint64_t min, max;
};

#define LIMIT(option, unit, field, min, max)                                                       \
  { "--" option, unit, offsetof(struct tkt_server_limits, field), min, max }

static const struct limit limits[] = {
    LIMIT("max-sessions", "sessions", sessions, 1, 1000000),
    LIMIT("max-unauthenticated", "sessions", unauthenticated, 1, 1000000),
    LIMIT("max-keys", "keys", keys, 1, 100000000),
    LIMIT("max-waiters", "waiters", waiters, 0, 100000000),
    LIMIT("max-waiters-per-key", "waiters", waiters_per_key, 0, 100000000),
    LIMIT("max-requests-per-session", "requests", requests_per_session, 1, 1000000),
    LIMIT("max-output", "bytes", output_bytes, 4096, 1 << 30),
};
enum { LIMITS = sizeof limits / sizeof *limits };

static uint32_t *limit_field(struct tkt_server_limits *in, const struct limit *limit) {
  return (uint32_t *)(void *)((char *)in + limit->offset);
}

/* --- arguments ----------------------------------------------------------------------------------
 */

struct serve {
  struct tkt_daemon_config config;
  struct tkt_listen_spec listens[TKT_LISTENERS_MAX];
  const char *token_file;
  const char *program;
  struct tkt_tokens tokens; /* in force */
  struct tkt_client_token known[TKT_TOKENS_MAX];
};

static const struct argp_option options[] = {
    {"listen", 'l', "HOST:PORT", 0,
     "Where to listen, a numeric address or localhost; port 0 takes a free port; ,wire=2 (default) "
     "or ,wire=3, and ,tls may follow. Repeat it for several (default: 127.0.0.1:5225 and "
     "127.0.0.1:5325,wire=3)",
     1},
    {"data", OPTION_DATA, "DIR", 0,
     "Directory of this server's state, made if missing, one server each (default: "
     "$STATE_DIRECTORY, else $XDG_STATE_HOME/ticketing, else ~/.local/state/ticketing)",
     1},
    {"durability", OPTION_DURABILITY, "MODE", 0,
     "memory: nothing is kept over a restart, and holders of a previous run are unknown (default; "
     "the "
     "only mode of this version)",
     1},
    {"ready-fd", OPTION_READY_FD, "N", 0,
     "Write one line of JSON with the real addresses to open descriptor N once the server serves",
     1},
    {"token-file", OPTION_TOKEN_FILE, "FILE", 0,
     "Client tokens, a line each: SECRET, or LABEL SECRET; # begins a comment (default: the "
     "environment variable " TOKENS_VARIABLE
     ", the same lines; without any, every client is accepted)",
     2},
    {"tls-cert", OPTION_TLS_CERT, "FILE", 0,
     "Certificate of the listeners with ,tls in PEM form, those that lead to its authority behind "
     "it",
     2},
    {"tls-key", OPTION_TLS_KEY, "FILE", 0, "Its private key in PEM form, without a passphrase", 2},
    {"allow-no-auth", OPTION_NO_AUTH, NULL, 0,
     "Listen off loopback though there are no client tokens", 2},
    {"log-level", OPTION_LOG_LEVEL, "LEVEL", 0,
     "error, warning, info or debug: what goes to standard error (default info)", 3},
    {"max-sessions", OPTION_LIMIT + 0, "N", 0, "Connections in all; beyond: closed at accept", 4},
    {"max-unauthenticated", OPTION_LIMIT + 1, "N", 0, "Connections that have not proved themselves",
     4},
    {"max-keys", OPTION_LIMIT + 2, "N", 0, "Keys held or queued for; beyond: busy", 4},
    {"max-waiters", OPTION_LIMIT + 3, "N", 0, "Queued requests in all; beyond: busy", 4},
    {"max-waiters-per-key", OPTION_LIMIT + 4, "N", 0, "Queued requests for one key; beyond: busy",
     4},
    {"max-requests-per-session", OPTION_LIMIT + 5, "N", 0,
     "Queued requests of one connection; beyond: busy", 4},
    {"max-output", OPTION_LIMIT + 6, "BYTES", 0,
     "Unread replies of one connection; beyond: closed as a slow reader", 4},
    {"wait-margin", OPTION_WAIT_MARGIN, "DURATION", 0,
     "On wire 3, how long before its end a wait is answered that was not granted, 0s to 10s, at "
     "most "
     "half the wait: clients of that wire give up at the end itself",
     4},
    {"handshake-timeout", OPTION_HANDSHAKE, "DURATION", 0,
     "From accept to an accepted proof, 100ms to 60s", 4},
    {0}};

static void read_limit(struct serve *serve, const struct limit *limit, const char *arg,
                       struct argp_state *state) {
  char why[TKT_VALUE_WHY_SIZE];
  uint64_t value;
  if (tkt_value_count(limit->option, arg, limit->min, limit->max, limit->unit, &value, why))
    *limit_field(&serve->config.limits, limit) = (uint32_t)value;
  else
    argp_error(state, "%s", why);
}

static void read_listen(struct serve *serve, const char *arg, struct argp_state *state) {
  char why[TKT_DAEMON_WHY_SIZE];
  size_t count = serve->config.listen_count;
  if (count == TKT_LISTENERS_MAX)
    argp_error(state, "--listen is given more than %d times", TKT_LISTENERS_MAX);
  else if (tkt_listen_spec_parse(arg, &serve->listens[count], why))
    serve->config.listen_count++;
  else
    argp_error(state, "%s", why);
}

static void read_durability(const char *arg, struct argp_state *state) {
  char quoted[TKT_VALUE_QUOTE_SIZE];
  if (strcmp(arg, "memory") == 0) return;
  if (strcmp(arg, "horizon") == 0 || strcmp(arg, "strict") == 0)
    argp_error(state,
               "--durability is '%s', which is not there yet in this version; it may be memory",
               arg);
  else
    argp_error(state, "--durability is %s; it may be memory", tkt_value_quote(arg, quoted));
}

static void read_ready_fd(struct serve *serve, const char *arg, struct argp_state *state) {
  char why[TKT_VALUE_WHY_SIZE];
  uint64_t fd;
  if (!tkt_value_count("--ready-fd", arg, 1, 1 << 20, "", &fd, why)) {
    argp_error(state, "%s", why);
    return;
  }
  int flags = fcntl((int)fd, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
    argp_error(
        state,
        "--ready-fd is %d, which is no descriptor open for writing; open one in the shell, for "
        "example: ticketing serve --ready-fd 3 3>ready.json",
        (int)fd);
  serve->config.ready_fd = (int)fd;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  struct serve *serve = state->input;
  char why[TKT_VALUE_WHY_SIZE], quoted[TKT_VALUE_QUOTE_SIZE];
  if (key >= OPTION_LIMIT && key < OPTION_LIMIT + LIMITS) {
    read_limit(serve, &limits[key - OPTION_LIMIT], arg, state);
    return 0;
  }
  switch (key) {
  case 'l':
    read_listen(serve, arg, state);
    return 0;
  case OPTION_DATA:
    if (!*arg) argp_error(state, "--data is ''; it may be the path of a directory");
    serve->config.data_path = arg;
    return 0;
  case OPTION_DURABILITY:
    read_durability(arg, state);
    return 0;
  case OPTION_TOKEN_FILE:
    serve->token_file = arg;
    return 0;
  case OPTION_NO_AUTH:
    serve->config.allow_no_auth = true;
    return 0;
  case OPTION_READY_FD:
    read_ready_fd(serve, arg, state);
    return 0;
  case OPTION_LOG_LEVEL:
    if (!tkt_log_level_parse(arg, &serve->config.log.level))
      argp_error(state, "--log-level is %s; it may be error, warning, info or debug",
                 tkt_value_quote(arg, quoted));
    return 0;
  case OPTION_TLS_CERT:
    serve->config.tls_cert = arg;
    return 0;
  case OPTION_TLS_KEY:
    serve->config.tls_key = arg;
    return 0;
  case OPTION_WAIT_MARGIN:
    if (!tkt_value_duration("--wait-margin", arg, 0, 10 * TKT_S,
                            &serve->config.limits.wait_margin_ns, why))
      argp_error(state, "%s", why);
    return 0;
  case OPTION_HANDSHAKE:
    if (!tkt_value_duration("--handshake-timeout", arg, 100 * TKT_MS, 60 * TKT_S,
                            &serve->config.limits.handshake_ns, why))
      argp_error(state, "%s", why);
    return 0;
  case ARGP_KEY_ARG:
    argp_error(state, "%s is no option; serve takes options only, such as --listen HOST:PORT",
               tkt_value_quote(arg, quoted));
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

/* --- help ---------------------------------------------------------------------------------------
 */

static void print_limits(FILE *out) {
  struct tkt_server_limits defaults = tkt_server_limits_default;
  fprintf(out, "Limits and their defaults:\n");
  for (int i = 0; i < LIMITS; i++)
    fprintf(out, "  %-27s %10u %-9s (%llu to %llu)\n", limits[i].option,
            *limit_field(&defaults, &limits[i]), limits[i].unit, (unsigned long long)limits[i].min,
            (unsigned long long)limits[i].max);
  char text[TKT_VALUE_TEXT_SIZE];
  fprintf(out, "  %-27s %10s\n", "--wait-margin",
          tkt_value_duration_text(defaults.wait_margin_ns, text));
  fprintf(out, "  %-27s %10s\n\n", "--handshake-timeout",
          tkt_value_duration_text(defaults.handshake_ns, text));
}

static char *help(int key, const char *text, void *input) {
  static const int statuses[] = {TKT_EXIT_USAGE,       TKT_EXIT_SYSTEM, TKT_EXIT_CANNOT_OPEN,
                                 TKT_EXIT_DATA_IN_USE, TKT_EXIT_SIGNAL, -1};
  (void)input;
  char *notes = NULL;
  size_t size = 0;
  FILE *out = key == ARGP_KEY_HELP_POST_DOC ? open_memstream(&notes, &size) : NULL;
  if (!out) return tkt_help_filter(key, text, "", statuses);
  print_limits(out);
  fprintf(
      out,
      "SIGTERM or SIGINT: no new connections, queued requests are told that they were not granted, "
      "replies leave, and the server ends within 5 seconds with status 0. A second one ends it at "
      "once with 128+n. SIGHUP reads --token-file, --tls-cert and --tls-key again: connections "
      "that "
      "come from then on use them, open ones stay; a file that cannot be used leaves the former in "
      "force, and the log says so.\n"
      "\nExamples:\n"
      "  ticketing serve\n"
      "  ticketing serve --listen 0.0.0.0:5225 --token-file tokens\n"
      "  ticketing serve --listen 0.0.0.0:5226,tls --tls-cert chain.pem --tls-key key.pem "
      "--token-file tokens\n"
      "  ticketing serve --listen 127.0.0.1:0 --data /tmp/locks --ready-fd 3 3>ready.json\n");
  fclose(out);
  char *whole = tkt_help_filter(key, text, notes ? notes : "", statuses);
  free(notes);
  return whole;
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .doc = "Run a lock server in the foreground; it logs to standard error.",
    .help_filter = help,
};

/* --- running ------------------------------------------------------------------------------------
 */

static int status_of(enum tkt_daemon_result result, int number) {
  switch (result) {
  case TKT_DAEMON_STOPPED:
    return TKT_EXIT_OK;
  case TKT_DAEMON_CUT:
    return TKT_EXIT_SIGNAL + number;
  case TKT_DAEMON_REFUSED:
    return TKT_EXIT_USAGE;
  case TKT_DAEMON_CANNOT_OPEN:
    return TKT_EXIT_CANNOT_OPEN;
  case TKT_DAEMON_DATA_IN_USE:
    return TKT_EXIT_DATA_IN_USE;
  case TKT_DAEMON_SYSTEM:
    return TKT_EXIT_SYSTEM;
  }
  return TKT_EXIT_INTERNAL;
}

static void use_tokens(struct serve *serve, const struct tkt_tokens *tokens) {
  tkt_tokens_release(&serve->tokens);
  serve->tokens = *tokens;
  for (size_t i = 0; i < tokens->count; i++)
    serve->known[i] = (struct tkt_client_token){tokens->entries[i].label,
                                                tkt_span_str(tokens->entries[i].secret)};
}

static bool reread_tokens(void *context, const struct tkt_client_token **tokens_out,
                          size_t *count_out, char *why) {
  struct serve *serve = context;
  struct tkt_tokens tokens;
  struct stat st;
  if (stat(serve->token_file, &st) == 0 && !S_ISREG(st.st_mode))
    return tkt_why(why, "--token-file '%.200s' is no regular file: it is read at start only",
                   serve->token_file);
  if (!tkt_tokens_read_file(&tokens, NULL, serve->token_file, why)) {
    tkt_tokens_release(&tokens);
    return false;
  }
  use_tokens(serve, &tokens);
  *tokens_out = serve->known;
  *count_out = serve->tokens.count;
  return true;
}

static int run(struct serve *serve) {
  char why[TKT_DAEMON_WHY_SIZE];
  serve->config.tokens = serve->known;
  serve->config.token_count = serve->tokens.count;
  serve->config.listens = serve->listens;
  if (serve->token_file) {
    serve->config.reread_tokens = reread_tokens;
    serve->config.reread_context = serve;
  }
  int number;
  enum tkt_daemon_result result = tkt_daemon_run(&serve->config, &number, why);
  if (result >= TKT_DAEMON_REFUSED) fprintf(stderr, "%s: %s\n", serve->program, why);
  return status_of(result, number);
}

static void listen_by_default(struct serve *serve) {
  char why[TKT_DAEMON_WHY_SIZE];
  for (size_t i = 0; i < DEFAULT_LISTENS; i++)
    if (tkt_listen_spec_parse(default_listens[i], &serve->listens[serve->config.listen_count], why))
      serve->config.listen_count++;
}

int tkt_cli_serve(int argc, char **argv) {
  static struct serve serve; /* large, and used once */
  char why[TKT_DAEMON_WHY_SIZE];
  serve.config.limits = tkt_server_limits_default;
  serve.config.log = (struct tkt_log){.fd = STDERR_FILENO, .level = TKT_LOG_INFO};
  serve.config.ready_fd = -1;
  if (argp_parse(&argp, argc, argv, 0, NULL, &serve) != 0) return TKT_EXIT_SYSTEM;
  if (serve.config.listen_count == 0) listen_by_default(&serve);
  serve.program = argv[0];
  struct tkt_tokens tokens;
  bool read = serve.token_file ? tkt_tokens_read_file(&tokens, argv[0], serve.token_file, why)
                               : tkt_tokens_read_environment(&tokens, TOKENS_VARIABLE, why);
  int status = TKT_EXIT_USAGE;
  use_tokens(&serve, &tokens);
  if (read)
    status = run(&serve);
  else
    fprintf(stderr, "%s: %s\n", argv[0], why);
  tkt_tokens_release(&serve.tokens);
  return status;
}
