/* The three calling styles of the C API. */
#include "runner.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREAD_STACK = 256 * 1024, COUNTERS_MAX = 128 };

uint64_t counter_of(struct run *run, const char *name, bool *known_out) {
  ticketing_counter counters[COUNTERS_MAX];
  size_t count = ticketing_broker_counters(run->broker, counters, COUNTERS_MAX);
  for (size_t i = 0; i < count && i < COUNTERS_MAX; i++)
    if (!strcmp(counters[i].name, name)) {
      *known_out = true;
      return counters[i].value;
    }
  *known_out = false;
  return 0;
}

bool style_ready(struct run *run) {
  if (run->style == STYLE_BLOCKING) return true;
  int rc = ticketing_queue_new(run->broker, &run->queue);
  return rc == TICKETING_OK || fail(run, "queue: %s", ticketing_error_name(rc));
}

static ticketing_acquire_params params_of(const struct actor *a) {
  ticketing_acquire_params params = TICKETING_ACQUIRE_PARAMS_INIT;
  params.keys = a->keys;
  params.key_count = a->key_count;
  params.wait_ns = a->wait_ns;
  params.lease_ns = a->lease_ns;
  params.budget_ns = a->budget_ns;
  return params;
}

static int start_op(struct run *run, struct actor *a) {
  ticketing_acquire_params params = params_of(a);
  ticketing_queue *queue = run->queue;
  switch (a->kind) {
  case TICKETING_OP_ACQUIRE:
    return ticketing_acquire_start(run->broker, &params, queue, a, &a->op, a->message);
  case TICKETING_OP_RELEASE:
    if (a->of) return ticketing_ticket_release_start(a->of->ticket, queue, a, &a->op);
    return ticketing_release_start(run->broker, a->keys, a->key_count, a->token, queue, a, &a->op,
                                   a->message);
  case TICKETING_OP_WAIT_READY:
    return ticketing_broker_wait_ready_start(run->broker, a->wait_ns, queue, a, &a->op);
  default:
    return ticketing_broker_close_start(run->broker, queue, a, &a->op);
  }
}

static int call_blocking(struct actor *a) {
  struct run *run = a->run;
  ticketing_acquire_params params = params_of(a);
  switch (a->kind) {
  case TICKETING_OP_ACQUIRE:
    return ticketing_acquire(run->broker, &params, &a->ticket, a->message);
  case TICKETING_OP_RELEASE:
    if (a->of) return ticketing_ticket_release(a->of->ticket, a->message);
    return ticketing_release(run->broker, a->keys, a->key_count, a->token, a->message);
  case TICKETING_OP_WAIT_READY:
    return ticketing_broker_wait_ready(run->broker, a->wait_ns);
  default:
    return ticketing_broker_close(run->broker);
  }
}

/* Copies how the op ended. */
static void note_end(struct actor *a) {
  a->status = ticketing_op_status(a->op);
  a->attempts = ticketing_op_attempts(a->op);
  ticketing_op_message(a->op, a->message, sizeof a->message);
  a->ended_at = ticketing_now_ns();
  a->ended = true;
}

static void *blocking_thread(void *argument) {
  struct actor *a = argument;
  int status = 0;
  if (a->op) {
    while (ticketing_op_wait(a->op, TICKETING_FOREVER) == TICKETING_E_INTERRUPTED) {
    }
  } else {
    status = call_blocking(a);
  }
  pthread_mutex_lock(&a->run->lock);
  if (a->op) {
    note_end(a);
  } else {
    a->status = status;
    a->ended_at = ticketing_now_ns();
    a->ended = true;
  }
  pthread_mutex_unlock(&a->run->lock);
  return NULL;
}

/* A plain blocking call has no handle, so the broker's own count says that it has begun. */
static const char *count_of_kind(int kind) {
  return kind == TICKETING_OP_ACQUIRE ? "acquires_started" : "releases_started";
}

