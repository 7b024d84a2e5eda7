#include "cli/guard.h"

#include <errno.h>
#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum stage { RUNNING, TERMINATED, KILLED };

struct watch {
  const struct tkt_guard *guard;
  int timer_fd;
  enum stage stage;
};

/* A timer on the clock of the ticket: the time-outs of poll do not count suspend, and a machine
 * that slept through the deadline has to act on it when it wakes. */
static int arm(const struct watch *watch) {
  int64_t due = watch->stage == RUNNING ? watch->guard->term_at : watch->guard->kill_at;
  if (watch->stage == KILLED) return 0;
  if (due < 1) due = 1;
  struct itimerspec timer = {
      .it_value = {.tv_sec = due / TICKETING_SECOND, .tv_nsec = due % TICKETING_SECOND}};
  return timerfd_settime(watch->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL) == 0 ? 0 : errno;
}

static int keep_deadline(struct watch *watch) {
  struct tkt_child *child = watch->guard->child;
  int64_t now = ticketing_now_ns();
  enum stage before = watch->stage;
  if (watch->stage == RUNNING && now >= watch->guard->term_at) {
    tkt_child_signal(child, SIGTERM);
    tkt_child_signal(child, SIGCONT); /* a stopped process would hear it too late */
    watch->stage = TERMINATED;
  }
  if (watch->stage == TERMINATED && now >= watch->guard->kill_at) {
    tkt_child_signal(child, SIGKILL);
    watch->stage = KILLED;
  }
  return watch->stage == before ? 0 : arm(watch);
}

static void pass_signals_on(const struct watch *watch) {
  bool from_terminal;
  int number;
  while ((number = tkt_cli_next_signal(watch->guard->client, &from_terminal)))
    if (!from_terminal) tkt_child_signal(watch->guard->child, number);
}

static int run(struct watch *watch) {
  struct tkt_cli_client *client = watch->guard->client;
  struct pollfd fds[] = {{.fd = client->signal_fd, .events = POLLIN},
                         {.fd = watch->timer_fd, .events = POLLIN},
                         {.fd = ticketing_broker_fd(client->broker), .events = POLLIN}};
  int error = arm(watch);
  while (error == 0 && !tkt_child_ended(watch->guard->child)) {
    ticketing_broker_dispatch(client->broker, 0);
    if (poll(fds, 3, -1) < 0 && errno != EINTR) return errno;
    if (fds[0].revents) pass_signals_on(watch);
    uint64_t expired;
    if (fds[1].revents && read(watch->timer_fd, &expired, sizeof expired) < 0 && errno != EAGAIN)
      return errno;
    error = keep_deadline(watch);
  }
  return error;
}

int tkt_guard_watch(const struct tkt_guard *guard, bool *lost_out) {
  struct watch watch = {.guard = guard, .stage = RUNNING};
  watch.timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  int error = watch.timer_fd < 0 ? errno : run(&watch);
  if (watch.timer_fd >= 0) close(watch.timer_fd);
  if (error != 0) {
    tkt_child_signal(guard->child, SIGKILL);
    while (!tkt_child_ended(guard->child))
      poll(NULL, 0, 1);
  }
  *lost_out = watch.stage != RUNNING;
  return error;
}
