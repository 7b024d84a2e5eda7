#include "drive/queue.h"

#include "drive/broker.h"
#include "drive/futex.h"
#include "drive/op.h"
#include "drive/time_limit.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

int tkt_queue_new(struct tkt_broker *broker, struct tkt_queue **queue_out) {
  struct tkt_queue *queue = calloc(1, sizeof *queue);
  if (!queue) return TKT_NO_MEMORY;
  queue->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (queue->fd < 0) {
    free(queue);
    return TKT_DRIVE_SYSTEM;
  }
  queue->inode = tkt_fork_guard_inode(queue->fd);
  atomic_init(&queue->refs, 1);
  queue->broker = broker;
  tkt_broker_ref(broker);
  tkt_list_init(&queue->ops);
  *queue_out = queue;
  return TKT_OK;
}

void tkt_queue_ref(struct tkt_queue *queue) {
  atomic_fetch_add_explicit(&queue->refs, 1, memory_order_relaxed);
}

void tkt_queue_unref(struct tkt_queue *queue) {
  if (atomic_fetch_sub_explicit(&queue->refs, 1, memory_order_acq_rel) != 1) return;
  tkt_broker_unref(queue->broker);
  free(queue);
}

/* With the lock held: the descriptor says what the list is. */
static void show(struct tkt_queue *queue) {
  bool ready = !tkt_list_empty(&queue->ops);
  if (!queue->exposed || queue->closed || ready == queue->signalled) return;
  uint64_t count = 1;
  ssize_t n =
      ready ? write(queue->fd, &count, sizeof count) : read(queue->fd, &count, sizeof count);
  (void)n;
  queue->signalled = ready;
}

void tkt_queue_free(struct tkt_queue *queue) {
  tkt_lock_take(&queue->lock);
  queue->closed = true;
  while (tkt_list_shift(&queue->ops)) {
  }
  /* Under the lock, since a delivery may be about to write to it. */
  close(queue->fd);
  queue->fd = -1;
  tkt_lock_give(&queue->lock);
  tkt_queue_unref(queue);
}

void tkt_queue_free_in_child(struct tkt_queue *queue) {
  int fd = queue->fd;
  queue->fd = -1;
  if (fd >= 0) tkt_fork_guard_close_if(fd, queue->inode);
}

int tkt_queue_fd(struct tkt_queue *queue) {
  tkt_lock_take(&queue->lock);
  queue->exposed = true;
  show(queue);
  tkt_lock_give(&queue->lock);
  return queue->fd;
}

struct tkt_op *tkt_queue_next(struct tkt_queue *queue) {
  tkt_lock_take(&queue->lock);
  struct tkt_list *node = tkt_list_shift(&queue->ops);
  show(queue);
  tkt_lock_give(&queue->lock);
  if (!node) return NULL;
  struct tkt_op *op = TKT_CONTAINER(node, struct tkt_op, queued);
  atomic_store_explicit(&op->reported, true, memory_order_relaxed);
  return op;
}

struct tkt_op *tkt_queue_deliver(struct tkt_queue *queue, struct tkt_op *first) {
  struct tkt_op *op = first;
  tkt_lock_take(&queue->lock);
  for (; op && op->queue == queue; op = op->next)
    if (!queue->closed && !op->abandoned) tkt_list_append(&queue->ops, &op->queued);
  show(queue);
  bool waited_for = queue->waiters > 0;
  if (waited_for) atomic_fetch_add(&queue->turn, 1);
  tkt_lock_give(&queue->lock);
  if (waited_for) tkt_futex_wake(&queue->turn, INT_MAX);
  return op;
}

void tkt_queue_abandon(struct tkt_queue *queue, struct tkt_op *op) {
  if (atomic_load_explicit(&op->reported, memory_order_relaxed)) return;
  tkt_lock_take(&queue->lock);
  op->abandoned = true;
  tkt_list_remove(&op->queued);
  show(queue);
  tkt_lock_give(&queue->lock);
}

/* Sleeps until a delivery: registered as a waiter before the last look, so that none is missed. */
static int sleep_on(struct tkt_queue *queue, int64_t left) {
  tkt_lock_take(&queue->lock);
  bool empty = tkt_list_empty(&queue->ops);
  uint32_t turn = atomic_load(&queue->turn);
  queue->waiters++;
  tkt_lock_give(&queue->lock);
  atomic_fetch_add_explicit(&queue->broker->waiting, 1, memory_order_relaxed);
  int rc = empty ? tkt_futex_wait(&queue->turn, turn, left) : 0;
  atomic_fetch_sub_explicit(&queue->broker->waiting, 1, memory_order_relaxed);
  tkt_lock_take(&queue->lock);
  queue->waiters--;
  tkt_lock_give(&queue->lock);
  return rc == -EINTR ? TKT_DRIVE_INTERRUPTED : TKT_OK;
}

int tkt_queue_wait(struct tkt_queue *queue, int64_t timeout_ns, struct tkt_op **op_out) {
  bool caller = queue->broker->mode == TKT_IO_CALLER;
  int64_t deadline = tkt_deadline_of(timeout_ns);
  for (bool looked = false;; looked = true) {
    if ((*op_out = tkt_queue_next(queue))) return TKT_OK;
    int64_t left = tkt_left_until(deadline);
    if (left == 0 && (looked || !caller)) return TKT_PENDING;
    int rc = caller ? tkt_dispatch(queue->broker, left) : sleep_on(queue, left);
    if (rc < 0) return (*op_out = tkt_queue_next(queue)) ? TKT_OK : rc;
  }
}
