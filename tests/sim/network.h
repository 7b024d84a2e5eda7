/* Byte streams between client hosts and the server host. Within one direction bytes keep their
 * order and are cut at random; connections overtake each other. */
#ifndef TKT_SIM_NETWORK_H
#define TKT_SIM_NETWORK_H

#include "sim.h"

#include <sys/types.h>

enum { SIM_AGAIN = -1, SIM_EOF = -2, SIM_RESET = -3 };

/* A connection attempt of this client, to a server (a node of a cluster) of that wire; NULL where
 * the table is full (treat as refused). */
struct sim_conn *sim_connect(struct sim *sim, unsigned client, unsigned wire, unsigned node);

/* Bytes taken by the stream of `side`, SIM_AGAIN or SIM_RESET. */
ssize_t sim_write(struct sim *sim, struct sim_conn *conn, enum sim_side side, const uint8_t *from,
                  size_t len);
/* Bytes that arrived at `side`, SIM_AGAIN, SIM_EOF, SIM_RESET. */
ssize_t sim_read(struct sim *sim, struct sim_conn *conn, enum sim_side side, uint8_t *into,
                 size_t room);
void sim_shut(struct sim *sim, struct sim_conn *conn, enum sim_side side);
/* Closes this side; the connection's record ends with its second side. */
void sim_close(struct sim *sim, struct sim_conn *conn, enum sim_side side);

/* When `side` has something to read (bytes, end, reset) or room to write; TKT_NEVER. */
int64_t sim_readable_at(const struct sim_conn *conn, enum sim_side side);
/* Bytes of replies that arrived at `side` and were not read. */
bool sim_unread(const struct sim *sim, const struct sim_conn *conn, enum sim_side side);
bool sim_writable(const struct sim_conn *conn, enum sim_side side);

/* Faults: both directions die; one direction stops for a while. */
void sim_reset(struct sim *sim, struct sim_conn *conn);
void sim_stall(struct sim *sim, struct sim_conn *conn, enum sim_side side, int64_t until);

/* Ends every record (end of a run). */
void sim_network_free(struct sim *sim);

#endif
