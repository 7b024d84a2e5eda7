#include "daemon/first_token.h"

uint64_t tkt_first_token(int64_t unix_us, bool *ignored_out) {
  *ignored_out = unix_us < 1 || unix_us >= TKT_FIRST_TOKEN_CLOCK_END;
  return *ignored_out ? 1 : (uint64_t)unix_us;
}
