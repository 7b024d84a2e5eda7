#include "wire/wire.h"

static const struct {
  const char *text;
  uint8_t len;
} reasons[] = {
#define REASON(error, name) [error] = {name, sizeof name - 1}
    REASON(TKT_WIRE_ERROR_BAD_KEY, "bad_key"),
    REASON(TKT_WIRE_ERROR_BAD_LEASE, "bad_lease"),
    REASON(TKT_WIRE_ERROR_NOT_ACTIVE, "not_active"),
    REASON(TKT_WIRE_ERROR_NO_LEADER, "no_leader"),
    REASON(TKT_WIRE_ERROR_AUTH_FAILED, "auth_failed"),
    REASON(TKT_WIRE_ERROR_BAD_OP, "bad_op"),
    REASON(TKT_WIRE_ERROR_TOO_LONG, "too_long"),
    REASON(TKT_WIRE_ERROR_BAD_KEY_SET, "bad_key_set"),
    REASON(TKT_WIRE_ERROR_GROUP_MISMATCH, "group_mismatch"),
    REASON(TKT_WIRE_ERROR_BAD_TOKEN, "bad_token"),
#undef REASON
};

enum { REASONS = sizeof reasons / sizeof *reasons };

const char *tkt_wire_error_reason(enum tkt_wire_error error) {
  return (unsigned)error < REASONS ? reasons[error].text : NULL;
}

enum tkt_wire_error tkt_wire_error_named(struct tkt_span reason) {
  for (unsigned e = TKT_WIRE_ERROR_UNKNOWN + 1; e < REASONS; e++)
    if (reasons[e].len == reason.len && memcmp(reasons[e].text, reason.data, reason.len) == 0)
      return (enum tkt_wire_error)e;
  return TKT_WIRE_ERROR_UNKNOWN;
}
