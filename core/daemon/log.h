/* The server's log: one line an event in logfmt (`key=value`, the form most collectors read), on a
 * descriptor that is never waited for.
 *
 *   time=2026-01-31T12:00:00.123Z level=info msg=serving address=127.0.0.1:5225 wire=2
 *
 * A lock server that stands still because nobody reads its log would be worse than a missing line:
 * a line that the descriptor cannot take at once is dropped, and the next one says how many were.
 * Secrets never enter a field. One thread. */
#ifndef TKT_DAEMON_LOG_H
#define TKT_DAEMON_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tkt_log_level { TKT_LOG_ERROR = 0, TKT_LOG_WARNING, TKT_LOG_INFO, TKT_LOG_DEBUG };

/* Longest line with its LF; at most PIPE_BUF, so that lines of two writers never mix. */
enum { TKT_LOG_LINE_MAX = 2048 };

struct tkt_log {
  int fd;                   /* -1: nothing is written */
  enum tkt_log_level level; /* the least urgent that is written */
  uint64_t dropped;
};

struct tkt_log_field {
  const char *name;
  const char *text; /* NULL: the number counts */
  uint64_t number;
};

#define TKT_FIELD_TEXT(name, text) ((struct tkt_log_field){(name), (text), 0})
#define TKT_FIELD_NUMBER(name, number) ((struct tkt_log_field){(name), NULL, (number)})

/* Writes `message` and the fields. Never blocks, keeps errno. */
void tkt_log_write(struct tkt_log *log, enum tkt_log_level level, const char *message,
                   const struct tkt_log_field *fields, size_t count);

static inline void tkt_log_plain(struct tkt_log *log, enum tkt_log_level level,
                                 const char *message) {
  tkt_log_write(log, level, message, NULL, 0);
}

/* tkt_log_fields(log, level, message, TKT_FIELD_TEXT(...), ...): at least one field. */
#define tkt_log_fields(log, level, message, ...)                                                   \
  tkt_log_write((log), (level), (message), (const struct tkt_log_field[]){__VA_ARGS__},            \
                sizeof((const struct tkt_log_field[]){__VA_ARGS__}) /                              \
                    sizeof(struct tkt_log_field))

/* "error", "warning", "info", "debug"; false where `text` is none of them. */
bool tkt_log_level_parse(const char *text, enum tkt_log_level *out);

/* The line as it would be written, NUL-terminated, at most TKT_LOG_LINE_MAX bytes; returns its
 * length. Too long: cut before the LF. */
size_t tkt_log_format(enum tkt_log_level level, int64_t unix_ms, const char *message,
                      const struct tkt_log_field *fields, size_t count, char *out);

#endif
