#include "daemon/report.h"

#include <stddef.h>
#include <string.h>

struct counter {
  const char *name;
  size_t offset;
};

#define COUNTER(field)                                                                             \
  { #field, offsetof(struct tkt_server_stats, field) }

static const struct counter refusals[] = {
    COUNTER(sessions_refused),     COUNTER(auth_failed),   COUNTER(protocol_errors),
    COUNTER(slow_readers),         COUNTER(busy_keys),     COUNTER(busy_waiters),
    COUNTER(busy_waiters_per_key), COUNTER(busy_requests), COUNTER(busy_memory),
    COUNTER(busy_storage),
};

static const struct counter life[] = {
    COUNTER(sessions_accepted), COUNTER(grants),           COUNTER(releases),
    COUNTER(not_current),       COUNTER(timeouts),         COUNTER(expiries),
    COUNTER(withdrawn),         COUNTER(taken_back),       COUNTER(keys_held),
    COUNTER(auth_failed),       COUNTER(sessions_refused),
};

enum { REFUSALS = sizeof refusals / sizeof *refusals, LIFE = sizeof life / sizeof *life };

static uint64_t value_of(const struct tkt_server_stats *stats, const struct counter *counter) {
  uint64_t value;
  memcpy(&value, (const char *)stats + counter->offset, sizeof value);
  return value;
}

void tkt_report_init(struct tkt_report *report, int64_t now) {
  memset(report, 0, sizeof *report);
  report->due = report->handshakes_due = now;
}

void tkt_report_refusals(struct tkt_report *report, const struct tkt_server *server,
                         struct tkt_log *log, int64_t now) {
  if (now < report->due) return;
  struct tkt_server_stats stats = tkt_server_stats(server);
  struct tkt_log_field fields[REFUSALS];
  size_t count = 0;
  for (size_t i = 0; i < REFUSALS; i++) {
    uint64_t fresh = value_of(&stats, &refusals[i]) - value_of(&report->seen, &refusals[i]);
    if (fresh) fields[count++] = TKT_FIELD_NUMBER(refusals[i].name, fresh);
  }
  /* After a line: the next interval. Without one the first refusal is told at once. */
  if (count == 0) return;
  tkt_log_write(log, TKT_LOG_WARNING, "refused since the last such line", fields, count);
  report->seen = stats;
  report->due = now + TKT_REPORT_INTERVAL_NS;
}

void tkt_report_handshakes(struct tkt_report *report, uint64_t failed, const char *reason,
                           struct tkt_log *log, int64_t now) {
  if (failed == report->handshakes_seen || now < report->handshakes_due) return;
  tkt_log_fields(log, TKT_LOG_WARNING, "TLS handshakes failed since the last such line",
                 TKT_FIELD_NUMBER("count", failed - report->handshakes_seen),
                 TKT_FIELD_TEXT("last", reason));
  report->handshakes_seen = failed;
  report->handshakes_due = now + TKT_REPORT_INTERVAL_NS;
}

int64_t tkt_report_wake(const struct tkt_report *report, uint64_t failed) {
  return failed == report->handshakes_seen ? TKT_NEVER : report->handshakes_due;
}

void tkt_report_life(const struct tkt_server *server, struct tkt_log *log) {
  struct tkt_server_stats stats = tkt_server_stats(server);
  struct tkt_log_field fields[LIFE];
  for (size_t i = 0; i < LIFE; i++)
    fields[i] = TKT_FIELD_NUMBER(life[i].name, value_of(&stats, &life[i]));
  tkt_log_write(log, TKT_LOG_INFO, "stopped", fields, LIFE);
}
