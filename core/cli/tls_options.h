/* --tls, --tls-ca and --tls-skip-verify of the commands that are clients, and what stands in the
 * environment for them. */
#ifndef TKT_CLI_TLS_OPTIONS_H
#define TKT_CLI_TLS_OPTIONS_H

#include <argp.h>
#include <stdbool.h>
#include <ticketing.h>

/* Zeroed: nothing was given, the environment decides. */
struct tkt_cli_tls {
  bool on;
  const char *ca_file;
  bool skip_verify;
  bool off; /* plain text whatever the environment says; no option sets it */
};

/* A child of a command's argp; its input is a struct tkt_cli_tls. */
extern const struct argp tkt_cli_tls_argp;

/* An option asked for TLS. */
static inline bool tkt_cli_tls_given(const struct tkt_cli_tls *tls) {
  return tls->on || tls->ca_file || tls->skip_verify;
}

/* Sets what was given, or else what $TICKETING_TLS and $TICKETING_TLS_CA say. False: `why`
 * (TKT_VALUE_WHY_SIZE bytes) says what is wrong. Where the server will not be checked, a warning
 * goes to standard error in `program`'s name. */
bool tkt_cli_tls_apply(const struct tkt_cli_tls *tls, const char *program,
                       ticketing_options *options, char *why);

#endif
