/* Batches of changes on their way to the storage.
 *
 * Changes are staged into the open batch while a turn applies requests, timers and ends of
 * sessions; the turn's end hands the batch over, and its decision brings out the replies that
 * waited for it. */
#ifndef TKT_SERVER_COMMIT_H
#define TKT_SERVER_COMMIT_H

#include "server/state.h"

/* False: out of memory. */
bool tkt_commit_init(struct tkt_server *server);
/* Drops every batch; grants that only batches knew are freed. */
void tkt_commit_free(struct tkt_server *server);

/* Puts a change of `grant` into the open batch. *entry_out (may be NULL) names it until the batch
 * is handed over. False: out of memory, nothing changed. */
bool tkt_commit_stage(struct tkt_server *server, enum tkt_change_kind kind, struct tkt_grant *grant,
                      uint8_t lease_s, size_t *entry_out);

/* Raises the lease of a staged change. */
void tkt_commit_raise(struct tkt_server *server, size_t entry, uint8_t lease_s);

/* Makes a staged change as if it had never been. */
void tkt_commit_unstage(struct tkt_server *server, size_t entry);

/* Hands the open batch over, if there is anything in it. */
void tkt_commit_emit(struct tkt_server *server);

/* True while a batch could be handed over, or is with the storage. */
bool tkt_commit_waiting(const struct tkt_server *server);
bool tkt_commit_pending(const struct tkt_server *server);

#endif
