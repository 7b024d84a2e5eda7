/* The keys that are held or queued for, and their queues. */
#ifndef TKT_SERVER_LOCK_TABLE_H
#define TKT_SERVER_LOCK_TABLE_H

#include "server/state.h"

void tkt_locks_init(struct tkt_server *server);
/* Frees the table; no waiter and no grant is left on any key. */
void tkt_locks_free(struct tkt_server *server);

uint64_t tkt_lock_hash(const struct tkt_server *server, struct tkt_span key);

/* NULL: neither held nor queued for. */
struct tkt_lock *tkt_lock_find(const struct tkt_server *server, struct tkt_span key, uint64_t hash);

/* A new record of a key that has none. NULL: out of memory. Ends in tkt_lock_look sooner or later.
 */
struct tkt_lock *tkt_lock_new(struct tkt_server *server, struct tkt_span key, uint64_t hash);

static inline struct tkt_span tkt_lock_text(const struct tkt_lock *lock) {
  return tkt_span(lock->text, lock->len);
}

/* Something about the key changed: where it is free, its queue is looked at before the turn ends; a
 * record that serves nobody any more is freed (now, or then). */
void tkt_lock_look(struct tkt_server *server, struct tkt_lock *lock);

/* Next key to look at, NULL when none is left. */
struct tkt_lock *tkt_lock_next_ready(struct tkt_server *server);

/* True where a grant decided now may take the key: nobody occupies it, or everybody who does leaves
 * with the batch that is being collected. */
bool tkt_lock_is_free(const struct tkt_lock *lock);

/* The queue. A seat belongs to its waiter. */
void tkt_queue_append(struct tkt_lock *lock, struct tkt_seat *seat);
void tkt_queue_remove(struct tkt_seat *seat);

/* The list of grants that occupy the key. */
struct tkt_hold *tkt_hold_of(struct tkt_grant *grant, const struct tkt_lock *lock);
void tkt_lock_occupy(struct tkt_lock *lock, struct tkt_grant *grant);
void tkt_lock_vacate(struct tkt_lock *lock, struct tkt_grant *grant);

#endif
