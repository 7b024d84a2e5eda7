/* An operation: what a caller started, from start to free.
 *
 * One block of memory serves the op handle and, for an acquire, the ticket handle; it goes when
 * both are given back and the driver has let go:
 *
 *   start    -> inbox -> the engine holds `call` (op on the live list)
 *   ended    -> outcome published in `status`, waiters woken, queue told; the driver's reference
 * ends free     -> pending: the command FORGET; granted, not taken: the ticket is dropped
 *
 * A granted ticket is taken from the engine in the turn that ends the acquire, so that taking it
 * later needs no lock; the clock decides anew then (rule G1). */
#ifndef TKT_DRIVE_OP_H
#define TKT_DRIVE_OP_H

#include "client/call.h"
#include "client/client.h"
#include "drive/inbox.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tkt_broker;
struct tkt_queue;
struct tkt_op;

/* What a granted acquire has to give; once, by one of those who may want it. */
enum tkt_take_state {
  TKT_TAKE_NOTHING = 0,
  TKT_TAKE_READY,
  TKT_TAKE_TAKEN,     /* a ticket handle is out */
  TKT_TAKE_CANCELLED, /* the op was cancelled or freed first */
  TKT_TAKE_LATE,      /* too little was left when somebody took it */
};

/* The ticket handle. */
struct tkt_lent {
  struct tkt_ticket *ticket; /* the engine's, the broker's lock; NULL: the engine has dropped it */
  _Atomic int state;         /* enum tkt_take_state */
  _Atomic unsigned holds;    /* who may still use the ticket: the op or the handle, and each release
                                or watch the engine has not seen yet; the last one out drops it */
  _Atomic bool detached;
  _Atomic bool settled; /* released, so that nothing is to be asked of the engine any more */
  _Atomic int released; /* TKT_PENDING, or how a release of it ended for good */
  _Atomic int64_t late_remaining_ns; /* LATE: what was left */
  int64_t valid_until;
  uint64_t token;
};

enum tkt_op_kind {
  TKT_OP_ACQUIRE = 1,
  TKT_OP_RELEASE,
  TKT_OP_WAIT_READY,
  TKT_OP_CLOSE,
  TKT_OP_WATCH,
};

/* Commands of an op's inbox node, carried out in this order. */
enum {
  TKT_COMMAND_START = 1,
  TKT_COMMAND_CANCEL = 2,
  TKT_COMMAND_FORGET = 4,
  TKT_COMMAND_DROP = 8, /* the lent ticket */
};

/* Bits of `word`. */
enum {
  TKT_WORD_ENDED = 1,
  TKT_WORD_WOKEN = 2,   /* ticketing_op_wake; taken back by the wait it ends */
  TKT_WORD_WAITING = 4, /* somebody sleeps, so waking costs a system call */
};

struct tkt_op {
  struct tkt_inbox_node node;
  struct tkt_broker *broker;
  struct tkt_queue *queue; /* or NULL */
  void *user;
  struct tkt_op *next; /* ended in this turn; kept for reuse */
  _Atomic unsigned
      refs; /* the handle, the inbox or the driver after it, the lent ticket, releases */
  _Atomic int status;
  _Atomic uint32_t word;
  struct tkt_list queued; /* the queue's lock */
  bool abandoned;         /* the queue's lock */
  atomic_bool reported;   /* taken from the queue: it will not stand there again */
  bool in_engine;         /* the broker's lock, as all below */
  struct tkt_list live;
  struct tkt_call call;
  struct tkt_lent lent;     /* an acquire's ticket */
  struct tkt_op *ticket_of; /* a release or watch of this acquire's ticket; counted; or NULL */

  /* What the start needs. */
  enum tkt_op_kind kind;
  uint8_t key_count;
  uint8_t wait_s;
  uint8_t lease_s;
  int64_t budget_ns;
  int64_t timeout_ns; /* a watch: the lead */
  uint64_t token;
  uint8_t *keys; /* each a length byte and its bytes; `inline_keys` or allocated */
  uint8_t inline_keys[TKT_KEY_MAX + 1];
};

