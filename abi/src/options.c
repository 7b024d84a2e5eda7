#include "options.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

/* Most acquires that may wait unsent: bounds what a runaway caller can make us hold. */
enum { UNSENT_MAX = 1000000 };

__attribute__((format(printf, 3, 4))) static int refuse(ticketing_options *options, int code,
                                                        const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(options->message, sizeof options->message, format, arguments);
  va_end(arguments);
  return code;
}

static int accept_setting(ticketing_options *options) {
  options->message[0] = 0;
  return TICKETING_OK;
}

int ticketing_options_new(ticketing_options **options_out) {
  if (!options_out) return TICKETING_E_INVALID_ARGUMENT;
  ticketing_options *options = calloc(1, sizeof *options);
  *options_out = options;
  if (!options) return TICKETING_E_NO_MEMORY;
  options->io_mode = TICKETING_IO_THREAD;
  options->max_in_flight = TKT_IN_FLIGHT_DEFAULT;
  options->max_unsent = TKT_UNSENT_DEFAULT;
  return TICKETING_OK;
}

static void drop_token(ticketing_options *options) {
  if (options->token) OPENSSL_cleanse(options->token, options->token_len);
  free(options->token);
  options->token = NULL;
  options->token_len = 0;
}

void ticketing_options_free(ticketing_options *options) {
  if (!options) return;
  for (size_t i = 0; i < options->address_count; i++)
    free(options->addresses[i]);
  drop_token(options);
  tkt_trust_close(&options->trust);
  free(options);
}

const char *ticketing_options_message(const ticketing_options *options) {
  return options ? options->message : "options is NULL";
}

int ticketing_options_add_address(ticketing_options *options, const char *address) {
  if (!options) return TICKETING_E_INVALID_ARGUMENT;
  if (!address)
    return refuse(options, TICKETING_E_INVALID_ARGUMENT,
                  "address is NULL; give host:port or [v6]:port");
  const char *all[TKT_ADDRESS_COUNT_MAX + 1];
  for (size_t i = 0; i < options->address_count; i++)
    all[i] = options->addresses[i];
  all[options->address_count] = address;
  int rc = tkt_addresses_check(all, options->address_count + 1, options->message);
  if (rc != TICKETING_OK) return rc;
  char *copy = strdup(address);
  if (!copy) return refuse(options, TICKETING_E_NO_MEMORY, "out of memory");
  options->addresses[options->address_count++] = copy;
  return accept_setting(options);
}

int ticketing_options_set_token(ticketing_options *options, const void *token, size_t len) {
  if (!options) return TICKETING_E_INVALID_ARGUMENT;
  if (!token && len > 0)
    return refuse(options, TICKETING_E_INVALID_ARGUMENT,
                  "token is NULL with a length of %zu; give its bytes, or length 0 for none", len);
  uint8_t *copy = NULL;
  if (len > 0) {
    copy = malloc(len);
    if (!copy) return refuse(options, TICKETING_E_NO_MEMORY, "out of memory");
    memcpy(copy, token, len);
  }
  drop_token(options);
  options->token = copy;
  options->token_len = len;
  return accept_setting(options);
}

int ticketing_options_set_io_mode(ticketing_options *options, int io_mode) {
  if (!options) return TICKETING_E_INVALID_ARGUMENT;
  if (io_mode != TICKETING_IO_THREAD && io_mode != TICKETING_IO_CALLER)
    return refuse(options, TICKETING_E_INVALID_ARGUMENT,
                  "io_mode %d is unknown; %d (thread) and %d (caller) are allowed", io_mode,
                  TICKETING_IO_THREAD, TICKETING_IO_CALLER);
  options->io_mode = io_mode;
  return accept_setting(options);
}

int ticketing_options_set_max_in_flight(ticketing_options *options, uint32_t count) {
  if (!options) return TICKETING_E_INVALID_ARGUMENT;
  if (count < 1 || count > TKT_IN_FLIGHT_MAX)
    return refuse(options, TICKETING_E_INVALID_ARGUMENT,
                  "max_in_flight %" PRIu32 " is out of range; 1 to %d are allowed", count,
                  TKT_IN_FLIGHT_MAX);
  options->max_in_flight = count;
  return accept_setting(options);
}

