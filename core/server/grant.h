/* Grants: from the decision to the last trace.
 *
 *   COMMITTING --done--> HELD --release, expiry or take-back, done--> gone
 *        |                 ^------------------ failed, unknown ----------'
 *        '--failed--> VOID (memory only)
 *
 * Whatever is in commit occupies its keys. */
#ifndef TKT_SERVER_GRANT_H
#define TKT_SERVER_GRANT_H

#include "server/state.h"

/* What the server keeps for a promised lease, ns: 1/500 more, since clocks drift. */
static inline int64_t tkt_lease_kept(uint8_t lease_s) {
  int64_t promised = lease_s * TKT_S;
  return promised + promised / 500;
}

void tkt_grants_init(struct tkt_server *server);
void tkt_grants_free(struct tkt_server *server);

/* The grant of several keys that has this token, or NULL. */
struct tkt_grant *tkt_grant_of_set(const struct tkt_server *server, uint64_t token);

/* Decides a grant for `waiter`, which is not queued any more and whose keys (of its seats) are
 * free. False: out of memory or tokens, nothing changed. */
bool tkt_grant_begin(struct tkt_server *server, struct tkt_waiter *waiter);

/* Undoes a grant whose change is still staged; its keys are looked at again, its waiter is NEW. */
void tkt_grant_undo(struct tkt_server *server, struct tkt_waiter *waiter);

/* The grant on `lock` that an acquire of `owner` on wire 2 is part of, or NULL. */
struct tkt_grant *tkt_grant_of_owner(const struct tkt_lock *lock, uint64_t owner);

/* The same acquisition came again (same-owner rule): `peer` is the one to be answered from now on,
 * and the lease runs at least the newly asked length from now. */
void tkt_grant_renew(struct tkt_server *server, struct tkt_grant *grant, struct tkt_peer *peer,
                     uint8_t lease_s);

/* A waiter's grant or extension was decided. */
void tkt_grant_decided(struct tkt_server *server, struct tkt_grant *grant,
                       enum tkt_change_kind kind, uint8_t lease_s, enum tkt_commit result);

/* The timer of the lease has run out. */
void tkt_grant_lapse(struct tkt_server *server, struct tkt_grant *grant);

/* A waiter points to the grant no more; where nobody can know its token, it is taken back. */
void tkt_grant_forget(struct tkt_server *server, struct tkt_waiter *waiter);

/* Off its keys, which are looked at, and freed as soon as no change names it. */
void tkt_grant_leave(struct tkt_server *server, struct tkt_grant *grant);

/* Frees the memory of a VOID grant that no change names. */
void tkt_grant_settle_void(struct tkt_server *server, struct tkt_grant *grant);

/* Sets the lease timer after a removal or an extension that was in commit. */
void tkt_grant_arm(struct tkt_server *server, struct tkt_grant *grant);

#endif
