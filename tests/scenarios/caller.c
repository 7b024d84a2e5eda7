/* The caller's steps. */
#include "runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct word_of {
  const char *word;
  int status;
};

/* The names every language gives to outcomes. */
static const struct word_of outcomes[] = {
    {"granted", TICKETING_OK},
    {"released", TICKETING_OK},
    {"ready", TICKETING_OK},
    {"closed", TICKETING_OK},
    {"not_current", TICKETING_NOT_CURRENT},
    {"Timeout", TICKETING_E_TIMEOUT},
    {"Busy", TICKETING_E_BUSY},
    {"Cancelled", TICKETING_E_CANCELLED},
    {"Indeterminate", TICKETING_E_INDETERMINATE},
    {"InsufficientLease", TICKETING_E_INSUFFICIENT_LEASE},
    {"InvalidArgument", TICKETING_E_INVALID_ARGUMENT},
    {"NotConnected", TICKETING_E_NOT_CONNECTED},
    {"Auth", TICKETING_E_AUTH},
    {"ClientCapacity", TICKETING_E_CLIENT_CAPACITY},
    {"Closed", TICKETING_E_CLOSED},
    {"Protocol", TICKETING_E_PROTOCOL},
    {"Unsupported", TICKETING_E_UNSUPPORTED},
};

/* True where `status` is among the `words` ("A" or "A|B"); *known_out: all of them exist. */
static bool is_outcome(const char *words, int status, bool *known_out) {
  char text[256];
  snprintf(text, sizeof text, "%s", words);
  char *state = NULL;
  bool found = false;
  *known_out = true;
  for (char *word = strtok_r(text, "|", &state); word; word = strtok_r(NULL, "|", &state)) {
    bool known = false;
    for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++)
      if (!strcmp(outcomes[i].word, word)) {
        known = true;
        found = found || outcomes[i].status == status;
      }
    *known_out = *known_out && known;
  }
  return found;
}

/* Decimal seconds to ns, exactly. */
static int64_t seconds(const char *text) {
  bool negative = *text == '-';
  if (negative) text++;
  char *end;
  int64_t whole = strtoll(text, &end, 10), fraction = 0, unit = TICKETING_SECOND / 10;
  if (*end == '.')
    for (end++; *end >= '0' && *end <= '9'; end++, unit /= 10)
      fraction += (*end - '0') * unit;
  int64_t ns = whole * TICKETING_SECOND + fraction;
  return negative ? -ns : ns;
}

static struct actor *actor_of(struct run *run, const char *name) {
  for (struct actor *a = run->actors; a; a = a->next)
    if (!strcmp(a->name, name)) return a;
  fail(run, "nothing is called %s", name);
  return NULL;
}

static struct actor *new_actor(struct run *run, const char *name, int kind) {
  struct actor *a = calloc(1, sizeof *a);
  if (!a) return NULL;
  a->run = run;
  a->kind = kind;
  snprintf(a->name, sizeof a->name, "%s", name);
  a->next = run->actors;
  run->actors = a;
  return a;
}

static void read_keys(struct actor *a, const struct line *line) {
  for (int i = 2; i < line->count && a->key_count < KEYS_MAX; i++) {
    if (strncmp(line->words[i], "key=", 4)) continue;
    char *bytes = a->key_bytes[a->key_count];
    snprintf(bytes, sizeof a->key_bytes[0], "%s", line->words[i] + 4);
    a->keys[a->key_count].data = bytes;
    a->keys[a->key_count].len = unescape(bytes);
    a->key_count++;
  }
}

static int64_t seconds_of(const struct line *line, const char *name, const char *otherwise) {
  const char *text = line_value(line, name);
  return seconds(text ? text : otherwise);
}

/* --- open --------------------------------------------------------------------------------------
 */

static int apply_options(ticketing_options *options, const struct line *line, int io_mode) {
  char text[1024];
  const char *addresses = line_value(line, "addresses");
  snprintf(text, sizeof text, "%s", addresses ? addresses : "");
  char *state = NULL;
  int rc = ticketing_options_set_io_mode(options, io_mode);
  for (char *one = strtok_r(text, ",", &state); one && rc == TICKETING_OK;
       one = strtok_r(NULL, ",", &state)) {
    unescape(one);
    rc = ticketing_options_add_address(options, one);
  }
  const char *value;
  if (rc == TICKETING_OK && (value = line_value(line, "token"))) {
    snprintf(text, sizeof text, "%s", value);
    size_t len = unescape(text);
    rc = ticketing_options_set_token(options, text, len);
  }
  if (rc == TICKETING_OK && (value = line_value(line, "max_in_flight")))
    rc = ticketing_options_set_max_in_flight(options, (uint32_t)strtoul(value, NULL, 10));
  if (rc == TICKETING_OK && (value = line_value(line, "max_unsent")))
    rc = ticketing_options_set_max_unsent(options, (uint32_t)strtoul(value, NULL, 10));
  if (rc == TICKETING_OK && (value = line_value(line, "cancel_keeps_session")))
    rc = ticketing_options_set_cancel_keeps_session(options, !strcmp(value, "on"));
  return rc;
}

