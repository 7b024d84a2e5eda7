#include "client/arguments.h"

#include "base/address.h"
#include "base/time.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* Characters of a key that a sentence shows. */
enum { SHOWN_KEY = 40, SHOWN_SIZE = SHOWN_KEY * 4 + 4 };

__attribute__((format(printf, 3, 4))) static enum tkt_outcome
refuse(enum tkt_outcome outcome, char *why, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(why, TKT_REFUSAL_SIZE, format, args);
  va_end(args);
  return outcome;
}

/* Keys and addresses come from anywhere: what is not plain ASCII is shown as \xNN, and only the
 * beginning of what is long. */
static const char *shown(struct tkt_span text, char out[SHOWN_SIZE]) {
  char *p = out;
  size_t n = text.len < SHOWN_KEY ? text.len : SHOWN_KEY;
  for (size_t i = 0; i < n; i++) {
    uint8_t b = text.data[i];
    if (b > 0x20 && b < 0x7f && b != '\\' && b != '"')
      *p++ = (char)b;
    else
      p += snprintf(p, 5, "\\x%02x", b);
  }
  strcpy(p, n < text.len ? "..." : "");
  return out;
}

/* Nanoseconds as seconds without trailing zeros. */
static const char *seconds(int64_t ns, char out[32]) {
  bool negative = ns < 0;
  uint64_t abs = negative ? 0 - (uint64_t)ns : (uint64_t)ns;
  int len = snprintf(out, 32, "%s%" PRIu64 ".%09" PRIu64, negative ? "-" : "",
                     abs / (uint64_t)TKT_S, abs % (uint64_t)TKT_S);
  while (out[len - 1] == '0')
    out[--len] = 0;
  if (out[len - 1] == '.') out[--len] = 0;
  return out;
}

static int64_t round_up_s(int64_t ns) {
  return ns / TKT_S + (ns % TKT_S != 0);
}

static const char *key_fault(enum tkt_key_fault fault) {
  switch (fault) {
  case TKT_KEY_EMPTY:
    return "is empty";
  case TKT_KEY_TOO_LONG:
    return "is too long";
  case TKT_KEY_FORBIDDEN_BYTE:
    return "holds a space, CR or LF";
  case TKT_KEY_NOT_UTF8:
    return "is not valid UTF-8";
  case TKT_KEY_OK:
    break;
  }
  return "";
}

static enum tkt_outcome check_keys(const struct tkt_span *keys, size_t count,
                                   struct tkt_span *keys_out, uint8_t *count_out, char *why) {
  if (count < 1 || count > TKT_KEY_SET_MAX || !keys)
    return refuse(TKT_INVALID_ARGUMENT, why, "keys: %zu given; 1 to %d are allowed", count,
                  TKT_KEY_SET_MAX);
  for (size_t i = 0; i < count; i++) {
    enum tkt_key_fault fault = keys[i].data ? tkt_key_check(keys[i]) : TKT_KEY_EMPTY;
    if (fault != TKT_KEY_OK) {
      char text[SHOWN_SIZE];
      return refuse(TKT_INVALID_ARGUMENT, why,
                    "key \"%s\" (%zu bytes) %s; a key is 1 to %d bytes of UTF-8 without space, CR "
                    "or LF",
                    shown(keys[i], text), keys[i].len, key_fault(fault), TKT_KEY_MAX);
    }
    keys_out[i] = keys[i];
  }
  *count_out = (uint8_t)tkt_key_set_normalize(keys_out, count);
  return TKT_OK;
}

