/* What to lock and for how long, as `acquire` and `run` take it from their arguments, and the wait
 * for it. */
#ifndef TKT_CLI_LOCK_REQUEST_H
#define TKT_CLI_LOCK_REQUEST_H

#include "cli/client.h"

enum { TKT_LOCK_KEYS_MAX = 16 };

#define TKT_LOCK_WAIT_DEFAULT (10 * TICKETING_SECOND)
#define TKT_LOCK_WAIT_MAX (255 * TICKETING_SECOND)
#define TKT_LOCK_LEASE_DEFAULT (60 * TICKETING_SECOND)
#define TKT_LOCK_LEASE_MAX (250 * TICKETING_SECOND)

struct tkt_lock_request {
  struct tkt_cli_client_options client;
  ticketing_key keys[TKT_LOCK_KEYS_MAX];
  size_t key_count;
  int64_t wait_ns, lease_ns, budget_ns;
};

/* Defaults, no key. */
void tkt_lock_request_init(struct tkt_lock_request *request);

/* --wait, --lease, --budget, --addr, --token-file, as a child of a command's argp; its input is the
 * request. Keys are the command's own arguments. */
extern const struct argp tkt_lock_argp;

/* Adds KEY; refuses through argp_error where there are too many. */
void tkt_lock_request_add_key(struct tkt_lock_request *request, const char *key,
                              struct argp_state *state);

/* Lease as it goes out, whole seconds. */
int64_t tkt_lock_lease_rounded(const struct tkt_lock_request *request);

/* Acquires. TKT_EXIT_OK and *ticket_out, or an exit status with its sentence printed; 128+n after
 * signal n. */
int tkt_lock_obtain(struct tkt_cli_client *client, const struct tkt_lock_request *request,
                    ticketing_ticket **ticket_out);

#endif
