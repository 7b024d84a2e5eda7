/* Where a run of the server begins to count its fencing tokens.
 *
 * Tokens grow across restarts because each start begins at the wall clock's microseconds since
 * 1970: a server would have to grant more than a million tickets a second, all its life, to
 * overtake it. */
#ifndef TKT_DAEMON_FIRST_TOKEN_H
#define TKT_DAEMON_FIRST_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

/* Tokens stay below 2^53, exact in every language's double; a clock from 2^52 us on (the year 2112)
 * is taken for a broken one. */
#define TKT_FIRST_TOKEN_CLOCK_END (INT64_C(1) << 52)

/* The first token for a wall clock of `unix_us`; *ignored_out says that the clock was not believed
 * and tokens begin at 1. */
uint64_t tkt_first_token(int64_t unix_us, bool *ignored_out);

#endif
