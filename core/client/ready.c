/* Readiness (B1), and the two reasons for which nothing can become ready: refused tokens (B5) and
 * a list of servers that do not belong together (B3). */
#include "client/engine.h"

static const char refused_text[] = "the token was refused";
static const char mode_text[] = "one of the configured addresses is a server that works alone; "
                                "several addresses must be one cluster";

static unsigned count_verdicts(const struct tkt_client *c, enum tkt_verdict verdict) {
  unsigned n = 0;
  for (unsigned i = 0; i < c->address_count; i++)
    n += c->addresses[i].verdict == verdict;
  return n;
}

enum tkt_outcome tkt_ready_refusal(const struct tkt_client *c, const char **reason_out) {
  if (c->address_count > 1 && count_verdicts(c, TKT_VERDICT_MODE)) {
    *reason_out = mode_text;
    return TKT_UNSUPPORTED;
  }
  if (c->usable == 0 && count_verdicts(c, TKT_VERDICT_AUTH) &&
      !count_verdicts(c, TKT_VERDICT_ACCEPTED)) {
    *reason_out = refused_text;
    return TKT_AUTH;
  }
  return TKT_OK;
}

static void end_calls(struct tkt_client *c, enum tkt_outcome outcome, const char *reason) {
  for (struct tkt_list *node; (node = tkt_list_first(&c->ready_calls));)
    tkt_call_finish(c, TKT_CONTAINER(node, struct tkt_call, node), outcome, reason);
}

/* What a wait for readiness can already be told. */
static enum tkt_outcome readiness(const struct tkt_client *c, const char **reason_out) {
  enum tkt_outcome refusal = tkt_ready_refusal(c, reason_out);
  if (refusal == TKT_UNSUPPORTED) return refusal;
  if (c->usable) return TKT_OK;
  if (refusal == TKT_AUTH && count_verdicts(c, TKT_VERDICT_AUTH) == c->address_count)
    return TKT_AUTH;
  return TKT_PENDING;
}

void tkt_ready_announce(struct tkt_client *c) {
  const char *reason = NULL;
  enum tkt_outcome outcome = readiness(c, &reason);
  if (outcome != TKT_PENDING) end_calls(c, outcome, outcome == TKT_OK ? NULL : reason);
}

void tkt_ready_reconsider(struct tkt_client *c) {
  const char *reason = NULL;
  enum tkt_outcome refusal = tkt_ready_refusal(c, &reason);
  if (refusal != TKT_OK) tkt_line_end_all(c, refusal, reason);
  tkt_ready_announce(c);
}

void tkt_client_wait_ready(struct tkt_client *client, struct tkt_call *call, int64_t timeout_ns,
                           int64_t now) {
  tkt_set_now(client, now);
  tkt_call_begin(call, TKT_CALL_WAIT_READY);
  const char *reason = NULL;
  enum tkt_outcome outcome = client->closing ? TKT_CLOSED : readiness(client, &reason);
  if (outcome != TKT_PENDING) {
    tkt_call_finish(client, call, outcome, reason);
    return;
  }
  if (timeout_ns <= 0) {
    tkt_call_finish(client, call, TKT_TIMEOUT, NULL);
    return;
  }
  tkt_list_append(&client->ready_calls, &call->node);
  bool for_ever = timeout_ns >= TKT_NEVER - client->now;
  tkt_wheel_set(&client->wheel, &call->timer, for_ever ? TKT_NEVER : client->now + timeout_ns);
}

void tkt_ready_timer(struct tkt_client *c, struct tkt_call *call) {
  tkt_call_finish(c, call, TKT_TIMEOUT, NULL);
}
