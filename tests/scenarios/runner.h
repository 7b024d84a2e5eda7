/* Runs scenario files (README.md) against the fault server, on <ticketing.h> alone.
 *
 * One process a scenario: runner.c forks them, script.c reads the file, puppet.c talks to the fault
 * server, caller.c carries out the caller's steps, style.c knows how each calling style starts an
 * operation and waits for it. */
#ifndef SCENARIOS_RUNNER_H
#define SCENARIOS_RUNNER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <ticketing.h>

enum {
  WORDS_MAX = 48, /* a line */
  LINE_MAX_LEN = 8192,
  FAILURE_MAX = 3000,
  NAME_MAX_LEN = 64,
  KEYS_MAX = 20,        /* more than the library takes, so that it can refuse */
  STEP_PATIENCE_S = 45, /* what a caller's step waits for at most */
};

/* --- script.c --- */

struct line {
  int number;
  int count;
  char *words[WORDS_MAX];
};

struct script {
  char *name; /* of the file, without folder and ending */
  char *rules;
  char *addresses; /* names, blank between */
  char *needs;     /* what a style must be able to do, NULL: nothing */
  char *vary;      /* name of what varies, NULL: nothing */
  char **values;
  int value_count;
  struct line *lines;
  int line_count;
};

/* Reads a file; NULL and a sentence in `error` where it is not a scenario. */
struct script *script_read(const char *path, char *error, size_t size);
void script_free(struct script *script);
/* The value of NAME= in a line, NULL: not there. */
const char *line_value(const struct line *line, const char *name);
/* %XX escapes in place; returns the length, which NUL bytes may make longer than strlen. */
size_t unescape(char *text);
/* True where some caller step `verb` names `actor` (both as written in the file). */
bool script_says(const struct script *script, const char *verb, const char *actor);

/* --- puppet.c --- */

struct puppet {
  int to, from, pid;
  char answer[65536];
  size_t have;
};

bool puppet_start(struct puppet *puppet, const char *program);
bool puppet_say(struct puppet *puppet, const char *command);
/* Reads what is there: 1 a whole answer stands in `answer`, 0 not yet, -1 the server is gone. */
int puppet_listen(struct puppet *puppet);
void puppet_stop(struct puppet *puppet);

/* --- style.c --- */

enum style { STYLE_BLOCKING, STYLE_THREAD, STYLE_CALLER };

struct run;

/* One thing the caller started. */
struct actor {
  struct actor *next;
  struct run *run;
  char name[NAME_MAX_LEN];
  int kind; /* TICKETING_OP_* */
  /* what was asked */
  char key_bytes[KEYS_MAX][512];
  ticketing_key keys[KEYS_MAX];
  size_t key_count;
  int64_t wait_ns, lease_ns, budget_ns; /* wait_ns: of a wait for readiness the timeout */
  uint64_t token;                       /* of a release without ticket */
  struct actor *of;                     /* of a release: the acquire whose ticket it is */
  bool by_op; /* blocking style: a handle is needed, so start and wait in two steps */
  /* how it goes */
  ticketing_op *op;
  pthread_t thread;
  bool threaded;
  bool ended;
  int status;
  uint32_t attempts;
  char message[TICKETING_MESSAGE_SIZE];
  ticketing_ticket *ticket;
  int64_t started_at, ended_at;
};

struct run {
  const struct script *script;
  enum style style;
  struct puppet puppet;
  ticketing_broker *broker;
  ticketing_queue *queue;
  struct actor *actors;
  pthread_mutex_t lock; /* the ended half of actors, in blocking style */
  struct {
    char name[NAME_MAX_LEN];
    char text[600]; /* a value that varies may be long */
  } values[16];     /* what {NAME} stands for */
  int value_count;
  const char *loop; /* text of {i} */
  bool over;        /* CALLER mode: dispatch said that the broker is closed */
  int line;
  char failure[FAILURE_MAX];
};

/* Remembers why the scenario failed; false, so that it can be returned. */
__attribute__((format(printf, 2, 3))) bool fail(struct run *run, const char *format, ...);

/* After open: what the style needs. */
bool style_ready(struct run *run);
/* Starts the operation the actor describes; a refusal ends the actor at once. */
bool style_start(struct run *run, struct actor *actor);
/* Lets time pass until the puppet says something or an actor ends, `ms` at most. */
bool style_pump(struct run *run, int ms);
/* Reads the ended flag as the style must. */
bool style_ended(struct run *run, struct actor *actor);
/* Takes the ticket of a granted acquire, if it is not in hand; changes the actor's status. */
void style_take(struct actor *actor);
/* Joins threads, frees handles. The broker is closed already. */
void style_finish(struct run *run);
uint64_t counter_of(struct run *run, const char *name, bool *known_out);

/* --- caller.c --- */

bool caller_step(struct run *run, const struct line *line, const struct line *raw);
/* Detaches what is held, closes and frees. */
bool caller_finish(struct run *run);

/* --- scenario.c --- */

/* Runs one scenario with `value` for what it varies. False: why stands in failure. */
bool scenario_run(struct run *run, const char *server_program, const char *value);
/* One command to the fault server, and its answer. */
bool server_step(struct run *run, const char *command);

#endif
