/* The end of a hold: exact release, expiry, take-back. */
#ifndef TKT_SERVER_RELEASE_H
#define TKT_SERVER_RELEASE_H

#include "server/state.h"

void tkt_releases_init(struct tkt_server *server);
void tkt_releases_free(struct tkt_server *server);

/* A session names the exact token and keys of what it wants released; `locks` are the records of
 * the keys, NULL for those that have none. */
void tkt_release_request(struct tkt_server *server, struct tkt_peer *peer,
                         struct tkt_lock *const *locks, const struct tkt_msg *msg);

/* Starts the removal of a held grant without anybody to answer: `lapsed` for an expiry, else a
 * take-back. False: out of memory. */
bool tkt_release_begin(struct tkt_server *server, struct tkt_grant *grant, bool lapsed);

void tkt_release_decided(struct tkt_server *server, struct tkt_grant *grant,
                         enum tkt_commit result);

/* The session is gone: nobody to answer any more. */
void tkt_release_drop(struct tkt_server *server, struct tkt_release *release);

#endif
