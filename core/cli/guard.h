/* Watches a command while a ticket is held: passes signals on, and ends the command before the
 * ticket stops being valid. */
#ifndef TKT_CLI_GUARD_H
#define TKT_CLI_GUARD_H

#include "cli/child.h"
#include "cli/client.h"

/* SIGKILL comes this long before the ticket ends: the kernel needs a moment to end a process, and
 * so does the wrapper to be scheduled. */
#define TKT_GUARD_KILL_LEAD_NS (200 * TICKETING_MILLISECOND)

struct tkt_guard {
  struct tkt_cli_client *client;
  struct tkt_child *child;
  int64_t term_at; /* instants on ticketing_now_ns's clock */
  int64_t kill_at;
};

/* Blocks until the child has ended, driving the broker meanwhile. *lost_out: it was told to end
 * because of the ticket. 0, or an errno where no timer is to be had: the child was killed then. */
int tkt_guard_watch(const struct tkt_guard *guard, bool *lost_out);

#endif
