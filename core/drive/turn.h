/* One turn: what the poller reported, what callers asked, timers, then one send per session, then
 * the ops that ended. */
#ifndef TKT_DRIVE_TURN_H
#define TKT_DRIVE_TURN_H

#include "drive/broker.h"
#include "drive/op.h"

/* Ops that ended in a turn, oldest first, for after the lock was given back. */
struct tkt_ended {
  struct tkt_op *first;
  struct tkt_op *last;
  unsigned count;
};

/* Runs a turn with the lock held. `events` from the poller, of `count`; with `polled` false nothing
 * was read, and so no timer fires: a process that slept finds its replies before its deadlines
 * (S4). */
void tkt_turn(struct tkt_broker *broker, const struct tkt_poll_event *events, int count,
              bool polled, struct tkt_ended *ended);

/* Closes now, with the lock held and nobody polling: what the sockets do not take is dropped, what
 * is pending ends, the broker is dead. */
void tkt_turn_end(struct tkt_broker *broker, struct tkt_ended *ended);

/* Wakes and reports, without the lock. */
void tkt_deliver(struct tkt_ended *ended);

#endif
