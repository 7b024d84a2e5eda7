/* Looks into a client engine for what its interface does not tell: the leader hint. */
#ifndef TKT_SIM_PEEK_H
#define TKT_SIM_PEEK_H

#include <stdbool.h>

struct tkt_client;
struct tkt_session;

/* The address it takes for the leader's, -1: none. */
int peek_hint(const struct tkt_client *client);
/* The address has a session that can take a single key now. */
bool peek_can_take(const struct tkt_client *client, unsigned address);

/* It is the one that its address is asked through, not one that closes. */
bool peek_in_place(const struct tkt_session *session);

/* Planted faults. */
void peek_hurry_dials(struct tkt_client *client);
void peek_forget_closings(struct tkt_client *client);

#endif
