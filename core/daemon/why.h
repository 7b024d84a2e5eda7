/* Sentences that explain a refusal at start: what, its value, what to do. */
#ifndef TKT_DAEMON_WHY_H
#define TKT_DAEMON_WHY_H

#include <stdbool.h>

/* Room for every such sentence, NUL included. */
enum { TKT_DAEMON_WHY_SIZE = 1024 };

/* Writes the sentence into `why` (TKT_DAEMON_WHY_SIZE bytes), cut where it is longer. Always
 * false, so that a check can end with `return tkt_why(...)`. */
bool tkt_why(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
