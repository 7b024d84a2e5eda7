/* The file format: lines of words. */
#include "runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *line_value(const struct line *line, const char *name) {
  size_t len = strlen(name);
  for (int i = 0; i < line->count; i++)
    if (!strncmp(line->words[i], name, len) && line->words[i][len] == '=')
      return line->words[i] + len + 1;
  return NULL;
}

static int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

size_t unescape(char *text) {
  size_t len = 0;
  for (const char *p = text; *p; p++) {
    if (*p == '%' && hex(p[1]) >= 0 && hex(p[2]) >= 0) {
      text[len++] = (char)(hex(p[1]) * 16 + hex(p[2]));
      p += 2;
    } else {
      text[len++] = *p;
    }
  }
  text[len] = 0;
  return len;
}

static void *must(void *memory) {
  if (!memory) {
    fputs("out of memory\n", stderr);
    exit(70);
  }
  return memory;
}

static char *rest_of(const struct line *line) {
  char text[LINE_MAX_LEN] = "";
  for (int i = 1; i < line->count; i++) {
    if (i > 1) strcat(text, " ");
    strcat(text, line->words[i]);
  }
  return must(strdup(text));
}

static void add_value(struct script *script, const char *text) {
  script->values =
      must(realloc(script->values, sizeof(char *) * (size_t)(script->value_count + 1)));
  script->values[script->value_count++] = must(strdup(text));
}

/* `vary NAME VALUE...`, where A..B means every number from A to B. */
static void read_vary(struct script *script, const struct line *line) {
  script->vary = must(strdup(line->words[1]));
  for (int i = 2; i < line->count; i++) {
    int from, to, end = 0;
    if (sscanf(line->words[i], "%d..%d%n", &from, &to, &end) == 2 && !line->words[i][end]) {
      for (; from <= to; from++) {
        char number[16];
        snprintf(number, sizeof number, "%d", from);
        add_value(script, number);
      }
    } else {
      add_value(script, line->words[i]);
    }
  }
}

static bool header(struct script *script, const struct line *line) {
  const char *word = line->words[0];
  char **slot = !strcmp(word, "rules")       ? &script->rules
                : !strcmp(word, "addresses") ? &script->addresses
                : !strcmp(word, "needs")     ? &script->needs
                                             : NULL;
  if (slot) {
    *slot = rest_of(line);
  } else if (!strcmp(word, "vary") && line->count > 2) {
    read_vary(script, line);
  } else {
    return !strcmp(word, "about");
  }
  return true;
}

static struct line *add_line(struct script *script) {
  script->lines =
      must(realloc(script->lines, sizeof(struct line) * (size_t)(script->line_count + 1)));
  return memset(&script->lines[script->line_count++], 0, sizeof(struct line));
}

static bool is_step(const char *word) {
  return !strcmp(word, "server") || !strcmp(word, "caller") || !strcmp(word, "repeat") ||
         !strcmp(word, "end");
}

static char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  char *name = must(strdup(slash ? slash + 1 : path));
  char *dot = strrchr(name, '.');
  if (dot) *dot = 0;
  return name;
}

struct script *script_read(const char *path, char *error, size_t size) {
  FILE *file = fopen(path, "r");
  if (!file) {
    snprintf(error, size, "%s cannot be read", path);
    return NULL;
  }
  struct script *script = must(calloc(1, sizeof *script));
  script->name = name_of(path);
  char text[LINE_MAX_LEN];
  bool good = true;
  for (int number = 1; good && fgets(text, sizeof text, file); number++) {
    struct line line = {.number = number};
    char *state = NULL;
    for (char *word = strtok_r(text, " \n", &state); word && good;
         word = strtok_r(NULL, " \n", &state)) {
      good = line.count < WORDS_MAX;
      if (good) line.words[line.count++] = must(strdup(word));
    }
    if (line.count && line.words[0][0] != '#') {
      if (good && is_step(line.words[0]))
        *add_line(script) = line;
      else
        good = good && header(script, &line);
    }
    if (!good) snprintf(error, size, "%s:%d: not understood", path, number);
    bool kept = line.count && is_step(line.words[0]);
    for (int i = 0; i < line.count && !kept; i++)
      free(line.words[i]);
  }
  fclose(file);
  if (good && (!script->rules || !script->addresses || !script->line_count)) {
    snprintf(error, size, "%s: lacks rules, addresses or steps", path);
    good = false;
  }
  if (good) return script;
  script_free(script);
  return NULL;
}

void script_free(struct script *script) {
  for (int i = 0; i < script->line_count; i++)
    for (int j = 0; j < script->lines[i].count; j++)
      free(script->lines[i].words[j]);
  for (int i = 0; i < script->value_count; i++)
    free(script->values[i]);
  free(script->values);
  free(script->lines);
  free(script->name);
  free(script->rules);
  free(script->addresses);
  free(script->needs);
  free(script->vary);
  free(script);
}

bool script_says(const struct script *script, const char *verb, const char *actor) {
  for (int i = 0; i < script->line_count; i++) {
    const struct line *line = &script->lines[i];
    if (line->count > 2 && !strcmp(line->words[0], "caller") && !strcmp(line->words[1], verb) &&
        !strcmp(line->words[2], actor))
      return true;
  }
  return false;
}
