#include "cli/tls_options.h"

#include "cli/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODE_VARIABLE "TICKETING_TLS"
#define CA_VARIABLE "TICKETING_TLS_CA"

enum { OPTION_TLS = 0x400, OPTION_TLS_CA, OPTION_TLS_SKIP_VERIFY };

static const struct argp_option options[] = {
    {"tls", OPTION_TLS, NULL, 0,
     "Connect through TLS to a server whose certificate this machine's authorities vouch for "
     "(default: the environment variable " MODE_VARIABLE
     ", which may be on, off or skip-verify, else plain text)",
     21},
    {"tls-ca", OPTION_TLS_CA, "FILE", 0,
     "Through TLS, trusting the certificates of this PEM file alone (default: the environment "
     "variable " CA_VARIABLE ")",
     21},
    {"tls-skip-verify", OPTION_TLS_SKIP_VERIFY, NULL, 0,
     "Through TLS with whoever answers: for tests only", 21},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  struct tkt_cli_tls *tls = state->input;
  switch (key) {
  case OPTION_TLS:
    tls->on = true;
    return 0;
  case OPTION_TLS_CA:
    tls->ca_file = arg;
    return 0;
  case OPTION_TLS_SKIP_VERIFY:
    tls->skip_verify = true;
    return 0;
  case ARGP_KEY_END:
    if (tls->ca_file && tls->skip_verify)
      argp_error(state,
                 "--tls-ca says whom to trust and --tls-skip-verify trusts everybody: leave one "
                 "out");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

const struct argp tkt_cli_tls_argp = {.options = options, .parser = parse};

static bool read_environment(struct tkt_cli_tls *tls, char *why) {
  const char *mode = getenv(MODE_VARIABLE), *ca_file = getenv(CA_VARIABLE);
  char quoted[TKT_VALUE_QUOTE_SIZE];
  *tls = (struct tkt_cli_tls){0};
  if (ca_file && *ca_file) tls->ca_file = ca_file;
  if (!mode || !*mode) return true;
  if (strcmp(mode, "off") == 0) {
    tls->ca_file = NULL;
  } else if (strcmp(mode, "on") == 0) {
    tls->on = true;
  } else if (strcmp(mode, "skip-verify") == 0) {
    tls->skip_verify = true;
    tls->ca_file = NULL;
  } else {
    snprintf(why, TKT_VALUE_WHY_SIZE, MODE_VARIABLE " is %s; it may be on, off or skip-verify",
             tkt_value_quote(mode, quoted));
    return false;
  }
  return true;
}

bool tkt_cli_tls_apply(const struct tkt_cli_tls *given, const char *program, ticketing_options *o,
                       char *why) {
  struct tkt_cli_tls tls = *given;
  if (tls.off) return true;
  if (!tkt_cli_tls_given(given) && !read_environment(&tls, why)) return false;
  if (!tkt_cli_tls_given(&tls)) return true;
  int mode = tls.skip_verify ? TICKETING_TLS_SKIP_VERIFY
             : tls.ca_file   ? TICKETING_TLS_CA_FILE
                             : TICKETING_TLS_SYSTEM_ROOTS;
  int rc = ticketing_options_set_tls(o, mode, tls.ca_file);
  if (rc != TICKETING_OK) {
    snprintf(why, TKT_VALUE_WHY_SIZE, "%s%s", tls.ca_file ? "--tls-ca: " : "",
             ticketing_options_message(o));
    return false;
  }
  if (tls.skip_verify)
    fprintf(stderr,
            "%s: warning: nobody checks who the server is; whoever sits on the line can read and "
            "change everything (--tls-ca FILE checks)\n",
            program);
  return true;
}
