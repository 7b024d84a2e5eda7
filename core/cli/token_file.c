#include "cli/token_file.h"

#include "cli/values.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool refuse(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(char *why, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(why, TKT_VALUE_WHY_SIZE, format, args);
  va_end(args);
  return false;
}

/* Labels of lines without one live behind the text: "line-N", at most 12 bytes each. */
enum { LABEL_SIZE = 16 };

static bool prepare(struct tkt_tokens *tokens, size_t len, char *why) {
  tokens->size = len + 1 + (size_t)TKT_TOKENS_MAX * LABEL_SIZE;
  tokens->text = calloc(1, tokens->size);
  return tokens->text ? true : refuse(why, "the client tokens cannot be read: out of memory");
}

static bool add(struct tkt_tokens *tokens, char *line, size_t number, char *label_space,
                const char *source, char *why) {
  char *save = NULL;
  char *first = strtok_r(line, " \t\r", &save);
  if (!first || *first == '#') return true;
  char *second = strtok_r(NULL, " \t\r", &save);
  if (strtok_r(NULL, " \t\r", &save))
    return refuse(why,
                  "line %zu of %s has more than two words; a line is a secret, or a label and a "
                  "secret",
                  number, source);
  if (tokens->count == TKT_TOKENS_MAX)
    return refuse(why, "%s has more than %d client tokens", source, TKT_TOKENS_MAX);
  struct tkt_token_entry *entry = &tokens->entries[tokens->count];
  if (second) {
    entry->label = first;
    entry->secret = second;
  } else {
    char *label = label_space + tokens->count * LABEL_SIZE;
    snprintf(label, LABEL_SIZE, "line-%u", (unsigned)number % 1000000u);
    entry->label = label;
    entry->secret = first;
  }
  tokens->count++;
  return true;
}

static bool parse(struct tkt_tokens *tokens, size_t len, const char *source, char *why) {
  if (memchr(tokens->text, '\0', len))
    return refuse(why,
                  "%s holds a NUL byte; it may be text: a secret a line, or a label and a secret",
                  source);
  char *rest = tokens->text;
  for (size_t number = 1; rest; number++) {
    char *line = strsep(&rest, "\n");
    if (!add(tokens, line, number, tokens->text + len + 1, source, why)) return false;
  }
  if (tokens->count == 0)
    return refuse(why, "%s holds no client token; a line is a secret, or a label and a secret",
                  source);
  return true;
}

static ssize_t read_whole(int fd, char *into, size_t room) {
  size_t len = 0;
  while (len < room) {
    ssize_t n = read(fd, into + len, room - len);
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    len += (size_t)n;
  }
  return (ssize_t)len;
}

static bool read_open_file(struct tkt_tokens *tokens, int fd, const char *program,
                           const char *source, char *why) {
  struct stat st;
  if (fstat(fd, &st) != 0) return refuse(why, "%s cannot be read: %s", source, strerror(errno));
  if (S_ISDIR(st.st_mode)) return refuse(why, "%s is a directory; it may be a file", source);
  if (program && S_ISREG(st.st_mode) && st.st_mode & (S_IRWXG | S_IRWXO))
    fprintf(stderr,
            "%s: warning: %s has mode %03o, so others on this machine may read it; chmod 600 "
            "keeps it secret\n",
            program, source, (unsigned)st.st_mode & 0777u);
  if (!prepare(tokens, TKT_TOKEN_FILE_MAX + 1, why)) return false;
  ssize_t n = read_whole(fd, tokens->text, TKT_TOKEN_FILE_MAX + 1);
  if (n < 0) return refuse(why, "%s cannot be read: %s", source, strerror(errno));
  if (n > TKT_TOKEN_FILE_MAX)
    return refuse(why, "%s is longer than %d bytes", source, TKT_TOKEN_FILE_MAX);
  return parse(tokens, (size_t)n, source, why);
}

bool tkt_tokens_read_file(struct tkt_tokens *tokens, const char *program, const char *path,
                          char *why) {
  memset(tokens, 0, sizeof *tokens);
  char quoted[TKT_VALUE_QUOTE_SIZE], source[TKT_VALUE_QUOTE_SIZE + 32];
  snprintf(source, sizeof source, "--token-file %s", tkt_value_quote(path, quoted));
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return refuse(why, "%s cannot be opened: %s", source, strerror(errno));
  bool ok = read_open_file(tokens, fd, program, source, why);
  close(fd);
  return ok;
}

bool tkt_tokens_read_environment(struct tkt_tokens *tokens, const char *name, char *why) {
  memset(tokens, 0, sizeof *tokens);
  const char *value = getenv(name);
  if (!value || !*value) return true;
  char source[96];
  snprintf(source, sizeof source, "the environment variable %s", name);
  size_t len = strlen(value);
  if (len > TKT_TOKEN_FILE_MAX)
    return refuse(why, "%s is longer than %d bytes", source, TKT_TOKEN_FILE_MAX);
  if (!prepare(tokens, len, why)) return false;
  memcpy(tokens->text, value, len + 1);
  return parse(tokens, len, source, why);
}

void tkt_tokens_release(struct tkt_tokens *tokens) {
  if (tokens->text) explicit_bzero(tokens->text, tokens->size);
  free(tokens->text);
  memset(tokens, 0, sizeof *tokens);
}
