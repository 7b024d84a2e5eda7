/* A broker: the client engine, its streams, and whoever drives them.
 *
 * One lock guards the engine. Callers leave commands in the inbox and try the lock; whoever gets it
 * takes everything that is there, runs the engine, sends once per session, and looks again (a
 * combining writer), so many threads share one system call. Waiters are woken after the lock was
 * given back.
 *
 * THREAD: one I/O thread polls outside the lock and runs a turn for what it finds; callers run the
 * turns for what they ask. CALLER: nobody but the dispatching caller runs turns; the others append
 * and make the descriptor readable.
 *
 * LIFE. References are counted: the handle, each queue, each op, each lent ticket, the I/O thread.
 * Freeing the handle closes in the background; when the engine has finished, or a CALLER broker is
 * freed, the broker is dead: streams are closed, and what is asked of it then is answered at once
 * by whoever asks. The engine's memory goes with the last reference. */
#ifndef TKT_DRIVE_BROKER_H
#define TKT_DRIVE_BROKER_H

#include "client/client.h"
#include "drive/fork_guard.h"
#include "drive/inbox.h"
#include "drive/lock.h"
#include "drive/op_store.h"
#include "net/poller.h"
#include "net/resolver.h"
#include "net/trust.h"

#include <stdatomic.h>
#include <stdbool.h>

enum tkt_io_mode { TKT_IO_THREAD = 0, TKT_IO_CALLER = 1 };

enum {
  /* The shared read buffer, and so the most that is read from one session in one turn. */
  TKT_READ_SIZE = 65536,
  /* Turns a caller runs in a row for others before it leaves the rest to the I/O thread. */
  TKT_COMBINE_ROUNDS = 8,
};

struct tkt_broker {
  _Atomic unsigned refs;
  enum tkt_io_mode mode;
  struct tkt_fork_guard guard;

  struct tkt_inbox inbox;
  struct tkt_inbox_node node; /* of the broker's own commands */
  struct tkt_lock lock;
  _Atomic bool dead; /* set under the lock, never taken back */

  _Atomic bool exposed;     /* somebody may poll the descriptor */
  _Atomic bool sleeping;    /* a dispatcher is about to poll or polls */
  _Atomic bool dispatching; /* held by the one dispatcher */
  _Atomic bool freed;       /* CALLER: the handle is gone; the dispatcher tears down */
  _Atomic unsigned waiting; /* threads asleep for an op or a queue */
  _Atomic bool missed;      /* somebody with commands found the lock held */
  _Atomic bool rousing;     /* the I/O thread is waking several callers, and sends what they ask */
  _Atomic uint64_t late_takes;

  struct tkt_poller poller;
  struct tkt_op_store ops;

  /* Under the lock. */
  struct tkt_client *client;
  struct tkt_list links;     /* open streams */
  struct tkt_list graveyard; /* closed ones the poll under way may still name */
  struct tkt_list live;      /* ops the engine holds */
  struct tkt_call background_close;
  struct tkt_trust trust; /* for connections through TLS; closed: they are plain */
  struct tkt_resolver *resolver;
  uint64_t unverified; /* sessions whose server nobody checked */
  uint8_t *read_buffer;
};

/* Commands of the broker's own node. */
enum { TKT_COMMAND_BROKER_CLOSE = 1 };

/* Opens; does not block. The addresses were checked. `trust`: connect through TLS, trusting as this
 * one, which is copied; NULL: in plain text. TKT_OK, TKT_NO_MEMORY, or TKT_DRIVE_SYSTEM. */
int tkt_broker_open(const struct tkt_client_config *config, enum tkt_io_mode mode,
                    const struct tkt_trust *trust, struct tkt_broker **broker_out);

/* Gives the handle back, as ticketing_broker_free says. Never blocks. */
void tkt_broker_free(struct tkt_broker *broker);

/* In a forked child: closes what was inherited. Memory stays, for its locks and counts may have
 * been copied in the middle of a change. */
void tkt_broker_free_in_child(struct tkt_broker *broker);

static inline bool tkt_broker_forked(const struct tkt_broker *broker) {
  return tkt_fork_guard_forked(&broker->guard);
}

static inline void tkt_broker_ref(struct tkt_broker *broker) {
  atomic_fetch_add_explicit(&broker->refs, 1, memory_order_relaxed);
}
void tkt_broker_unref(struct tkt_broker *broker);

/* After a push: does the pusher's duty where it has one. Not with the lock held. */
void tkt_broker_kick(struct tkt_broker *broker, enum tkt_pushed pushed);

/* Runs turns for what is in the inbox; where the lock is held, its holder is told to. */
void tkt_broker_work(struct tkt_broker *broker);

/* Whoever gave the lock back calls this: does what somebody who tried in vain left. */
void tkt_broker_look_again(struct tkt_broker *broker);

/* Copies counters as tkt_client_counters does, and the driver's own behind them. */
size_t tkt_broker_counters(struct tkt_broker *broker, struct tkt_counter *out, size_t room);

/* The oldest entry of the log; false: there is none. */
bool tkt_broker_log_next(struct tkt_broker *broker, struct tkt_log_entry *entry_out);

/* CALLER mode. The descriptor to poll; -1 in THREAD mode. */
int tkt_broker_fd(struct tkt_broker *broker);

/* Results of the driver beyond those of enum tkt_outcome; the numbers of the public header. */
enum {
  TKT_DRIVE_STATE = -15,
  TKT_DRIVE_INTERRUPTED = -16,
  TKT_DRIVE_SYSTEM = -17,
};

/* CALLER mode: one turn. Sends what was asked, waits at most `timeout_ns` for something to be due,
 * does it. The number of ops that ended, TKT_DRIVE_STATE, TKT_DRIVE_INTERRUPTED, or TKT_CLOSED
 * where the broker is dead and nothing can come any more. */
int tkt_dispatch(struct tkt_broker *broker, int64_t timeout_ns);

/* CALLER mode: what was asked is sent, nothing read. 0 or TKT_DRIVE_STATE. */
int tkt_flush(struct tkt_broker *broker);

/* CALLER mode, the handle is gone: sends what the sockets take and makes the broker dead, unless
 * somebody dispatches, who then does it. */
void tkt_caller_tear_down(struct tkt_broker *broker);

/* THREAD mode: starts the I/O thread, which holds a reference. 0 or -errno. */
int tkt_io_thread_start(struct tkt_broker *broker);

#endif
