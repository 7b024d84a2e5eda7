/* The ceiling, server side: one thread, level-triggered epoll, a first-come lock table in an array,
 * one send per touched session per turn. No leases, tokens, checks or limits.
 *
 *   raw_server            prints "PORT" on stdout once it listens; ends when stdin ends */
#include "raw_frames.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256, QUEUE = RAW_TASKS_MAX };

struct session {
  int fd;
  bool dirty;
  uint32_t have;
  uint32_t out;
  uint8_t in[65536];
  uint8_t reply[RAW_BUFFER];
};

struct waiter {
  struct session *session;
  uint32_t task;
};

struct lock {
  bool held;
  uint32_t head;
  uint32_t tail;
  struct waiter queue[QUEUE];
};

static struct lock locks[RAW_KEYS_MAX];
static struct session *dirty[RAW_SESSIONS_MAX];
static uint32_t dirty_count;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void reply(struct session *s, uint8_t op, uint32_t task, uint32_t key) {
  uint32_t size = raw_reply_size(op);
  if (s->out + size > sizeof s->reply) fail("reply buffer");
  raw_write(s->reply + s->out, size, op, task, key);
  s->out += size;
  if (!s->dirty) {
    s->dirty = true;
    dirty[dirty_count++] = s;
  }
}

static void apply(struct session *s, const uint8_t *frame) {
  uint32_t task = raw_task(frame);
  uint32_t key = raw_key(frame) % RAW_KEYS_MAX;
  struct lock *lock = &locks[key];
  if (frame[0] == 'A') {
    if (lock->held) {
      struct waiter *w = &lock->queue[lock->tail++ % QUEUE];
      w->session = s;
      w->task = task;
    } else {
      lock->held = true;
      reply(s, 'A', task, key);
    }
    return;
  }
  reply(s, 'R', task, key);
  if (lock->head != lock->tail) {
    const struct waiter *w = &lock->queue[lock->head++ % QUEUE];
    reply(w->session, 'A', w->task, key);
  } else {
    lock->held = false;
  }
}

/* False at the end of the session. */
static bool take_input(struct session *s) {
  ssize_t got = recv(s->fd, s->in + s->have, sizeof s->in - s->have, MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) return true;
  if (got <= 0) return false;
  s->have += (uint32_t)got;
  uint32_t used = 0;
  while (used < s->have && s->have - used >= raw_request_size(s->in[used])) {
    const uint8_t *frame = s->in + used;
    used += raw_request_size(frame[0]);
    apply(s, frame);
  }
  s->have -= used;
  memmove(s->in, s->in + used, s->have);
  return true;
}

static void send_replies(void) {
  for (uint32_t i = 0; i < dirty_count; i++) {
    struct session *s = dirty[i];
    s->dirty = false;
    uint32_t sent = 0;
    while (sent < s->out) {
      ssize_t n = send(s->fd, s->reply + sent, s->out - sent, MSG_NOSIGNAL);
      if (n < 0) break; /* the peer is gone; its end is read next */
      sent += (uint32_t)n;
    }
    s->out = 0;
  }
  dirty_count = 0;
}

static void watch(int epoll, int fd, void *source) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
}

static void take_session(int epoll, int listener) {
  int fd = accept(listener, NULL, NULL);
  if (fd < 0) fail("accept");
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  struct session *s = calloc(1, sizeof *s);
  if (!s) fail("calloc");
  s->fd = fd;
  watch(epoll, fd, s);
}

int main(void) {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 ||
      listen(listener, RAW_SESSIONS_MAX) != 0 ||
      getsockname(listener, (struct sockaddr *)&address, &size) != 0)
    fail("listen");
  int epoll = epoll_create1(0);
  if (epoll < 0) fail("epoll_create1");
  char input_ended;
  watch(epoll, listener, &listener);
  watch(epoll, STDIN_FILENO, &input_ended);
  printf("%u\n", ntohs(address.sin_port));
  fflush(stdout);

  struct epoll_event events[EVENTS];
  for (;;) {
    int n = epoll_wait(epoll, events, EVENTS, -1);
    if (n < 0 && errno != EINTR) fail("epoll_wait");
    for (int i = 0; i < n; i++) {
      void *source = events[i].data.ptr;
      if (source == &input_ended) return 0;
      if (source == &listener) {
        take_session(epoll, listener);
      } else {
        struct session *s = source;
        /* A waiter in a queue may still point here: the memory stays until the program ends. */
        if (!take_input(s)) close(s->fd);
      }
    }
    send_replies();
  }
}
