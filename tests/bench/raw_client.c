/* The ceiling, client side: an event loop with one send per session per turn, tasks that acquire,
 * wait, release, wait.
 *
 *   raw_client DIALECT PORT SESSIONS TASKS KEYS CYCLES
 *
 * DIALECT is plain (for raw_server) or wire2 (for a real server without client tokens).
 * Task t uses key t % KEYS over session t % SESSIONS. Prints one line of JSON. */
#include "measure.h"
#include "raw_dialect.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256 };

struct session {
  int fd;
  uint32_t have;
  uint32_t out;
  uint8_t in[65536];
  uint8_t request[RAW_BUFFER];
};

struct plan {
  const struct raw_dialect *dialect;
  uint16_t port;
  uint32_t sessions;
  uint32_t tasks;
  uint32_t keys;
  uint32_t cycles;
};

struct run {
  struct plan plan;
  struct session *sessions;
  int64_t *started_at; /* a task */
  uint32_t *samples;   /* ns a cycle */
  uint32_t begun;
  uint32_t ended;
};

static struct session *session_with_room(struct run *run, uint32_t task) {
  struct session *s = &run->sessions[task % run->plan.sessions];
  if (s->out + RAW_FRAME_MAX > sizeof s->request) fail("request buffer");
  return s;
}

static void begin(struct run *run, uint32_t task) {
  if (run->begun == run->plan.cycles) return;
  run->begun++;
  run->started_at[task] = now_ns();
  struct session *s = session_with_room(run, task);
  s->out += run->plan.dialect->acquire(s->request + s->out, task, task % run->plan.keys);
}

static void on_granted(struct run *run, uint32_t task) {
  struct session *s = session_with_room(run, task);
  s->out += run->plan.dialect->release(s->request + s->out, task, task % run->plan.keys);
}

static void on_released(struct run *run, uint32_t task) {
  run->samples[run->ended++] = (uint32_t)(now_ns() - run->started_at[task]);
  begin(run, task);
}

/* Applies one reply; false where none is complete. */
static bool take_reply(struct run *run, struct session *s, uint32_t *used) {
  uint32_t task = 0, size = 0;
  switch (run->plan.dialect->parse(s->in + *used, s->have - *used, &task, &size)) {
  case RAW_MORE:
    return false;
  case RAW_IS_WRONG:
    exit(1);
  case RAW_IS_NOTHING:
    break;
  case RAW_IS_GRANTED:
    on_granted(run, task % run->plan.tasks);
    break;
  case RAW_IS_RELEASED:
    on_released(run, task % run->plan.tasks);
    break;
  }
  *used += size;
  return true;
}

static void take_input(struct run *run, struct session *s) {
  ssize_t got = recv(s->fd, s->in + s->have, sizeof s->in - s->have, MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) fail("recv");
  s->have += (uint32_t)got;
  uint32_t used = 0;
  while (take_reply(run, s, &used))
    ;
  s->have -= used;
  memmove(s->in, s->in + used, s->have);
}

static void flush(struct run *run) {
  for (uint32_t i = 0; i < run->plan.sessions; i++) {
    struct session *s = &run->sessions[i];
    uint32_t sent = 0;
    while (sent < s->out) {
      ssize_t n = send(s->fd, s->request + sent, s->out - sent, MSG_NOSIGNAL);
      if (n < 0) fail("send");
      sent += (uint32_t)n;
    }
    s->out = 0;
  }
}

static void connect_session(struct session *s, const struct plan *plan, int epoll) {
  s->fd = connect_loopback(plan->port);
  if (plan->dialect->greet(s->fd) != 0) fail("greeting");
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = s};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, s->fd, &event) != 0) fail("epoll_ctl");
}

int main(int argc, char **argv) {
  bool plain = argc > 1 && strcmp(argv[1], raw_dialect_plain.name) == 0;
  if (argc != 7 || (!plain && strcmp(argv[1], raw_dialect_wire2.name) != 0)) {
    fprintf(stderr, "usage: raw_client plain|wire2 PORT SESSIONS TASKS KEYS CYCLES\n");
    return 64;
  }
  struct run run = {.plan = {.dialect = plain ? &raw_dialect_plain : &raw_dialect_wire2,
                             .port = (uint16_t)number(argv[2], 1, 65535),
                             .sessions = number(argv[3], 1, RAW_SESSIONS_MAX),
                             .tasks = number(argv[4], 1, RAW_TASKS_MAX),
                             .keys = number(argv[5], 1, RAW_KEYS_MAX),
                             .cycles = number(argv[6], 1, CYCLES_MAX)}};
  run.sessions = calloc(run.plan.sessions, sizeof *run.sessions);
  run.started_at = calloc(run.plan.tasks, sizeof *run.started_at);
  run.samples = malloc(run.plan.cycles * sizeof *run.samples);
  if (!run.sessions || !run.started_at || !run.samples) fail("memory");
  int epoll = epoll_create1(0);
  if (epoll < 0) fail("epoll_create1");
  for (uint32_t i = 0; i < run.plan.sessions; i++)
    connect_session(&run.sessions[i], &run.plan, epoll);

  int64_t start = now_ns();
  for (uint32_t task = 0; task < run.plan.tasks; task++)
    begin(&run, task);
  flush(&run);
  struct epoll_event events[EVENTS];
  while (run.ended < run.plan.cycles) {
    int n = epoll_wait(epoll, events, EVENTS, -1);
    if (n < 0 && errno != EINTR) fail("epoll_wait");
    for (int i = 0; i < n; i++)
      take_input(&run, events[i].data.ptr);
    flush(&run);
  }
  report(run.samples, run.ended, now_ns() - start);
  for (uint32_t i = 0; i < run.plan.sessions; i++)
    close(run.sessions[i].fd);
  close(epoll);
  free(run.sessions);
  free(run.started_at);
  free(run.samples);
  return 0;
}
