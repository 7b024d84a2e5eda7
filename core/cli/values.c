#include "cli/values.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <ticketing.h>

#define NS_PER_US INT64_C(1000)

static const struct {
  const char *name;
  int64_t ns;
} units[] = {
    {"us", NS_PER_US},
    {"ms", TICKETING_MILLISECOND},
    {"s", TICKETING_SECOND},
    {"m", 60 * TICKETING_SECOND},
    {"h", 3600 * TICKETING_SECOND},
    {"", TICKETING_SECOND},
};

/* Length of the well-formed sequence of printable UTF-8 at `p`, 0 where there is none. */
static size_t printable_sequence(const unsigned char *p) {
  if (*p >= 0x20 && *p < 0x7f) return 1;
  size_t len = *p >= 0xc2 && *p < 0xe0   ? 2
               : *p >= 0xe0 && *p < 0xf0 ? 3
               : *p >= 0xf0 && *p < 0xf5 ? 4
                                         : 0;
  for (size_t i = 1; i < len; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  /* C1 control characters would reach a terminal as commands. */
  return *p == 0xc2 && p[1] < 0xa0 ? 0 : len;
}

char *tkt_value_quote(const char *text, char *out) {
  enum { SHOWN_MAX = 80 };
  const unsigned char *p = (const unsigned char *)text;
  size_t at = 0;
  out[at++] = '\'';
  for (int shown = 0; *p; shown++) {
    if (shown == SHOWN_MAX) {
      memcpy(out + at, "...", 3);
      at += 3;
      break;
    }
    size_t len = printable_sequence(p);
    if (len) {
      memcpy(out + at, p, len);
      at += len;
      p += len;
    } else {
      at += (size_t)snprintf(out + at, 5, "\\x%02x", *p++);
    }
  }
  out[at++] = '\'';
  out[at] = '\0';
  return out;
}

char *tkt_value_duration_text(int64_t ns, char *out) {
  int64_t whole = ns / TICKETING_SECOND, rest = ns % TICKETING_SECOND;
  if (whole == 0 && rest != 0 && rest % TICKETING_MILLISECOND == 0) {
    snprintf(out, TKT_VALUE_TEXT_SIZE, "%" PRId64 "ms", rest / TICKETING_MILLISECOND);
    return out;
  }
  int n = snprintf(out, TKT_VALUE_TEXT_SIZE, "%" PRId64 ".%09" PRId64, whole, rest);
  while (out[n - 1] == '0')
    n--;
  if (out[n - 1] == '.') n--;
  out[n++] = 's';
  out[n] = '\0';
  return out;
}

/* digits[.digits]unit, all of it, in ns; false: not of this form. Saturates at INT64_MAX. */
static bool read_duration(const char *text, int64_t *ns_out) {
  size_t whole = strspn(text, "0123456789");
  const char *fraction = text + whole;
  size_t digits = 0;
  if (*fraction == '.') digits = strspn(++fraction, "0123456789");
  if (whole + digits == 0) return false;
  const char *unit = fraction + digits;
  int64_t scale = 0;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (strcmp(unit, units[i].name) == 0) scale = units[i].ns;
  if (scale == 0) return false;
  int64_t ns = 0;
  for (size_t i = 0; i < whole; i++) {
    int64_t term = (text[i] - '0') * scale;
    if (__builtin_mul_overflow(ns, 10, &ns) || __builtin_add_overflow(ns, term, &ns)) {
      *ns_out = INT64_MAX;
      return true;
    }
  }
  /* 18 digits of a fraction say more than a nanosecond of the longest unit. */
  __int128_t part = 0, ten = 1;
  for (size_t i = 0; i < digits && i < 18; i++) {
    part = part * 10 + (fraction[i] - '0');
    ten *= 10;
  }
  int64_t rounded = (int64_t)((part * scale + ten / 2) / ten);
  if (__builtin_add_overflow(ns, rounded, &ns)) ns = INT64_MAX;
  *ns_out = ns;
  return true;
}

bool tkt_value_duration(const char *name, const char *text, int64_t min_ns, int64_t max_ns,
                        int64_t *ns_out, char *why) {
  int64_t ns = -1;
  bool form = read_duration(text, &ns);
  if (form && ns >= min_ns && ns <= max_ns) {
    *ns_out = ns;
    return true;
  }
  char quoted[TKT_VALUE_QUOTE_SIZE], low[TKT_VALUE_TEXT_SIZE], high[TKT_VALUE_TEXT_SIZE];
  int64_t opposite;
  bool negative = *text == '-' && read_duration(text + 1, &opposite);
  snprintf(why, TKT_VALUE_WHY_SIZE,
           "%s is %s, %s; it may be %s to %s, written like 5, 2.5, 500ms, 2s, 1m", name,
           tkt_value_quote(text, quoted),
           form       ? "out of its range"
           : negative ? "negative"
                      : "no duration",
           tkt_value_duration_text(min_ns, low), tkt_value_duration_text(max_ns, high));
  return false;
}

bool tkt_value_count(const char *name, const char *text, uint64_t min, uint64_t max,
                     const char *what, uint64_t *out, char *why) {
  size_t digits = strspn(text, "0123456789");
  bool form = digits > 0 && text[digits] == '\0';
  uint64_t value = 0;
  for (size_t i = 0; form && i < digits; i++)
    if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
        __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value)) {
      value = UINT64_MAX;
      form = max == UINT64_MAX ? false : form; /* saturated is not in range */
      break;
    }
  if (form && value >= min && value <= max) {
    *out = value;
    return true;
  }
  char quoted[TKT_VALUE_QUOTE_SIZE];
  snprintf(why, TKT_VALUE_WHY_SIZE,
           "%s is %s; it may be a whole number from %" PRIu64 " to %" PRIu64 "%s%s", name,
           tkt_value_quote(text, quoted), min, max, *what ? " " : "", what);
  return false;
}

bool tkt_value_address(const char *name, const char *text, char *why) {
  ticketing_options *options = NULL;
  if (ticketing_options_new(&options) != TICKETING_OK) {
    snprintf(why, TKT_VALUE_WHY_SIZE, "%s cannot be read: out of memory", name);
    return false;
  }
  bool ok = ticketing_options_add_address(options, text) == TICKETING_OK;
  if (!ok) {
    char quoted[TKT_VALUE_QUOTE_SIZE];
    snprintf(
        why, TKT_VALUE_WHY_SIZE,
        "%s is %s: it may be HOST:PORT or [IPv6]:PORT with a port from 1 to 65535, for example "
        "127.0.0.1:5225",
        name, tkt_value_quote(text, quoted));
  }
  ticketing_options_free(options);
  return ok;
}
