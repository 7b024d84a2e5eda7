#include "net/poller.h"

#include "base/time.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Longest sleep of one epoll_wait, ms; the loop around it goes on. */
enum { SLEEP_MAX_MS = 3600 * 1000 };

static int control(struct tkt_poller *poller, int op, int fd, uint32_t events, void *source) {
  struct epoll_event e = {.events = events, .data.ptr = source};
  return epoll_ctl(poller->fd, op, fd, &e) == 0 ? 0 : -errno;
}

static uint32_t to_epoll(unsigned events) {
  return (events & TKT_POLL_READ ? (uint32_t)EPOLLIN | (uint32_t)EPOLLRDHUP : 0u) |
         (events & TKT_POLL_WRITE ? (uint32_t)EPOLLOUT : 0u);
}

int tkt_poller_open(struct tkt_poller *poller) {
  atomic_init(&poller->armed, TKT_NEVER);
  poller->fd = epoll_create1(EPOLL_CLOEXEC);
  poller->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
  poller->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  int rc = poller->fd < 0 || poller->timer_fd < 0 || poller->wake_fd < 0 ? -errno : 0;
  /* Edge-triggered: each expiry and each wake is reported once and costs no read to take back. The
   * set itself stays readable until a wait has collected it. */
  if (rc == 0)
    rc = control(poller, EPOLL_CTL_ADD, poller->timer_fd, (uint32_t)EPOLLIN | (uint32_t)EPOLLET,
                 &poller->timer_fd);
  if (rc == 0)
    rc = control(poller, EPOLL_CTL_ADD, poller->wake_fd, (uint32_t)EPOLLIN | (uint32_t)EPOLLET,
                 &poller->wake_fd);
  if (rc != 0) tkt_poller_close(poller);
  return rc;
}

void tkt_poller_close(struct tkt_poller *poller) {
  int *fds[] = {&poller->fd, &poller->timer_fd, &poller->wake_fd};
  for (int i = 0; i < 3; i++) {
    if (*fds[i] >= 0) close(*fds[i]);
    *fds[i] = -1;
  }
}

int tkt_poller_add(struct tkt_poller *poller, int fd, unsigned events, void *source) {
  return control(poller, EPOLL_CTL_ADD, fd, to_epoll(events), source);
}

int tkt_poller_change(struct tkt_poller *poller, int fd, unsigned events, void *source) {
  return control(poller, EPOLL_CTL_MOD, fd, to_epoll(events), source);
}

void tkt_poller_remove(struct tkt_poller *poller, int fd) {
  control(poller, EPOLL_CTL_DEL, fd, 0, NULL);
}

void tkt_poller_arm(struct tkt_poller *poller, int64_t due) {
  if (due >= atomic_load_explicit(&poller->armed, memory_order_relaxed)) return;
  if (due < 1) due = 1; /* zero would disarm */
  struct itimerspec t = {.it_value = {.tv_sec = due / TKT_S, .tv_nsec = due % TKT_S}};
  atomic_store_explicit(&poller->armed, due, memory_order_relaxed);
  timerfd_settime(poller->timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

void tkt_poller_hush(struct tkt_poller *poller) {
  struct tkt_poll_event events[TKT_POLL_ROOM];
  struct itimerspec never = {0};
  timerfd_settime(poller->timer_fd, TFD_TIMER_ABSTIME, &never, NULL);
  atomic_store_explicit(&poller->armed, TKT_NEVER, memory_order_relaxed);
  tkt_poller_wait(poller, events, TKT_POLL_ROOM, false);
}

void tkt_poller_wake(struct tkt_poller *poller) {
  int keep = errno;
  uint64_t one = 1;
  ssize_t n = write(poller->wake_fd, &one, sizeof one);
  (void)n;
  errno = keep;
}

int tkt_poller_wait_for(struct tkt_poller *poller, struct tkt_poll_event *events, int room,
                        int64_t timeout_ns) {
  struct epoll_event got[TKT_POLL_ROOM];
  if (room > TKT_POLL_ROOM) room = TKT_POLL_ROOM;
  int timeout = -1;
  if (timeout_ns < SLEEP_MAX_MS * TKT_MS)
    timeout = timeout_ns <= 0 ? 0 : (int)((timeout_ns + TKT_MS - 1) / TKT_MS);
  else if (timeout_ns != TKT_NEVER)
    timeout = SLEEP_MAX_MS;
  int n = epoll_wait(poller->fd, got, room, timeout);
  if (n < 0) return -errno;
  int count = 0;
  for (int i = 0; i < n; i++) {
    void *source = got[i].data.ptr;
    if (source == &poller->timer_fd) {
      atomic_store_explicit(&poller->armed, TKT_NEVER, memory_order_relaxed);
    } else if (source != &poller->wake_fd) {
      uint32_t e = got[i].events;
      unsigned bits = (e & EPOLLIN ? TKT_POLL_READ : 0u) | (e & EPOLLOUT ? TKT_POLL_WRITE : 0u);
      if (e & EPOLLRDHUP) bits |= TKT_POLL_READ;
      if (e & (EPOLLERR | EPOLLHUP)) bits |= TKT_POLL_BROKEN | TKT_POLL_READ;
      events[count].source = source;
      events[count++].events = bits;
    }
  }
  return count;
}

int tkt_poller_wait(struct tkt_poller *poller, struct tkt_poll_event *events, int room,
                    bool block) {
  return tkt_poller_wait_for(poller, events, room, block ? TKT_NEVER : 0);
}
