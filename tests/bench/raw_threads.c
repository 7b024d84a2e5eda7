/* The ceiling of blocking callers: one thread a task, sessions shared by all, one reader thread a
 * session. Callers append their request; whoever finds nobody sending sends for all (a combining
 * writer), after giving those woken together a chance to add theirs.
 *
 *   raw_threads PORT SESSIONS TASKS KEYS CYCLES      against raw_server; prints one line of JSON */
#include "measure.h"
#include "raw_frames.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct session {
  int fd;
  pthread_t reader;
  pthread_mutex_t lock;
  bool sending;
  unsigned filling; /* which of the two buffers callers append to */
  uint32_t out;     /* its length */
  uint8_t request[2][RAW_BUFFER];
  uint8_t in[65536];
};

struct task {
  _Alignas(64) _Atomic uint32_t answered;
  uint32_t number;
  pthread_t thread;
};

static struct session *sessions;
static struct task *tasks;
static uint32_t session_count, task_count, key_count, cycle_count;
static _Atomic uint32_t begun, ended;
static uint32_t *samples;

static void await(struct task *task) {
  while (atomic_load(&task->answered) == 0)
    syscall(SYS_futex, &task->answered, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
  atomic_store(&task->answered, 0);
}

static void answer(struct task *task) {
  atomic_store(&task->answered, 1);
  syscall(SYS_futex, &task->answered, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void send_all(int fd, const uint8_t *bytes, uint32_t size) {
  while (size > 0) {
    ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);
    if (n < 0) fail("send");
    bytes += n;
    size -= (uint32_t)n;
  }
}

static void ask(struct session *s, uint8_t op, uint32_t task) {
  uint32_t size = raw_request_size(op);
  pthread_mutex_lock(&s->lock);
  if (s->out + size > RAW_BUFFER) fail("request buffer");
  raw_write(s->request[s->filling] + s->out, size, op, task, task % key_count);
  s->out += size;
  if (!s->sending) {
    s->sending = true;
    pthread_mutex_unlock(&s->lock);
    sched_yield();
    pthread_mutex_lock(&s->lock);
    while (s->out > 0) {
      uint8_t *full = s->request[s->filling];
      uint32_t length = s->out;
      s->filling ^= 1;
      s->out = 0;
      pthread_mutex_unlock(&s->lock);
      send_all(s->fd, full, length);
      pthread_mutex_lock(&s->lock);
    }
    s->sending = false;
  }
  pthread_mutex_unlock(&s->lock);
}

static void *read_replies(void *argument) {
  struct session *s = argument;
  uint32_t have = 0;
  for (;;) {
    ssize_t got = recv(s->fd, s->in + have, sizeof s->in - have, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return NULL;
    have += (uint32_t)got;
    uint32_t used = 0;
    while (have > used && have - used >= raw_reply_size(s->in[used])) {
      answer(&tasks[raw_task(s->in + used) % task_count]);
      used += raw_reply_size(s->in[used]);
    }
    have -= used;
    memmove(s->in, s->in + used, have);
  }
}

static void *work(void *argument) {
  struct task *task = argument;
  struct session *s = &sessions[task->number % session_count];
  while (atomic_fetch_add(&begun, 1) < cycle_count) {
    int64_t start = now_ns();
    ask(s, 'A', task->number);
    await(task);
    ask(s, 'R', task->number);
    await(task);
    samples[atomic_fetch_add(&ended, 1)] = (uint32_t)(now_ns() - start);
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: raw_threads PORT SESSIONS TASKS KEYS CYCLES\n");
    return 64;
  }
  uint16_t port = (uint16_t)number(argv[1], 1, 65535);
  session_count = number(argv[2], 1, RAW_SESSIONS_MAX);
  task_count = number(argv[3], 1, RAW_TASKS_MAX);
  key_count = number(argv[4], 1, RAW_KEYS_MAX);
  cycle_count = number(argv[5], 1, CYCLES_MAX);
  sessions = calloc(session_count, sizeof *sessions);
  tasks = aligned_alloc(_Alignof(struct task), task_count * sizeof *tasks);
  samples = malloc(cycle_count * sizeof *samples);
  if (!sessions || !tasks || !samples) fail("memory");
  for (uint32_t i = 0; i < session_count; i++) {
    sessions[i].fd = connect_loopback(port);
    pthread_mutex_init(&sessions[i].lock, NULL);
    if (pthread_create(&sessions[i].reader, NULL, read_replies, &sessions[i]) != 0)
      fail("pthread_create");
  }
  int64_t start = now_ns();
  for (uint32_t i = 0; i < task_count; i++) {
    atomic_init(&tasks[i].answered, 0);
    tasks[i].number = i;
    if (pthread_create(&tasks[i].thread, NULL, work, &tasks[i]) != 0) fail("pthread_create");
  }
  for (uint32_t i = 0; i < task_count; i++)
    pthread_join(tasks[i].thread, NULL);
  int64_t elapsed = now_ns() - start;
  for (uint32_t i = 0; i < session_count; i++) {
    shutdown(sessions[i].fd, SHUT_RDWR);
    pthread_join(sessions[i].reader, NULL);
    close(sessions[i].fd);
  }
  report(samples, atomic_load(&ended), elapsed);
  free(sessions);
  free(tasks);
  free(samples);
  return 0;
}