static bool expect(struct run *run, const struct line *line, int status, const char *message,
                   const char *otherwise) {
  const char *wanted = line_value(line, "is");
  if (!wanted) wanted = otherwise;
  bool known;
  bool right = !wanted || is_outcome(wanted, status, &known);
  if (wanted && !known) return fail(run, "no such outcome: %s", wanted);
  if (!right)
    return fail(run, "%s %s: %s instead of %s: %s", line->words[1],
                line->count > 2 ? line->words[2] : "", ticketing_error_name(status), wanted,
                message);
  const char *says = line_value(line, "says"), *hides = line_value(line, "hides");
  char text[512];
  if (hides) {
    snprintf(text, sizeof text, "%s", hides);
    unescape(text);
    if (strstr(message, text)) return fail(run, "the message says '%s': %s", text, message);
  }
  if (!says) return true;
  snprintf(text, sizeof text, "%s", says);
  unescape(text);
  return strstr(message, text) || fail(run, "the message does not say '%s': %s", text, message);
}

static bool open_broker(struct run *run, const struct line *line, const struct line *raw) {
  (void)raw;
  ticketing_options *options;
  if (ticketing_options_new(&options) != TICKETING_OK) return fail(run, "no options");
  int rc = apply_options(options, line,
                         run->style == STYLE_CALLER ? TICKETING_IO_CALLER : TICKETING_IO_THREAD);
  char message[TICKETING_MESSAGE_SIZE];
  snprintf(message, sizeof message, "%s", ticketing_options_message(options));
  if (rc == TICKETING_OK) rc = ticketing_broker_open(options, &run->broker);
  ticketing_options_free(options);
  bool good = expect(run, line, rc, message, "ready");
  return good && (!run->broker || style_ready(run));
}

/* --- starting ----------------------------------------------------------------------------------
 */

static bool needs_handle(const struct run *run, const struct line *raw, const char *name) {
  static const char *const verbs[] = {"cancel", "take", "granted", "forget"};
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
    if (script_says(run->script, verbs[i], name)) return true;
  for (int i = 0; i < run->script->line_count; i++) { /* only a handle knows its attempts */
    const struct line *line = &run->script->lines[i];
    if (line->count > 2 && !strcmp(line->words[1], "outcome") && !strcmp(line->words[2], name) &&
        (line_value(line, "attempts") || line_value(line, "attempts_min")))
      return true;
  }
  (void)raw;
  return false;
}

static bool acquire(struct run *run, const struct line *line, const struct line *raw) {
  struct actor *a = new_actor(run, line->words[2], TICKETING_OP_ACQUIRE);
  if (!a) return fail(run, "out of memory");
  read_keys(a, line);
  a->wait_ns = seconds_of(line, "wait", "5");
  a->lease_ns = seconds_of(line, "lease", "30");
  a->budget_ns = seconds_of(line, "budget", "0");
  a->by_op = needs_handle(run, raw, raw->words[2]);
  return style_start(run, a);
}

static bool release(struct run *run, const struct line *line, const struct line *raw) {
  const char *name = line_value(line, "as"), *raw_name = line_value(raw, "as");
  struct actor *of = actor_of(run, line->words[2]);
  if (!name || !of) return fail(run, "release needs the name of an acquire and as=");
  if (!of->ticket) return fail(run, "%s has no ticket", of->name);
  struct actor *a = new_actor(run, name, TICKETING_OP_RELEASE);
  if (!a) return fail(run, "out of memory");
  a->of = of;
  a->by_op = needs_handle(run, raw, raw_name);
  return style_start(run, a);
}

static bool release_exact(struct run *run, const struct line *line, const struct line *raw) {
  const char *token = line_value(line, "token");
  struct actor *a = new_actor(run, line->words[2], TICKETING_OP_RELEASE);
  if (!a) return fail(run, "out of memory");
  read_keys(a, line);
  a->token = token ? strtoull(token, NULL, 10) : 0;
  a->by_op = needs_handle(run, raw, raw->words[2]);
  return style_start(run, a);
}

