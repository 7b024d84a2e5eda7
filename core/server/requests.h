/* From frame to action. */
#ifndef TKT_SERVER_REQUESTS_H
#define TKT_SERVER_REQUESTS_H

#include "server/state.h"

/* Applies one whole message of the peer, or the fault its bytes ended in. */
void tkt_request_apply(struct tkt_server *server, struct tkt_peer *peer, const struct tkt_msg *msg);
void tkt_request_fault(struct tkt_server *server, struct tkt_peer *peer, enum tkt_decode fault);

#endif
