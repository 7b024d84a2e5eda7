#include "daemon/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warning", "info", "debug"};

bool tkt_log_level_parse(const char *text, enum tkt_log_level *out) {
  for (unsigned i = 0; i < sizeof level_names / sizeof *level_names; i++) {
    if (strcmp(text, level_names[i]) != 0) continue;
    *out = (enum tkt_log_level)i;
    return true;
  }
  return false;
}

struct line {
  char *out;
  size_t len;
};

/* One byte is kept for the LF and one for the NUL. */
static void put(struct line *line, char c) {
  if (line->len < TKT_LOG_LINE_MAX - 2) line->out[line->len++] = c;
}

static void put_text(struct line *line, const char *text) {
  for (; *text; text++)
    put(line, *text);
}

static bool needs_quotes(const char *text) {
  if (!*text) return true;
  for (; *text; text++)
    if ((unsigned char)*text <= ' ' || *text == '"' || *text == '=' || *text == '\\' ||
        *text == 0x7f)
      return true;
  return false;
}

static void put_value(struct line *line, const char *text) {
  if (!needs_quotes(text)) {
    put_text(line, text);
    return;
  }
  put(line, '"');
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') {
      put(line, '\\');
      put(line, *text);
    } else if (c < ' ' || c == 0x7f) {
      char escape[8];
      snprintf(escape, sizeof escape, "\\x%02x", c);
      put_text(line, escape);
    } else {
      put(line, *text);
    }
  }
  put(line, '"');
}

size_t tkt_log_format(enum tkt_log_level level, int64_t unix_ms, const char *message,
                      const struct tkt_log_field *fields, size_t count, char *out) {
  struct line line = {out, 0};
  time_t seconds = (time_t)(unix_ms / 1000);
  struct tm utc;
  char stamp[64];
  if (!gmtime_r(&seconds, &utc)) memset(&utc, 0, sizeof utc);
  size_t n = strftime(stamp, sizeof stamp, "time=%Y-%m-%dT%H:%M:%S", &utc);
  stamp[n] = '\0';
  put_text(&line, stamp);
  snprintf(stamp, sizeof stamp, ".%03dZ level=", (int)(unix_ms % 1000));
  put_text(&line, stamp);
  put_text(&line, level_names[level]);
  put_text(&line, " msg=");
  put_value(&line, message);
  for (size_t i = 0; i < count; i++) {
    put(&line, ' ');
    put_text(&line, fields[i].name);
    put(&line, '=');
    if (fields[i].text) {
      put_value(&line, fields[i].text);
    } else {
      char number[24];
      snprintf(number, sizeof number, "%" PRIu64, fields[i].number);
      put_text(&line, number);
    }
  }
  line.out[line.len++] = '\n';
  line.out[line.len] = '\0';
  return line.len;
}

/* A pipe that polls writable takes PIPE_BUF bytes without waiting, and a line is shorter. */
static bool takes_now(int fd) {
  struct pollfd pfd = {.fd = fd, .events = POLLOUT};
  return poll(&pfd, 1, 0) == 1 && (pfd.revents & (POLLOUT | POLLERR | POLLHUP | POLLNVAL));
}

static bool emit(struct tkt_log *log, enum tkt_log_level level, const char *message,
                 const struct tkt_log_field *fields, size_t count) {
  char text[TKT_LOG_LINE_MAX];
  struct timespec now = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  int64_t unix_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
  size_t len = tkt_log_format(level, unix_ms, message, fields, count, text);
  if (!takes_now(log->fd)) return false;
  return write(log->fd, text, len) == (ssize_t)len;
}

void tkt_log_write(struct tkt_log *log, enum tkt_log_level level, const char *message,
                   const struct tkt_log_field *fields, size_t count) {
  if (log->fd < 0 || level > log->level) return;
  int saved = errno;
  if (log->dropped) {
    struct tkt_log_field lost = TKT_FIELD_NUMBER("lines", log->dropped);
    if (emit(log, TKT_LOG_WARNING, "log lines were dropped, nobody was reading", &lost, 1))
      log->dropped = 0;
  }
  if (!emit(log, level, message, fields, count)) log->dropped++;
  errno = saved;
}
