/* What the client counts, by name. Names are never reused for another meaning. */
#include "client/engine.h"

static const char *const names[TKT_COUNT_MAX] = {
    [TKT_COUNT_ACQUIRES] = "acquires_started",
    [TKT_COUNT_GRANTED] = "acquires_granted",
    [TKT_COUNT_TIMEOUT] = "acquires_timed_out",
    [TKT_COUNT_BUSY] = "acquires_busy",
    [TKT_COUNT_CANCELLED] = "acquires_cancelled",
    [TKT_COUNT_INDETERMINATE] = "acquires_indeterminate",
    [TKT_COUNT_INSUFFICIENT_LEASE] = "acquires_insufficient_lease",
    [TKT_COUNT_NOT_CONNECTED] = "acquires_not_connected",
    [TKT_COUNT_CAPACITY] = "acquires_client_capacity",
    [TKT_COUNT_AUTH] = "acquires_auth",
    [TKT_COUNT_CLOSED] = "acquires_closed",
    [TKT_COUNT_UNSUPPORTED] = "acquires_unsupported",
    [TKT_COUNT_REFUSED] = "acquires_refused_by_server",
    [TKT_COUNT_WITHDRAWN] = "acquires_withdrawn_and_restarted",
    [TKT_COUNT_REQUESTS_MOVED] = "unsent_requests_moved",
    [TKT_COUNT_RELEASES] = "releases_started",
    [TKT_COUNT_RELEASED] = "releases_confirmed",
    [TKT_COUNT_NOT_CURRENT] = "releases_not_current",
    [TKT_COUNT_RELEASES_REFUSED] = "releases_refused_by_server",
    [TKT_COUNT_RELEASES_UNANSWERED] = "releases_unanswered",
    [TKT_COUNT_RELEASE_ATTEMPTS] = "release_attempts_sent",
    [TKT_COUNT_GRANTS_GIVEN_BACK] = "grants_given_back",
    [TKT_COUNT_GRANTS_LOST] = "grants_left_to_their_lease",
    [TKT_COUNT_DIALS] = "sessions_dialled",
    [TKT_COUNT_SESSIONS_USABLE] = "sessions_became_usable",
    [TKT_COUNT_SESSIONS_CLOSED_BY_US] = "sessions_closed_by_client",
    [TKT_COUNT_AUTH_REFUSALS] = "auth_refusals",
    [TKT_COUNT_PROTOCOL_FAULTS] = "protocol_faults",
    [TKT_COUNT_MOVED] = "moved_replies",
    [TKT_COUNT_LEADER] = "leader_notices",
    [TKT_COUNT_FOREIGN_LEADER] = "leaders_not_configured",
};

size_t tkt_client_counters(const struct tkt_client *client, struct tkt_counter *out, size_t room) {
  const struct tkt_counter gauges[] = {
      {"sessions_usable", client->usable},       {"requests_with_slot", client->slots_used},
      {"requests_without_slot", client->beyond}, {"releases_under_way", client->releasing},
      {"tickets", client->tickets.used},
  };
  size_t total = TKT_COUNT_MAX + sizeof gauges / sizeof *gauges;
  for (size_t i = 0; i < total && i < room; i++) {
    if (i < TKT_COUNT_MAX) {
      out[i].name = names[i];
      out[i].value = client->counts[i];
    } else {
      out[i] = gauges[i - TKT_COUNT_MAX];
    }
  }
  return total;
}
