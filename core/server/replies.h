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

/* That `grant` is released, to one that asked for it. */
bool tkt_say_released(struct tkt_server *server, const struct tkt_release *release,
                      const struct tkt_grant *grant);

/* NOT_CURRENT, to the release `request`. */
bool tkt_say_not_current(struct tkt_server *server, struct tkt_peer *peer,
                         const struct tkt_msg *request);

/* Wire 3: a kind of answer that carries the id alone, or M without a slot. */
bool tkt_say_to(struct tkt_server *server, struct tkt_peer *peer, enum tkt_msg_kind kind,
                uint64_t id);

/* Wire 3: the request `id` cannot be granted as it stands. */
bool tkt_say_error_to(struct tkt_server *server, struct tkt_peer *peer, uint64_t id,
                      enum tkt_wire_error error);

/* The last word of a session: E on wire 2; on wire 3, which has none but the refusal of a proof,
 * that or nothing. False as above. */
bool tkt_say_last(struct tkt_server *server, struct tkt_peer *peer, enum tkt_wire_error error);

/* What tells a peer that the session is alive and nothing else. */
bool tkt_say_alive(struct tkt_server *server, struct tkt_peer *peer);

/* Wire 3: the proof is accepted. */
bool tkt_say_accepted(struct tkt_server *server, struct tkt_peer *peer);

/* The output ran empty: its memory goes to the sessions that need some. */
void tkt_output_return(struct tkt_server *server, struct tkt_peer *peer);
void tkt_outputs_free(struct tkt_server *server);

#endif