static bool wait_ready(struct run *run, const struct line *line, const struct line *raw) {
  struct actor *a = new_actor(run, line->words[2], TICKETING_OP_WAIT_READY);
  if (!a) return fail(run, "out of memory");
  a->wait_ns = seconds_of(line, "timeout", "20");
  a->by_op = needs_handle(run, raw, raw->words[2]);
  return style_start(run, a);
}

static bool close_broker(struct run *run, const struct line *line, const struct line *raw) {
  struct actor *a = new_actor(run, line->words[2], TICKETING_OP_CLOSE);
  if (!a) return fail(run, "out of memory");
  a->by_op = needs_handle(run, raw, raw->words[2]);
  return style_start(run, a);
}

/* --- looking -----------------------------------------------------------------------------------
 */

static bool await(struct run *run, struct actor *a) {
  int64_t until = ticketing_now_ns() + STEP_PATIENCE_S * TICKETING_SECOND;
  while (!style_ended(run, a)) {
    if (ticketing_now_ns() > until)
      return fail(run, "%s has not ended within %d s", a->name, STEP_PATIENCE_S);
    if (!style_pump(run, 200)) return false;
  }
  if (!a->threaded) return true;
  pthread_join(a->thread, NULL);
  a->threaded = false;
  return true;
}

static bool check_ticket(struct run *run, const struct line *line, const struct actor *a) {
  const char *token = line_value(line, "token");
  if (token && ticketing_ticket_token(a->ticket) != strtoull(token, NULL, 10))
    return fail(run, "%s has token %llu", a->name,
                (unsigned long long)ticketing_ticket_token(a->ticket));
  if (ticketing_ticket_key_count(a->ticket) == 0) return fail(run, "a ticket without key");
  ticketing_key key = ticketing_ticket_key(a->ticket, 0);
  if (a->key_count == 1 &&
      (key.len != a->keys[0].len || memcmp(key.data, a->keys[0].data, key.len)))
    return fail(run, "the ticket of %s names another key", a->name);
  int64_t remaining = ticketing_ticket_remaining_ns(a->ticket);
  if (line_value(line, "remaining_max") && remaining > seconds_of(line, "remaining_max", "0"))
    return fail(run, "%s has %.3f s left", a->name, (double)remaining / 1e9);
  if (remaining > a->lease_ns + TICKETING_SECOND)
    return fail(run, "%s has more than its lease left", a->name);
  return true;
}

static bool outcome(struct run *run, const struct line *line, const struct line *raw) {
  (void)raw;
  struct actor *a = actor_of(run, line->words[2]);
  if (!a || !await(run, a)) return false;
  style_take(a);
  if (!expect(run, line, a->status, a->message, NULL)) return false;
  int64_t elapsed = a->ended_at - a->started_at;
  if (line_value(line, "after") && elapsed < seconds_of(line, "after", "0"))
    return fail(run, "%s ended after %.3f s already", a->name, (double)elapsed / 1e9);
  const char *attempts = line_value(line, "attempts"), *min = line_value(line, "attempts_min");
  if (attempts && a->attempts != strtoul(attempts, NULL, 10))
    return fail(run, "%s took %u attempts", a->name, a->attempts);
  if (min && a->attempts < strtoul(min, NULL, 10))
    return fail(run, "%s took %u attempts", a->name, a->attempts);
  return !a->ticket || check_ticket(run, line, a);
}

static bool granted(struct run *run, const struct line *line, const struct line *raw) {
  (void)raw;
  struct actor *a = actor_of(run, line->words[2]);
  if (!a || !await(run, a)) return false;
  return a->status == TICKETING_OK ||
         fail(run, "%s: %s: %s", a->name, ticketing_error_name(a->status), a->message);
}

static bool take(struct run *run, const struct line *line, const struct line *raw) {
  (void)raw;
  struct actor *a = actor_of(run, line->words[2]);
  if (!a) return false;
  style_take(a);
  if (!expect(run, line, a->status, a->message, "granted")) return false;
  return !a->ticket || check_ticket(run, line, a);
}

static bool pending(struct run *run, const struct line *line, const struct line *raw) {
  (void)raw;
  struct actor *a = actor_of(run, line->words[2]);
  if (!a || !style_pump(run, 0)) return false;
  return !style_ended(run, a) ||
         fail(run, "%s has ended: %s: %s", a->name, ticketing_error_name(a->status), a->message);
}

static bool cancel(struct run *run, const struct line *line, const struct line *raw) {
  (void)raw;
  struct actor *a = actor_of(run, line->words[2]);
  if (!a) return false;
  ticketing_op_cancel(a->op);
  return true;
}

