#include "net/race.h"

#include "base/address.h"
#include "base/time.h"
#include "net/connect.h"
#include "net/resolver.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Between the starts of two attempts. */
#define ATTEMPT_DISTANCE (250 * TKT_MS)

struct tkt_race {
  struct tkt_dialer dialer;
  int set; /* epoll */
  int timer;
  struct tkt_lookup *lookup; /* NULL: done */
  int count;
  int next;                          /* endpoint to try */
  int error;                         /* of the attempt that failed last */
  int winner;                        /* -1: none yet */
  int fds[TKT_LOOKUP_ENDPOINTS_MAX]; /* attempts under way; -1: none */
  struct tkt_endpoint endpoints[TKT_LOOKUP_ENDPOINTS_MAX];
};

static void opened(const struct tkt_race *race, int fd) {
  if (race->dialer.opened) race->dialer.opened(race->dialer.context, fd);
}

static void closing(const struct tkt_race *race, int fd) {
  if (race->dialer.closing) race->dialer.closing(race->dialer.context, fd);
}

static bool watch(const struct tkt_race *race, int fd, uint32_t events) {
  struct epoll_event event = {.events = events};
  return epoll_ctl(race->set, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* By hand: a child after fork() may share the socket, and then it would stay in the set. */
static void unwatch(const struct tkt_race *race, int fd) {
  epoll_ctl(race->set, EPOLL_CTL_DEL, fd, NULL);
}

static void close_fd(const struct tkt_race *race, int fd) {
  if (fd < 0) return;
  unwatch(race, fd);
  closing(race, fd);
  close(fd);
}

static void end_lookup(struct tkt_race *race) {
  if (!race->lookup) return;
  int fd = tkt_lookup_fd(race->lookup);
  unwatch(race, fd);
  closing(race, fd);
  tkt_lookup_drop(race->lookup);
  race->lookup = NULL;
}

void tkt_race_free(struct tkt_race *race, bool with_set) {
  end_lookup(race);
  for (int i = 0; i < TKT_LOOKUP_ENDPOINTS_MAX; i++)
    close_fd(race, race->fds[i]);
  close_fd(race, race->timer);
  if (with_set && race->set >= 0) {
    closing(race, race->set);
    close(race->set);
  }
  free(race);
}

struct tkt_race *tkt_race_start(const struct tkt_address *address, const struct tkt_dialer *dialer,
                                const char **reason_out) {
  struct tkt_race *race = calloc(1, sizeof *race);
  if (!race) {
    *reason_out = "out of memory";
    return NULL;
  }
  race->dialer = *dialer;
  race->error = ECONNREFUSED;
  race->winner = -1;
  for (int i = 0; i < TKT_LOOKUP_ENDPOINTS_MAX; i++)
    race->fds[i] = -1;
  race->set = epoll_create1(EPOLL_CLOEXEC);
  race->timer = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
  if (race->set >= 0) opened(race, race->set);
  if (race->timer >= 0) opened(race, race->timer);
  *reason_out = "no file descriptor left";
  if (race->set >= 0 && race->timer >= 0 && watch(race, race->timer, EPOLLIN))
    race->lookup = tkt_lookup_start(dialer->resolver, address->host, address->port, reason_out);
  if (race->lookup) {
    opened(race, tkt_lookup_fd(race->lookup));
    if (watch(race, tkt_lookup_fd(race->lookup), EPOLLIN)) return race;
    *reason_out = "the system refused to poll the look-up of the host name";
  }
  tkt_race_free(race, true);
  return NULL;
}

int tkt_race_fd(const struct tkt_race *race) {
  return race->set;
}

/* --- steps --------------------------------------------------------------------------------------
 */

static void arm(const struct tkt_race *race, int64_t distance) {
  struct itimerspec t = {.it_value = {.tv_nsec = distance}};
  timerfd_settime(race->timer, 0, &t, NULL);
}

/* Starts the next attempt that does not fail at once; false: there is none. */
static bool start_next(struct tkt_race *race) {
  while (race->next < race->count) {
    int i = race->next++;
    int fd = tkt_connect_start(&race->endpoints[i]);
    if (fd < 0) {
      race->error = -fd;
      continue;
    }
    opened(race, fd);
    if (watch(race, fd, EPOLLOUT)) {
      race->fds[i] = fd;
      arm(race, race->next < race->count ? ATTEMPT_DISTANCE : 0);
      return true;
    }
    race->error = errno;
    closing(race, fd);
    close(fd);
  }
  return false;
}

/* Looks at the attempts under way; how many remain, and whether one failed. */
static int look(struct tkt_race *race, bool *failed_out) {
  int under_way = 0;
  for (int i = 0; i < race->next && race->winner < 0; i++) {
    if (race->fds[i] < 0) continue;
    int rc = tkt_connect_check(race->fds[i]);
    if (rc == 0) {
      race->winner = race->fds[i];
      race->fds[i] = -1;
    } else if (rc == -EINPROGRESS) {
      under_way++;
    } else {
      race->error = -rc;
      *failed_out = true;
      close_fd(race, race->fds[i]);
      race->fds[i] = -1;
    }
  }
  return under_way;
}

static bool distance_over(const struct tkt_race *race) {
  uint64_t expiries;
  return read(race->timer, &expiries, sizeof expiries) == (ssize_t)sizeof expiries;
}

int tkt_race_step(struct tkt_race *race, const char **reason_out) {
  if (race->lookup) {
    race->count = tkt_lookup_result(race->lookup, race->endpoints, reason_out);
    if (race->count < 0) return TKT_STREAM_AGAIN;
    if (race->count == 0) return TKT_STREAM_BROKEN;
    end_lookup(race);
  }
  bool failed = false;
  int under_way = look(race, &failed);
  if (race->winner >= 0) {
    unwatch(race, race->winner);
    return race->winner;
  }
  if (distance_over(race) || failed || under_way == 0) under_way += start_next(race);
  if (under_way > 0) return TKT_STREAM_AGAIN;
  *reason_out = tkt_connect_fault(race->error);
  return TKT_STREAM_BROKEN;
}
