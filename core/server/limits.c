#include "server/server.h"

#include "base/time.h"

/* Each default is far above honest use of one machine and bounds what a mistake can cost: a held
 * key takes about 150 bytes and the key, a waiter as much, a session under 1 KiB. */
const struct tkt_server_limits tkt_server_limits_default = {
    .keys = 4000000,
    .waiters = 1000000,
    .waiters_per_key = 100000,
    .sessions = 50000,
    .unauthenticated = 10000,
    /* The most a client of ours can have in flight. */
    .requests_per_session = 16384,
    .output_bytes = 1024 * 1024,
    .handshake_ns = 10 * TKT_S,
    /* A round trip between continents is less than half of it. */
    .wait_margin_ns = 50 * TKT_MS,
};
