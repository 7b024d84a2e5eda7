#include "daemon/signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void ready(struct tkt_loop *loop, struct tkt_source *source, unsigned events, int64_t now) {
  struct tkt_signals *signals = TKT_CONTAINER(source, struct tkt_signals, source);
  struct signalfd_siginfo info;
  (void)events;
  (void)now;
  while (read(signals->fd, &info, sizeof info) == (ssize_t)sizeof info) {
    const char *name = sigabbrev_np((int)info.ssi_signo);
    if (!name) name = "?";
    if (info.ssi_signo == SIGHUP) {
      signals->reload = true;
      continue;
    }
    signals->last = (int)info.ssi_signo;
    signals->stops++;
    tkt_log_fields(loop->log, TKT_LOG_INFO, signals->stops == 1 ? "stopping" : "ending at once",
                   TKT_FIELD_TEXT("signal", name), TKT_FIELD_NUMBER("sender", info.ssi_pid));
  }
}

int tkt_signals_open(struct tkt_signals *signals, struct tkt_loop *loop) {
  memset(signals, 0, sizeof *signals);
  signals->source.ready = ready;
  struct sigaction ignore;
  memset(&ignore, 0, sizeof ignore);
  ignore.sa_handler = SIG_IGN;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  if (sigaction(SIGPIPE, &ignore, NULL) != 0 || sigprocmask(SIG_BLOCK, &set, NULL) != 0)
    return -errno;
  signals->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (signals->fd < 0) return -errno;
  int rc = tkt_poller_add(&loop->poller, signals->fd, TKT_POLL_READ, &signals->source);
  if (rc != 0) close(signals->fd);
  return rc;
}

void tkt_signals_close(struct tkt_signals *signals, struct tkt_loop *loop) {
  tkt_poller_remove(&loop->poller, signals->fd);
  close(signals->fd);
  signals->fd = -1;
}