/* --- starts: any thread, none blocks. TKT_OK and *op_out, or TKT_NO_MEMORY with nothing started.
 * `queue` is of the same broker or NULL. ------------------------------------------------------- */

int tkt_op_acquire(struct tkt_broker *broker, const struct tkt_acquire_plan *plan,
                   struct tkt_queue *queue, void *user, struct tkt_op **op_out);
int tkt_op_release(struct tkt_lent *lent, struct tkt_queue *queue, void *user,
                   struct tkt_op **op_out);
int tkt_op_release_exact(struct tkt_broker *broker, const struct tkt_span *keys, size_t key_count,
                         uint64_t token, struct tkt_queue *queue, void *user,
                         struct tkt_op **op_out);
int tkt_op_wait_ready(struct tkt_broker *broker, int64_t timeout_ns, struct tkt_queue *queue,
                      void *user, struct tkt_op **op_out);
/* Keeps the handle only until the engine has seen the start: a watch holds no ticket. */
int tkt_op_watch(struct tkt_lent *lent, int64_t lead_ns, struct tkt_queue *queue, void *user,
                 struct tkt_op **op_out);
int tkt_op_close(struct tkt_broker *broker, struct tkt_queue *queue, void *user,
                 struct tkt_op **op_out);

/* --- the handle ------------------------------------------------------------------------------ */

static inline int tkt_op_status(const struct tkt_op *op) {
  return atomic_load_explicit(&op->status, memory_order_acquire);
}

/* TKT_OK: ended. TKT_PENDING, TKT_DRIVE_INTERRUPTED, TKT_DRIVE_STATE. */
int tkt_op_wait(struct tkt_op *op, int64_t timeout_ns);
/* Without limit, for callers who know the op alone: neither signals nor tkt_op_wake end it. TKT_OK:
 * ended. TKT_DRIVE_STATE. */
int tkt_op_wait_to_end(struct tkt_op *op);
void tkt_op_wake(struct tkt_op *op);
void tkt_op_cancel(struct tkt_op *op);
void tkt_op_free(struct tkt_op *op);

/* As ticketing_op_take_ticket: TKT_OK, TKT_INSUFFICIENT_LEASE, TKT_CANCELLED, TKT_DRIVE_STATE, or
 * the op's status. */
int tkt_op_take(struct tkt_op *op, struct tkt_lent **lent_out);

/* As snprintf. */
size_t tkt_op_message(const struct tkt_op *op, char *out, size_t size);
uint32_t tkt_op_attempts(const struct tkt_op *op);

/* The keys of its start, sorted, into `keys` (room for TKT_KEY_SET_MAX); how many. */
size_t tkt_op_keys(const struct tkt_op *op, struct tkt_span *keys);

/* --- the ticket handle ----------------------------------------------------------------------- */

struct tkt_op *tkt_lent_op(const struct tkt_lent *lent);
void tkt_lent_detach(struct tkt_lent *lent);
void tkt_lent_free(struct tkt_lent *lent);

/* --- the driver's side
 * ---------------------------------------------------------------------------- */

static inline void tkt_op_ref(struct tkt_op *op) {
  atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
}
void tkt_op_unref(struct tkt_op *op);

/* Leaves commands for the next turn, and runs it where that is the caller's duty. */
void tkt_op_command(struct tkt_op *op, unsigned commands);

/* True for the one who may have what a granted acquire gives; its hold is the claimer's. */
bool tkt_lent_claim(struct tkt_lent *lent, enum tkt_take_state as);

/* One hold less; the last one drops the ticket: by a command, or at once in a turn (lock held). */
void tkt_lent_put(struct tkt_lent *lent);
void tkt_lent_put_locked(struct tkt_lent *lent, int64_t now);
void tkt_lent_drop_locked(struct tkt_lent *lent, int64_t now);

#endif
