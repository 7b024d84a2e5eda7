/* Redis as fast as a client can make it: hand-written commands, pipelined over few connections, one
 * send a connection and turn.
 *
 *   redis_client PORT SESSIONS TASKS KEYS CYCLES      prints one line of JSON
 *
 * The lock is SET NX PX with an owner of its own for every acquire, released by a script that
 * compares the owner and deletes; a key that is taken is asked for again at once. With as many keys
 * as tasks nothing is asked for twice. Task t uses key t % KEYS over session t % SESSIONS. */
#include "measure.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
  SESSIONS_MAX = 1024,
  TASKS_MAX = 4096,
  KEYS_MAX = 1000000,
  EVENTS = 256,
  COMMAND_MAX = 256,
  SHA = 40,
  OWNER = 16,
  KEY = 12,
};

static const char release_script[] =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

struct session {
  int fd;
  uint32_t have;
  uint32_t out;
  char in[65536];
  char request[TASKS_MAX * COMMAND_MAX];
  /* Tasks in the order of their commands, which is that of the replies. */
  uint32_t asked[TASKS_MAX];
  uint32_t first, end;
};

struct task {
  bool releasing;
  uint32_t owner;
  int64_t started_at;
};

static struct session *sessions;
static struct task *tasks;
static uint32_t session_count, task_count, key_count, cycle_count;
static uint32_t begun, ended, owners;
static uint32_t *samples;
static char script[SHA + 1];

static void wrong(const char *what, const char *reply, uint32_t len) {
  fprintf(stderr, "redis_client: %s: %.*s\n", what, (int)len, reply);
  exit(1);
}

static char *room(uint32_t number) {
  struct session *s = &sessions[number % session_count];
  if (s->out + COMMAND_MAX > sizeof s->request) fail("request buffer");
  s->asked[s->end++ % TASKS_MAX] = number;
  return s->request + s->out;
}

static void acquire(uint32_t number) {
  tasks[number].releasing = false;
  tasks[number].owner = ++owners;
  int n = snprintf(room(number), COMMAND_MAX,
                   "*6\r\n$3\r\nSET\r\n$%d\r\ncycle-%06u\r\n$%d\r\n%08x%08x\r\n$2\r\nNX\r\n$2\r\n"
                   "PX\r\n$6\r\n120000\r\n",
                   KEY, number % key_count, OWNER, tasks[number].owner, number);
  sessions[number % session_count].out += (uint32_t)n;
}

static void release(uint32_t number) {
  tasks[number].releasing = true;
  int n = snprintf(room(number), COMMAND_MAX,
                   "*5\r\n$7\r\nEVALSHA\r\n$%d\r\n%s\r\n$1\r\n1\r\n$%d\r\ncycle-%06u\r\n$%d\r\n"
                   "%08x%08x\r\n",
                   SHA, script, KEY, number % key_count, OWNER, tasks[number].owner, number);
  sessions[number % session_count].out += (uint32_t)n;
}

static void begin(uint32_t number) {
  if (begun == cycle_count) return;
  begun++;
  tasks[number].started_at = now_ns();
  acquire(number);
}

/* `line`: a reply without its end. */
static void take_reply(struct session *s, const char *line, uint32_t len) {
  uint32_t number = s->asked[s->first++ % TASKS_MAX];
  struct task *task = &tasks[number];
  if (task->releasing) {
    if (len != 2 || memcmp(line, ":1", 2) != 0) wrong("a lock was lost", line, len);
    samples[ended++] = (uint32_t)(now_ns() - task->started_at);
    begin(number);
  } else if (line[0] == '+') {
    release(number);
  } else if (line[0] == '$') { /* nil: taken */
    acquire(number);
  } else {
    wrong("SET", line, len);
  }
}

static void take_input(struct session *s) {
  ssize_t got = recv(s->fd, s->in + s->have, sizeof s->in - s->have, MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) fail("recv");
  s->have += (uint32_t)got;
  uint32_t used = 0;
  for (char *end; (end = memchr(s->in + used, '\n', s->have - used));) {
    uint32_t len = (uint32_t)(end - (s->in + used));
    if (len < 2) wrong("reply", s->in + used, len);
    take_reply(s, s->in + used, len - 1);
    used += len + 1;
  }
  s->have -= used;
  memmove(s->in, s->in + used, s->have);
}

static void flush(struct session *s) {
  for (uint32_t sent = 0; sent < s->out;) {
    ssize_t n = send(s->fd, s->request + sent, s->out - sent, MSG_NOSIGNAL);
    if (n < 0) fail("send");
    sent += (uint32_t)n;
  }
  s->out = 0;
}

static void load_script(int fd) {
  char text[COMMAND_MAX];
  int n = snprintf(text, sizeof text, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%s\r\n",
                   sizeof release_script - 1, release_script);
  if (send(fd, text, (size_t)n, MSG_NOSIGNAL) != n) fail("send");
  char reply[5 + SHA + 2]; /* "$40\r\n", the name, "\r\n" */
  if (recv(fd, reply, sizeof reply, MSG_WAITALL) != (ssize_t)sizeof reply) fail("SCRIPT LOAD");
  memcpy(script, reply + 5, SHA);
}

int main(int argc, char **argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: redis_client PORT SESSIONS TASKS KEYS CYCLES\n");
    return 64;
  }
  uint16_t port = (uint16_t)number(argv[1], 1, 65535);
  session_count = number(argv[2], 1, SESSIONS_MAX);
  task_count = number(argv[3], 1, TASKS_MAX);
  key_count = number(argv[4], 1, KEYS_MAX);
  cycle_count = number(argv[5], 1, CYCLES_MAX);
  sessions = calloc(session_count, sizeof *sessions);
  tasks = calloc(task_count, sizeof *tasks);
  samples = malloc(cycle_count * sizeof *samples);
  int epoll = epoll_create1(0);
  if (!sessions || !tasks || !samples || epoll < 0) fail("memory");
  for (uint32_t i = 0; i < session_count; i++) {
    sessions[i].fd = connect_loopback(port);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &sessions[i]};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, sessions[i].fd, &event) != 0) fail("epoll_ctl");
  }
  load_script(sessions[0].fd);
  int64_t start = now_ns();
  for (uint32_t i = 0; i < task_count; i++)
    begin(i);
  struct epoll_event events[EVENTS];
  for (;;) {
    for (uint32_t i = 0; i < session_count; i++)
      flush(&sessions[i]);
    if (ended == cycle_count) break;
    int n = epoll_wait(epoll, events, EVENTS, -1);
    if (n < 0 && errno != EINTR) fail("epoll_wait");
    for (int i = 0; i < n; i++)
      take_input(events[i].data.ptr);
  }
  report(samples, ended, now_ns() - start);
  for (uint32_t i = 0; i < session_count; i++)
    close(sessions[i].fd);
  close(epoll);
  free(sessions);
  free(tasks);
  free(samples);
  return 0;
}