static bool start_blocking(struct run *run, struct actor *a) {
  bool known = false;
  bool counted = a->kind == TICKETING_OP_ACQUIRE || a->kind == TICKETING_OP_RELEASE;
  uint64_t before = counted ? counter_of(run, count_of_kind(a->kind), &known) : 0;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, THREAD_STACK);
  int rc = pthread_create(&a->thread, &attributes, blocking_thread, a);
  pthread_attr_destroy(&attributes);
  if (rc) return fail(run, "no thread: %s", strerror(rc));
  a->threaded = true;
  /* A call that joins another or is refused counts nothing: it is given a moment. */
  const struct timespec moment = {.tv_nsec = 100000};
  for (int i = 0; counted && !a->op && i < 1000 && !style_ended(run, a); i++) {
    if (counter_of(run, count_of_kind(a->kind), &known) > before) break;
    nanosleep(&moment, NULL);
  }
  return true;
}

bool style_start(struct run *run, struct actor *a) {
  a->started_at = ticketing_now_ns();
  if (run->style != STYLE_BLOCKING || a->by_op) {
    int rc = start_op(run, a);
    if (rc != TICKETING_OK) {
      a->status = rc;
      a->ended_at = a->started_at;
      a->ended = true;
      return true;
    }
  }
  return run->style != STYLE_BLOCKING || start_blocking(run, a);
}

static bool drain(struct run *run) {
  ticketing_op *op;
  int rc;
  while ((rc = ticketing_queue_next(run->queue, &op)) == TICKETING_OK) {
    struct actor *a = ticketing_op_user(op);
    if (a->op != op || a->ended) return fail(run, "%s was reported twice", a->name);
    if (ticketing_op_kind(op) != a->kind) return fail(run, "%s is of another kind", a->name);
    note_end(a);
    if (a->status == TICKETING_PENDING) return fail(run, "%s was reported without an end", a->name);
  }
  return rc == TICKETING_PENDING || fail(run, "queue_next: %s", ticketing_error_name(rc));
}

bool style_pump(struct run *run, int ms) {
  struct pollfd fds[2] = {{.fd = run->puppet.from, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
  if (run->style == STYLE_BLOCKING) {
    poll(fds, 1, ms > 5 ? 5 : ms); /* threads end without telling a descriptor */
    return true;
  }
  if (run->style == STYLE_THREAD && run->queue) fds[1].fd = ticketing_queue_fd(run->queue);
  if (run->style == STYLE_CALLER && run->broker && !run->over)
    fds[1].fd = ticketing_broker_fd(run->broker);
  poll(fds, 2, ms);
  if (!run->queue) return true;
  if (run->style == STYLE_CALLER && !run->over && (fds[1].revents & POLLIN)) {
    int rc = ticketing_broker_dispatch(run->broker, 0);
    run->over = rc == TICKETING_E_CLOSED; /* nothing can come any more */
    if (rc < 0 && !run->over && rc != TICKETING_E_INTERRUPTED)
      return fail(run, "dispatch: %s", ticketing_error_name(rc));
  }
  return drain(run);
}

bool style_ended(struct run *run, struct actor *a) {
  if (run->style != STYLE_BLOCKING) return a->ended;
  pthread_mutex_lock(&run->lock);
  bool ended = a->ended;
  pthread_mutex_unlock(&run->lock);
  return ended;
}

void style_take(struct actor *a) {
  if (a->kind != TICKETING_OP_ACQUIRE || a->status != TICKETING_OK || !a->op || a->ticket) return;
  a->status = ticketing_op_take_ticket(a->op, &a->ticket);
  if (a->status != TICKETING_OK) ticketing_op_message(a->op, a->message, sizeof a->message);
}

void style_finish(struct run *run) {
  for (struct actor *a = run->actors; a; a = a->next)
    if (a->threaded) pthread_join(a->thread, NULL);
  while (run->actors) {
    struct actor *a = run->actors;
    run->actors = a->next;
    ticketing_op_free(a->op);
    ticketing_ticket_free(a->ticket);
    free(a);
  }
  ticketing_queue_free(run->queue);
  ticketing_broker_free(run->broker);
  run->queue = NULL;
  run->broker = NULL;
}
