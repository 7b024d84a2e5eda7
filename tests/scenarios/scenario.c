/* One scenario from its first line to its last. */
#include "runner.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool fail(struct run *run, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = snprintf(run->failure, sizeof run->failure, "line %d: ", run->line);
  vsnprintf(run->failure + n, sizeof run->failure - (size_t)n, format, args);
  va_end(args);
  return false;
}

bool server_step(struct run *run, const char *command) {
  if (!puppet_say(&run->puppet, command)) return fail(run, "the fault server is gone");
  for (int said; (said = puppet_listen(&run->puppet)) != 1;) {
    if (said < 0) return fail(run, "server %s: the fault server is gone", command);
    if (!style_pump(run, 1000)) return false;
  }
  if (!strncmp(run->puppet.answer, "ok", 2)) return true;
  return fail(run, "server %s: %s", command, run->puppet.answer);
}

static void set_value(struct run *run, const char *name, const char *text) {
  int n = run->value_count++;
  snprintf(run->values[n].name, NAME_MAX_LEN, "%s", name);
  snprintf(run->values[n].text, sizeof run->values[n].text, "%s", text);
}

static const char *value_of(const struct run *run, const char *name, size_t len) {
  if (len == 1 && *name == 'i' && run->loop) return run->loop;
  for (int i = 0; i < run->value_count; i++)
    if (strlen(run->values[i].name) == len && !strncmp(run->values[i].name, name, len))
      return run->values[i].text;
  return NULL;
}

/* {NAME} becomes what it stands for. */
static char *substitute_once(const struct run *run, const char *word) {
  char text[LINE_MAX_LEN];
  size_t len = 0;
  while (*word && len < sizeof text - 1) {
    const char *end = *word == '{' ? strchr(word, '}') : NULL;
    const char *value = end ? value_of(run, word + 1, (size_t)(end - word - 1)) : NULL;
    if (!value) {
      text[len++] = *word++;
      continue;
    }
    len += (size_t)snprintf(text + len, sizeof text - len, "%s", value);
    if (len >= sizeof text) len = sizeof text - 1;
    word = end + 1;
  }
  text[len] = 0;
  return strdup(text);
}

/* Twice: what varies may name an address. */
static char *substitute(const struct run *run, const char *word) {
  char *once = substitute_once(run, word);
  char *twice = once ? substitute_once(run, once) : NULL;
  free(once);
  return twice;
}

static bool step(struct run *run, const struct line *raw) {
  run->line = raw->number;
  struct line line = {.number = raw->number, .count = raw->count};
  for (int i = 0; i < raw->count; i++)
    line.words[i] = substitute(run, raw->words[i]);
  bool good;
  if (!strcmp(line.words[0], "server")) {
    char command[LINE_MAX_LEN] = "";
    size_t len = 0;
    for (int i = 1; i < line.count; i++)
      len += (size_t)snprintf(command + len, sizeof command - len, i > 1 ? " %s" : "%s",
                              line.words[i]);
    good = server_step(run, command);
  } else {
    good = caller_step(run, &line, raw);
  }
  for (int i = 0; i < line.count; i++)
    free(line.words[i]);
  return good;
}

static int end_of_loop(const struct script *script, int from) {
  while (from < script->line_count && strcmp(script->lines[from].words[0], "end"))
    from++;
  return from;
}

static bool play(struct run *run) {
  const struct script *script = run->script;
  for (int i = 0; i < script->line_count; i++) {
    const struct line *line = &script->lines[i];
    if (strcmp(line->words[0], "repeat")) {
      if (!step(run, line)) return false;
      continue;
    }
    int end = end_of_loop(script, i);
    int times = line->count > 1 ? atoi(line->words[1]) : 0;
    for (int round = 1; round <= times; round++) {
      char number[16];
      snprintf(number, sizeof number, "%d", round);
      run->loop = number;
      for (int j = i + 1; j < end; j++)
        if (!step(run, &script->lines[j])) return false;
      run->loop = NULL;
    }
    i = end;
  }
  return true;
}

/* The answer to listen: `ok NAME=HOST:PORT ...`. */
static bool learn_addresses(struct run *run) {
  char *state = NULL;
  strtok_r(run->puppet.answer, " ", &state);
  for (char *word; (word = strtok_r(NULL, " ", &state));) {
    char *text = strchr(word, '=');
    char *port = text ? strrchr(text, ':') : NULL;
    if (!port) return fail(run, "listen: %s", run->puppet.answer);
    *text++ = 0;
    set_value(run, word, text);
    char name[NAME_MAX_LEN];
    snprintf(name, sizeof name, "%s.port", word);
    set_value(run, name, port + 1);
  }
  return true;
}

bool scenario_run(struct run *run, const char *server_program, const char *value) {
  if (value) set_value(run, run->script->vary, value);
  if (!puppet_start(&run->puppet, server_program)) return fail(run, "no fault server");
  char listen[512];
  snprintf(listen, sizeof listen, "listen %s", run->script->addresses);
  bool good = server_step(run, listen) && learn_addresses(run) && play(run);
  if (good) {
    run->line = run->script->lines[run->script->line_count - 1].number + 1;
    good = caller_finish(run) && server_step(run, "finish");
  }
  puppet_stop(&run->puppet);
  return good;
}
