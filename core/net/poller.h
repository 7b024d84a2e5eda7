/* One epoll set with a timer and a wake-up inside, behind one descriptor.
 *
 * Level-triggered throughout. The set's own descriptor is readable while a registered descriptor is
 * ready, the timer has run out, or the wake-up is raised: that is what makes a whole broker one
 * pollable descriptor. Only one thread at a time may wait. Add, change, remove and arm may run in
 * another thread beside that wait, one at a time; an event collected before a remove may still be
 * handed out after it, so whoever removes while another thread waits keeps the source alive until
 * that wait's events are through. Wake may be called from any thread and from a signal handler. */
#ifndef TKT_NET_POLLER_H
#define TKT_NET_POLLER_H

#include <stdbool.h>
#include <stdint.h>

struct tkt_poller {
  int fd;                /* epoll: the pollable one */
  int timer_fd;          /* CLOCK_BOOTTIME: epoll timeouts do not count suspend */
  int wake_fd;           /* eventfd */
  _Atomic int64_t armed; /* what timer_fd is set to; TKT_NEVER: disarmed */
};

/* Most events of one wait: more stay ready and come with the next. */
enum { TKT_POLL_ROOM = 256 };

enum { TKT_POLL_READ = 1, TKT_POLL_WRITE = 2, TKT_POLL_BROKEN = 4 };

struct tkt_poll_event {
  void *source;    /* as registered */
  unsigned events; /* TKT_POLL_*; BROKEN comes with READ, so that a read finds the reason */
};

/* 0, or -errno with nothing left open. */
int tkt_poller_open(struct tkt_poller *poller);
void tkt_poller_close(struct tkt_poller *poller);

/* Registers, changes, removes `fd`. `source` comes back in events; not NULL. 0 or -errno. */
int tkt_poller_add(struct tkt_poller *poller, int fd, unsigned events, void *source);
int tkt_poller_change(struct tkt_poller *poller, int fd, unsigned events, void *source);
void tkt_poller_remove(struct tkt_poller *poller, int fd);

/* Arms the timer for the instant `due` (ns, boot clock; TKT_NEVER: none). Does no system call where
 * it is already armed for `due` or for an earlier instant that still has to pass: such a wake-up
 * comes early and is harmless. */
void tkt_poller_arm(struct tkt_poller *poller, int64_t due);

/* Makes the descriptor quiet for as long as nothing is registered, armed or raised anew: the timer
 * is disarmed, what it and the wake-up had raised is taken back. Counts as a wait. */
void tkt_poller_hush(struct tkt_poller *poller);

/* Raises the wake-up. Async-signal-safe. */
void tkt_poller_wake(struct tkt_poller *poller);

/* Collects up to `room` (at most TKT_POLL_ROOM) events of registered descriptors. `block`: sleep
 * until there is something, the timer runs out or a wake-up comes. Takes the timer and the wake-up
 * back silently; a return of 0 is normal then. -EINTR where a signal handler ran, other -errno
 * never in practice. */
int tkt_poller_wait(struct tkt_poller *poller, struct tkt_poll_event *events, int room, bool block);

/* The same, sleeping at most `timeout_ns`, rounded up to milliseconds; TKT_NEVER: without limit. */
int tkt_poller_wait_for(struct tkt_poller *poller, struct tkt_poll_event *events, int room,
                        int64_t timeout_ns);

#endif
