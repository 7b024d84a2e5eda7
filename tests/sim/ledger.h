/* What really happened, read off the storage and the wire: grants, requests, replies. The rules
 * that bind the server alone are checked here, as events arrive. */
#ifndef TKT_SIM_LEDGER_H
#define TKT_SIM_LEDGER_H

#include "sim.h"

/* The server's storage: changes emitted, and how their batch ended. */
void ledger_emitted(struct sim *sim, uint64_t batch, const struct tkt_change *changes,
                    size_t count);
void ledger_decided(struct sim *sim, const struct sim_batch *batch, enum tkt_commit result);

/* The wire: bytes as they passed one of the four taps of a connection. */
void ledger_tap(struct sim *sim, struct sim_conn *conn, enum sim_tap tap, const uint8_t *bytes,
                size_t len);
/* The server knows that this connection ended: its requests can no longer be granted. */
void ledger_session_over(struct sim *sim, struct sim_conn *conn);

/* The client closed this connection: no reply can reach it any more. */
void ledger_client_left(struct sim *sim, const struct sim_conn *conn);

/* After a server turn: fairness of the grants it emitted, and its holders against the ledger. */
void ledger_turn_end(struct sim *sim);

struct sim_grant *ledger_grant(struct sim *sim, uint64_t token);
struct sim_request *ledger_request(struct sim *sim, uint64_t owner);
/* What stands for a request in the records: its owner, or on wire 3 its connection and id. */
uint64_t ledger_name(const struct sim_conn *conn, uint64_t id);
/* Index of a key of this run, or -1. */
int ledger_key(const struct sim *sim, struct tkt_span key);
/* The set of them as a mask; 0: some key is not of this run, or comes twice. */
unsigned ledger_keys(const struct sim *sim, const struct tkt_span *keys, size_t count);
/* Several keys. */
static inline bool ledger_is_set(unsigned keys) {
  return (keys & (keys - 1)) != 0;
}
/* The server must still hold it: stored, not released, its lease not over. */
bool ledger_live(const struct sim *sim, const struct sim_grant *grant);

#endif
