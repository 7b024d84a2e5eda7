/* Values as people type them: durations, counts, addresses, keys. Each reader either accepts the
 * whole text or writes one sentence that names the option, the value and what it may be.
 *
 * `name` is how the user calls it ("--wait", "KEY"). `why` receives the sentence, NUL-terminated
 * and cut at TKT_VALUE_WHY_SIZE; untouched on success. */
#ifndef TKT_CLI_VALUES_H
#define TKT_CLI_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TKT_VALUE_WHY_SIZE = 512 };

/* A decimal number with an optional fraction and unit: "5" and "5s" are seconds, "2.5", "500ms",
 * "250us", "1m", "2h". Rounded to the nearest nanosecond; outside min_ns..max_ns is refused, never
 * clamped. Signs, exponents, NaN, infinity, blanks and the empty text are refused. */
bool tkt_value_duration(const char *name, const char *text, int64_t min_ns, int64_t max_ns,
                        int64_t *ns_out, char *why);

/* A decimal count in min..max; `what` names the unit in the sentence ("sessions"), "" for none. */
bool tkt_value_count(const char *name, const char *text, uint64_t min, uint64_t max,
                     const char *what, uint64_t *out, char *why);

/* `host:port` or `[v6]:port`, as the library takes it. Keys and counts of keys are left to the
 * library too: its calls check them before anything is sent and say what is wrong. */
bool tkt_value_address(const char *name, const char *text, char *why);

/* Writes `ns` the way tkt_value_duration reads it ("2.5s", "500ms"). Returns `out`. */
enum { TKT_VALUE_TEXT_SIZE = 32 };
char *tkt_value_duration_text(int64_t ns, char *out);

/* Copies `text` between quotes for an error sentence: control bytes and invalid UTF-8 as \xNN, cut
 * after 80 characters with "...". Returns `out` (TKT_VALUE_QUOTE_SIZE bytes). */
enum { TKT_VALUE_QUOTE_SIZE = 352 };
char *tkt_value_quote(const char *text, char *out);

#endif
