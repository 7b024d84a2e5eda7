/* The argument rules A1..A8: checked before anything is sent, nothing clamped. */
#ifndef TKT_CLIENT_ARGUMENTS_H
#define TKT_CLIENT_ARGUMENTS_H

#include "base/key.h"
#include "client/outcome.h"

#include <stddef.h>
#include <stdint.h>

enum {
  TKT_WAIT_MAX_S = 255,
  TKT_LEASE_MIN_S = 1,
  TKT_LEASE_MAX_S = 250,
  TKT_ADDRESS_COUNT_MAX = 6,
  /* Any refusal sentence fits, keys shown shortened and escaped. */
  TKT_REFUSAL_SIZE = 256,
};

/* As the caller gave them; durations in ns. */
struct tkt_acquire_args {
  const struct tkt_span *keys;
  size_t key_count;
  int64_t wait_ns;
  int64_t lease_ns;
  int64_t budget_ns;
};

/* After the checks: keys sorted, repeated ones dropped; fractions of a second rounded up (A4). The
 * key spans still point at the caller's bytes. */
struct tkt_acquire_plan {
  struct tkt_span keys[TKT_KEY_SET_MAX];
  uint8_t key_count;
  uint8_t wait_s;
  uint8_t lease_s;
  int64_t budget_ns;
};

/* TKT_OK and *plan_out, or TKT_INVALID_ARGUMENT / TKT_UNSUPPORTED and in `why` (TKT_REFUSAL_SIZE
 * bytes) a sentence with the argument's name, its value, what is allowed. */
enum tkt_outcome tkt_acquire_check(const struct tkt_acquire_args *args,
                                   struct tkt_acquire_plan *plan_out, char *why);

/* The same for the keys and token of a release without a ticket; sorted keys into `keys_out` (room
 * for TKT_KEY_SET_MAX). Token 0 is refused. */
enum tkt_outcome tkt_release_check(const struct tkt_span *keys, size_t key_count, uint64_t token,
                                   struct tkt_span *keys_out, size_t *count_out, char *why);

/* The address list (A6): 1..6, each `host:port`, none twice (compared as text). */
enum tkt_outcome tkt_addresses_check(const char *const *addresses, size_t count, char *why);

#endif
