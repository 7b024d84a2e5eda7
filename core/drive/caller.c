/* CALLER mode: the dispatching caller is the only one who runs turns while the broker lives. */
#include "drive/broker.h"
#include "drive/turn.h"

#include <errno.h>

static bool enter(struct tkt_broker *broker) {
  return !atomic_exchange(&broker->dispatching, true);
}

/* Sends what the sockets take, then nothing any more. The dispatcher's place is held. */
static void tear_down(struct tkt_broker *broker) {
  struct tkt_ended ended = {0};
  tkt_lock_take(&broker->lock);
  tkt_turn(broker, NULL, 0, false, &ended);
  tkt_turn_end(broker, &ended);
  tkt_lock_give(&broker->lock);
  tkt_poller_hush(&broker->poller);
  tkt_deliver(&ended);
  tkt_broker_work(broker);
}

/* Whoever leaves looks whether the handle was freed meanwhile, by one who then could not enter. */
static void leave(struct tkt_broker *broker) {
  for (;;) {
    atomic_store(&broker->dispatching, false);
    if (!atomic_load(&broker->freed) || atomic_load(&broker->dead) || !enter(broker)) return;
    tear_down(broker);
  }
}

void tkt_caller_tear_down(struct tkt_broker *broker) {
  atomic_store(&broker->freed, true);
  if (enter(broker)) {
    tear_down(broker);
    leave(broker);
  } else {
    tkt_poller_wake(&broker->poller);
  }
}

static unsigned run_turn(struct tkt_broker *broker, const struct tkt_poll_event *events, int count,
                         bool polled) {
  struct tkt_ended ended = {0};
  tkt_lock_take(&broker->lock);
  tkt_turn(broker, events, count, polled, &ended);
  tkt_lock_give(&broker->lock);
  unsigned n = ended.count;
  tkt_deliver(&ended);
  if (atomic_load(&broker->dead)) {
    /* A set the descriptor still stands in finds nothing. */
    tkt_poller_hush(&broker->poller);
    tkt_broker_work(broker);
  }
  return n;
}

static int dispatch(struct tkt_broker *broker, int64_t timeout_ns) {
  struct tkt_poll_event events[TKT_POLL_ROOM];
  unsigned ended = 0;
  /* What is asked goes out before the sleep, so that its answers can end it. */
  if (timeout_ns != 0 && !tkt_inbox_empty(&broker->inbox)) ended = run_turn(broker, NULL, 0, false);
  if (atomic_load(&broker->dead)) {
    tkt_poller_hush(&broker->poller); /* a wake of an op may have come since */
    return ended ? (int)ended : TKT_CLOSED;
  }
  atomic_store(&broker->sleeping, true);
  if (ended > 0 || !tkt_inbox_empty(&broker->inbox)) timeout_ns = 0;
  int count = tkt_poller_wait_for(&broker->poller, events, TKT_POLL_ROOM, timeout_ns);
  atomic_store(&broker->sleeping, false);
  if (count == -EINTR && ended == 0) return TKT_DRIVE_INTERRUPTED;
  if (count < 0) count = 0;
  return (int)(ended + run_turn(broker, events, count, true));
}

int tkt_dispatch(struct tkt_broker *broker, int64_t timeout_ns) {
  if (broker->mode != TKT_IO_CALLER || !enter(broker)) return TKT_DRIVE_STATE;
  int rc = dispatch(broker, timeout_ns);
  leave(broker);
  return rc;
}

int tkt_flush(struct tkt_broker *broker) {
  if (broker->mode != TKT_IO_CALLER || !enter(broker)) return TKT_DRIVE_STATE;
  if (!tkt_inbox_empty(&broker->inbox)) run_turn(broker, NULL, 0, false);
  leave(broker);
  return 0;
}
