/* The signals of a server as events of its loop, through signalfd: no handler runs anywhere, so no
 * code has to be safe against one.
 *
 * SIGTERM and SIGINT ask for the stop, SIGHUP for reading tokens and certificates again; SIGPIPE is
 * ignored. */
#ifndef TKT_DAEMON_SIGNALS_H
#define TKT_DAEMON_SIGNALS_H

#include "daemon/loop.h"

struct tkt_signals {
  struct tkt_source source;
  int fd;
  int last;       /* the newest stop signal; 0: none yet */
  unsigned stops; /* stop signals so far */
  bool reload;    /* SIGHUP came; whoever reloads takes it back */
};

/* Blocks the signals in this thread (before any other starts) and watches them in `loop`, which
 * must outlive this. 0 or -errno. */
int tkt_signals_open(struct tkt_signals *signals, struct tkt_loop *loop);
void tkt_signals_close(struct tkt_signals *signals, struct tkt_loop *loop);

#endif