int ticketing_options_set_max_unsent(ticketing_options *options, uint32_t count) {
  if (!options) return TICKETING_E_INVALID_ARGUMENT;
  if (count > UNSENT_MAX)
    return refuse(options, TICKETING_E_INVALID_ARGUMENT,
                  "max_unsent %" PRIu32 " is out of range; 0 to %d are allowed", count, UNSENT_MAX);
  options->max_unsent = count;
  return accept_setting(options);
}

int ticketing_options_set_cancel_keeps_session(ticketing_options *options, int on) {
  if (!options) return TICKETING_E_INVALID_ARGUMENT;
  if (on != 0 && on != 1)
    return refuse(options, TICKETING_E_INVALID_ARGUMENT,
                  "cancel_keeps_session %d is out of range; 0 and 1 are allowed", on);
  options->cancel_keeps_session = on == 1;
  return accept_setting(options);
}

static int refuse_tls(ticketing_options *options, int tls_mode, const char *ca_file) {
  if (tls_mode < TICKETING_TLS_OFF || tls_mode > TICKETING_TLS_SKIP_VERIFY)
    return refuse(options, TICKETING_E_INVALID_ARGUMENT,
                  "tls_mode %d is unknown; %d (off), %d (system roots), %d (CA file) and %d (skip "
                  "verification) are allowed",
                  tls_mode, TICKETING_TLS_OFF, TICKETING_TLS_SYSTEM_ROOTS, TICKETING_TLS_CA_FILE,
                  TICKETING_TLS_SKIP_VERIFY);
  if (tls_mode == TICKETING_TLS_CA_FILE && (!ca_file || !*ca_file))
    return refuse(options, TICKETING_E_INVALID_ARGUMENT,
                  "ca_file is %s; the path of a PEM file is needed", ca_file ? "empty" : "NULL");
  if (tls_mode != TICKETING_TLS_CA_FILE && ca_file)
    return refuse(options, TICKETING_E_INVALID_ARGUMENT,
                  "ca_file is '%.200s', but tls_mode %d reads none; NULL is allowed", ca_file,
                  tls_mode);
  return TICKETING_OK;
}

int ticketing_options_set_tls(ticketing_options *options, int tls_mode, const char *ca_file) {
  static const enum tkt_tls_trust trusts[] = {
      [TICKETING_TLS_SYSTEM_ROOTS] = TKT_TLS_SYSTEM_ROOTS,
      [TICKETING_TLS_CA_FILE] = TKT_TLS_CA_FILE,
      [TICKETING_TLS_SKIP_VERIFY] = TKT_TLS_SKIP_VERIFY,
  };
  if (!options) return TICKETING_E_INVALID_ARGUMENT;
  int rc = refuse_tls(options, tls_mode, ca_file);
  if (rc != TICKETING_OK) return rc;
  struct tkt_trust trust = {0};
  char why[TKT_TLS_WHY_SIZE];
  if (tls_mode != TICKETING_TLS_OFF && !tkt_trust_open(&trust, trusts[tls_mode], ca_file, why))
    return refuse(options, TICKETING_E_INVALID_ARGUMENT, "%s", why);
  tkt_trust_close(&options->trust);
  options->trust = trust;
  return accept_setting(options);
}

int ticketing_options_set_wire(ticketing_options *options, int wire) {
  if (!options) return TICKETING_E_INVALID_ARGUMENT;
  if (wire != TICKETING_WIRE_ANY && wire != TICKETING_WIRE_2 && wire != TICKETING_WIRE_3)
    return refuse(options, TICKETING_E_INVALID_ARGUMENT,
                  "wire %d is unknown; %d (any), %d and %d are allowed", wire, TICKETING_WIRE_ANY,
                  TICKETING_WIRE_2, TICKETING_WIRE_3);
  options->wire = wire;
  return accept_setting(options);
}

int ticketing_options_set_cluster_identity(ticketing_options *options, const void *identity,
                                           size_t len) {
  if (!options) return TICKETING_E_INVALID_ARGUMENT;
  if (len != 0 && (len != TICKETING_IDENTITY_SIZE || !identity))
    return refuse(options, TICKETING_E_INVALID_ARGUMENT,
                  "identity has %zu bytes%s; %d, or length 0 for none, are allowed", len,
                  identity ? "" : " at NULL", TICKETING_IDENTITY_SIZE);
  options->has_identity = len != 0;
  if (len) memcpy(options->identity, identity, len);
  return accept_setting(options);
}
