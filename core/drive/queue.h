/* A completion queue: ops that ended, in order, with a descriptor for an event loop.
 *
 * The descriptor is written once when the queue goes from empty to nonempty and taken back by
 * whoever empties it; as long as nobody asked for it, it costs no system call. An op stands here
 * only while its handle lives. */
#ifndef TKT_DRIVE_QUEUE_H
#define TKT_DRIVE_QUEUE_H

#include "base/list.h"
#include "drive/lock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tkt_broker;
struct tkt_op;

struct tkt_queue {
  _Atomic unsigned refs; /* the handle, and each op that reports here */
  struct tkt_broker *broker;
  int fd;
  uint64_t inode; /* of fd */
  struct tkt_lock lock;
  _Atomic uint32_t turn; /* grows with each delivery somebody waits for */
  /* Under the lock. */
  struct tkt_list ops;
  unsigned waiters;
  bool exposed;   /* fd was given out */
  bool signalled; /* fd is readable */
  bool closed;    /* the handle was freed */
};

/* TKT_OK, TKT_NO_MEMORY, TKT_DRIVE_SYSTEM. */
int tkt_queue_new(struct tkt_broker *broker, struct tkt_queue **queue_out);
/* Its ops go on and report nowhere. */
void tkt_queue_free(struct tkt_queue *queue);
void tkt_queue_free_in_child(struct tkt_queue *queue);

void tkt_queue_ref(struct tkt_queue *queue);
void tkt_queue_unref(struct tkt_queue *queue);

int tkt_queue_fd(struct tkt_queue *queue);

/* The op that ended first, or NULL. */
struct tkt_op *tkt_queue_next(struct tkt_queue *queue);

/* The same, waiting; dispatches in CALLER mode. TKT_OK, TKT_PENDING when the time is over,
 * TKT_DRIVE_INTERRUPTED, TKT_DRIVE_STATE, TKT_CLOSED (CALLER mode, nothing can come any more). */
int tkt_queue_wait(struct tkt_queue *queue, int64_t timeout_ns, struct tkt_op **op_out);

/* The driver's side: appends the ops from `first` on, linked by `next`, while they report here, and
 * returns the first that does not. */
struct tkt_op *tkt_queue_deliver(struct tkt_queue *queue, struct tkt_op *first);

/* The op's handle is going away: it leaves the queue, or will not enter it. */
void tkt_queue_abandon(struct tkt_queue *queue, struct tkt_op *op);

#endif