enum tkt_outcome tkt_acquire_check(const struct tkt_acquire_args *args,
                                   struct tkt_acquire_plan *plan_out, char *why) {
  char text[32], other[32];
  enum tkt_outcome outcome =
      check_keys(args->keys, args->key_count, plan_out->keys, &plan_out->key_count, why);
  if (outcome != TKT_OK) return outcome;
  if (args->wait_ns < 0)
    return refuse(TKT_INVALID_ARGUMENT, why, "wait %s s is negative; 0 to %d s are allowed",
                  seconds(args->wait_ns, text), TKT_WAIT_MAX_S);
  if (args->wait_ns > TKT_WAIT_MAX_S * TKT_S)
    return refuse(TKT_UNSUPPORTED, why, "wait %s s is too long; 0 to %d s are supported",
                  seconds(args->wait_ns, text), TKT_WAIT_MAX_S);
  if (args->lease_ns <= 0)
    return refuse(TKT_INVALID_ARGUMENT, why, "lease %s s is not positive; %d to %d s are allowed",
                  seconds(args->lease_ns, text), TKT_LEASE_MIN_S, TKT_LEASE_MAX_S);
  if (args->lease_ns > TKT_LEASE_MAX_S * TKT_S)
    return refuse(TKT_UNSUPPORTED, why, "lease %s s is too long; %d to %d s are supported",
                  seconds(args->lease_ns, text), TKT_LEASE_MIN_S, TKT_LEASE_MAX_S);
  int64_t lease_s = round_up_s(args->lease_ns);
  if (args->budget_ns < 0)
    return refuse(TKT_INVALID_ARGUMENT, why,
                  "budget %s s is negative; 0 to the lease (%" PRId64 " s) are allowed",
                  seconds(args->budget_ns, text), lease_s);
  if (args->budget_ns > TKT_LEASE_MAX_S * TKT_S)
    return refuse(TKT_UNSUPPORTED, why, "budget %s s is too long; 0 to %d s are supported",
                  seconds(args->budget_ns, text), TKT_LEASE_MAX_S);
  if (args->budget_ns > lease_s * TKT_S)
    return refuse(TKT_INVALID_ARGUMENT, why,
                  "budget %s s is above the lease of %s s; 0 to the lease rounded up (%" PRId64
                  " s) are allowed",
                  seconds(args->budget_ns, text), seconds(args->lease_ns, other), lease_s);
  plan_out->wait_s = (uint8_t)round_up_s(args->wait_ns);
  plan_out->lease_s = (uint8_t)lease_s;
  plan_out->budget_ns = args->budget_ns;
  return TKT_OK;
}

enum tkt_outcome tkt_release_check(const struct tkt_span *keys, size_t key_count, uint64_t token,
                                   struct tkt_span *keys_out, size_t *count_out, char *why) {
  uint8_t count = 0;
  enum tkt_outcome outcome = check_keys(keys, key_count, keys_out, &count, why);
  if (outcome != TKT_OK) return outcome;
  if (token == 0)
    return refuse(TKT_INVALID_ARGUMENT, why, "token 0 names no grant; 1 to %" PRIu64 " are allowed",
                  UINT64_MAX);
  *count_out = count;
  return TKT_OK;
}

enum tkt_outcome tkt_addresses_check(const char *const *addresses, size_t count, char *why) {
  if (count < 1 || count > TKT_ADDRESS_COUNT_MAX || !addresses)
    return refuse(TKT_INVALID_ARGUMENT, why, "addresses: %zu given; 1 to %d are allowed", count,
                  TKT_ADDRESS_COUNT_MAX);
  for (size_t i = 0; i < count; i++) {
    char text[SHOWN_SIZE];
    if (!addresses[i])
      return refuse(TKT_INVALID_ARGUMENT, why, "address %zu of %zu is missing", i + 1, count);
    struct tkt_address parsed;
    enum tkt_address_fault fault = tkt_address_parse(tkt_span_str(addresses[i]), false, &parsed);
    if (fault != TKT_ADDRESS_OK)
      return refuse(TKT_INVALID_ARGUMENT, why, "address \"%s\": %s",
                    shown(tkt_span_str(addresses[i]), text), tkt_address_fault_text(fault));
    for (size_t j = 0; j < i; j++)
      if (strcmp(addresses[i], addresses[j]) == 0)
        return refuse(TKT_INVALID_ARGUMENT, why,
                      "address \"%s\" is given twice; each may stand once in the list",
                      shown(tkt_span_str(addresses[i]), text));
  }
  return TKT_OK;
}
