/* Waiters: an acquire from its arrival to the first byte of its reply. */
#ifndef TKT_SERVER_WAITER_H
#define TKT_SERVER_WAITER_H

#include "server/state.h"

void tkt_waiters_init(struct tkt_server *server);
void tkt_waiters_free(struct tkt_server *server);

/* A NEW waiter of this session, in none of its lists. NULL: out of memory. */
struct tkt_waiter *tkt_waiter_new(struct tkt_server *server, struct tkt_peer *peer, uint64_t id,
                                  uint8_t lease_s, size_t key_count, bool set);
void tkt_waiter_discard(struct tkt_server *server, struct tkt_waiter *waiter);

/* Moves the waiter to the state's list of its session, and to `peer` where that is another one.
 * Keeps the sessions' counts of requests. */
void tkt_waiter_enlist(struct tkt_server *server, struct tkt_waiter *waiter, struct tkt_peer *peer,
                       enum tkt_waiter_state state);

/* Sits down in every queue (of the locks its seats name), for `wait_s`. False: out of memory. */
bool tkt_waiter_queue(struct tkt_server *server, struct tkt_waiter *waiter, uint8_t wait_s);

/* Stands up from every queue; their keys are looked at. */
void tkt_waiter_leave(struct tkt_server *server, struct tkt_waiter *waiter);

/* The queued waiter of this owner and key, or NULL. */
struct tkt_waiter *tkt_waiter_of_owner(const struct tkt_server *server, const struct tkt_lock *lock,
                                       uint64_t owner);

/* The same acquisition came again: the waiter keeps its places, with a new session, wait, lease. */
void tkt_waiter_move(struct tkt_server *server, struct tkt_waiter *waiter, struct tkt_peer *peer,
                     uint8_t wait_s, uint8_t lease_s);

/* The end of the wait. */
void tkt_waiter_time_out(struct tkt_server *server, struct tkt_waiter *waiter);

/* Its session ends: goes back to the open session it came from, where there is one; else stands up
 * and is told so where `tell`: T, or on wire 3 by a server that goes
 * away M. */
void tkt_waiter_withdraw(struct tkt_server *server, struct tkt_waiter *waiter, bool tell);

/* Grants, in order of arrival, whatever the keys changed in this turn allow. */
void tkt_waiters_advance(struct tkt_server *server);

#endif
