/* What the engine refused, in the log: its counters are looked at from time to time, so that a
 * flood of refusals makes a line in ten seconds, not a line each. */
#ifndef TKT_DAEMON_REPORT_H
#define TKT_DAEMON_REPORT_H

#include "base/time.h"
#include "daemon/log.h"
#include "server/server.h"

#define TKT_REPORT_INTERVAL_NS (10 * TKT_S)

struct tkt_report {
  int64_t due;
  struct tkt_server_stats seen;
  int64_t handshakes_due;
  uint64_t handshakes_seen;
};

void tkt_report_init(struct tkt_report *report, int64_t now);

/* Logs refusals that are new since the last line, at most once an interval. */
void tkt_report_refusals(struct tkt_report *report, const struct tkt_server *server,
                         struct tkt_log *log, int64_t now);

/* The same for TLS handshakes: `failed` so far, the last one for `reason`. */
void tkt_report_handshakes(struct tkt_report *report, uint64_t failed, const char *reason,
                           struct tkt_log *log, int64_t now);

/* When handshakes that failed are to be told; TKT_NEVER: they are. */
int64_t tkt_report_wake(const struct tkt_report *report, uint64_t failed);

/* Logs what the server did in its life. */
void tkt_report_life(const struct tkt_server *server, struct tkt_log *log);

#endif