static bool forget(struct run *run, const struct line *line, const struct line *raw) {
  (void)raw;
  struct actor *a = actor_of(run, line->words[2]);
  if (!a) return false;
  if (a->threaded) return fail(run, "a thread waits for %s", a->name);
  ticketing_op_free(a->op);
  a->op = NULL;
  return true;
}

static bool drop(struct run *run, const struct line *line, const struct line *raw) {
  (void)raw;
  struct actor *a = actor_of(run, line->words[2]);
  if (!a) return false;
  ticketing_ticket_free(a->ticket);
  a->ticket = NULL;
  return true;
}

static bool detach(struct run *run, const struct line *line, const struct line *raw) {
  (void)raw;
  struct actor *a = actor_of(run, line->words[2]);
  if (!a || !a->ticket) return fail(run, "no ticket");
  ticketing_ticket_detach(a->ticket);
  return true;
}

static bool pause_step(struct run *run, const struct line *line, const struct line *raw) {
  (void)run;
  (void)raw;
  int64_t ns = seconds(line->words[2]);
  struct timespec left = {.tv_sec = ns / TICKETING_SECOND, .tv_nsec = ns % TICKETING_SECOND};
  while (nanosleep(&left, &left)) {
  }
  return true;
}

static bool counter(struct run *run, const struct line *line, const struct line *raw) {
  (void)raw;
  const char *is = line_value(line, "is"), *min = line_value(line, "min");
  const char *max = line_value(line, "max");
  int64_t until = ticketing_now_ns() + STEP_PATIENCE_S * TICKETING_SECOND;
  for (;;) {
    bool known;
    uint64_t value = counter_of(run, line->words[2], &known);
    if (!known) return fail(run, "no counter is called %s", line->words[2]);
    bool late = max && value > strtoull(max, NULL, 10); /* it never gets smaller again */
    bool early =
        (is && value != strtoull(is, NULL, 10)) || (min && value < strtoull(min, NULL, 10));
    if (!late && !early) return true;
    if (late || ticketing_now_ns() > until)
      return fail(run, "%s is %llu", line->words[2], (unsigned long long)value);
    if (!style_pump(run, 20)) return false;
  }
}

static bool free_broker(struct run *run, const struct line *line, const struct line *raw) {
  (void)line;
  (void)raw;
  ticketing_broker_free(run->broker);
  run->broker = NULL;
  return true;
}

static const struct {
  const char *verb;
  int words; /* at least, with "caller" */
  bool (*run)(struct run *run, const struct line *line, const struct line *raw);
} verbs[] = {
    {"open", 2, open_broker},
    {"acquire", 3, acquire},
    {"release", 3, release},
    {"release_exact", 3, release_exact},
    {"wait_ready", 3, wait_ready},
    {"close", 3, close_broker},
    {"outcome", 3, outcome},
    {"granted", 3, granted},
    {"take", 3, take},
    {"pending", 3, pending},
    {"cancel", 3, cancel},
    {"forget", 3, forget},
    {"drop", 3, drop},
    {"detach", 3, detach},
    {"pause", 3, pause_step},
    {"counter", 3, counter},
    {"free", 2, free_broker},
};

bool caller_step(struct run *run, const struct line *line, const struct line *raw) {
  for (size_t i = 0; line->count > 1 && i < sizeof verbs / sizeof *verbs; i++)
    if (!strcmp(line->words[1], verbs[i].verb)) {
      if (line->count < verbs[i].words) return fail(run, "%s lacks words", verbs[i].verb);
      if (!run->broker && !run->queue && verbs[i].run != open_broker && verbs[i].run != drop &&
          verbs[i].run != pause_step)
        return fail(run, "there is no broker");
      return verbs[i].run(run, line, raw);
    }
  return fail(run, "no such step");
}

bool caller_finish(struct run *run) {
  for (struct actor *a = run->actors; a; a = a->next) {
    if (run->style == STYLE_BLOCKING || !a->op || a->ticket) continue;
    if (a->ended) style_take(a); /* or its free would release the grant */
  }
  if (run->broker) {
    int rc = ticketing_broker_close(run->broker);
    if (rc != TICKETING_OK) return fail(run, "close: %s", ticketing_error_name(rc));
  }
  for (struct actor *a = run->actors; a; a = a->next) {
    if (a->threaded) pthread_join(a->thread, NULL);
    a->threaded = false;
    if (run->style == STYLE_BLOCKING) style_take(a);
    if (a->ticket) ticketing_ticket_detach(a->ticket);
  }
  style_finish(run);
  return true;
}
