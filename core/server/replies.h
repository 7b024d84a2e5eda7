/* What the server says, straight into the session's output, and the memory of that output. */
#ifndef TKT_SERVER_REPLIES_H
#define TKT_SERVER_REPLIES_H

#include "server/state.h"

/* The functions below return false where nothing was written: no session, a session beyond
 * talking to, or an output that is full or finds no memory, which ends the session at the next safe
 * point. The peer may be NULL. */
bool tkt_say(struct tkt_server *server, struct tkt_peer *peer, const struct tkt_msg *msg);

/* TIMED_OUT or BUSY to an acquire of these keys. */
bool tkt_say_refusal(struct tkt_server *server, struct tkt_peer *peer, enum tkt_msg_kind kind,
                     uint64_t id, const struct tkt_span *keys, size_t key_count);

/* The same, to a waiter that sits in its queues or is in commit (seats still name the keys). */
bool tkt_say_waiter(struct tkt_server *server, struct tkt_waiter *waiter, enum tkt_msg_kind kind);

/* The A that answers `waiter` with its grant. */
bool tkt_say_granted(struct tkt_server *server, struct tkt_waiter *waiter);

/* RELEASED or NOT_CURRENT. */
bool tkt_say_release(struct tkt_server *server, struct tkt_peer *peer, enum tkt_msg_kind kind,
                     uint64_t token, const struct tkt_span *keys, size_t key_count);

bool tkt_say_error(struct tkt_server *server, struct tkt_peer *peer, enum tkt_wire_error error);

/* The output ran empty: its memory goes to the sessions that need some. */
void tkt_output_return(struct tkt_server *server, struct tkt_peer *peer);
void tkt_outputs_free(struct tkt_server *server);

#endif
