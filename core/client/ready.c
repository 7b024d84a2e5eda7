/* Readiness (B1), and what never can become ready: refused tokens (B5), servers that are not what
 * the list of addresses says (B3), key sets where all speak wire 2. */
#include "client/engine.h"

static unsigned count_verdicts(const struct tkt_client *c, enum tkt_verdict verdict) {
  unsigned n = 0;
  for (unsigned i = 0; i < c->address_count; i++)
    n += c->addresses[i].verdict == verdict;
  return n;
}

enum tkt_outcome tkt_ready_refusal(const struct tkt_client *c) {
  if (count_verdicts(c, TKT_VERDICT_MODE)) return TKT_UNSUPPORTED;
  if (c->usable == 0 && count_verdicts(c, TKT_VERDICT_AUTH) &&
      !count_verdicts(c, TKT_VERDICT_ACCEPTED))
    return TKT_AUTH;
  return TKT_OK;
}

/* How far the attempts under way are, the one that is furthest. */
static const char *coming_up(const struct tkt_client *c, const char **where_out) {
  static const char *const texts[] = {
      [TKT_SESSION_DIALLING] = "still connecting",
      [TKT_SESSION_GREETING] =
          "connected, but the server has not greeted (does one side alone use TLS?)",
      [TKT_SESSION_PROVING] = "connected, but the server has not accepted the token yet",
  };
  const struct tkt_session *best = NULL;
  for (unsigned i = 0; i < c->place_count; i++) {
    const struct tkt_session *s = c->places[i].session;
    if (s && s->state <= TKT_SESSION_PROVING && (!best || s->state > best->state)) best = s;
  }
  if (!best) return NULL;
  *where_out = c->addresses[best->address].text;
  return texts[best->state];
}

const char *tkt_ready_why_not(const struct tkt_client *c, const char **where_out) {
  int which = c->failed;
  for (unsigned i = 0; i < c->address_count; i++)
    if (c->addresses[i].verdict == TKT_VERDICT_MODE) which = (int)i;
  if (which < 0 || !c->addresses[which].fault) return coming_up(c, where_out);
  *where_out = c->addresses[which].text;
  return c->addresses[which].fault;
}

const char tkt_no_sets_text[] = "several keys need wire 3, and the servers speak wire 2";

bool tkt_ready_no_sets(const struct tkt_client *c) {
  if (c->wire == 2) return true;
  for (unsigned i = 0; i < c->address_count; i++)
    if (c->addresses[i].wire != 2) return false;
  return true;
}

static void end_calls(struct tkt_client *c, enum tkt_outcome outcome) {
  for (struct tkt_list *node; (node = tkt_list_first(&c->ready_calls));)
    tkt_call_finish(c, TKT_CONTAINER(node, struct tkt_call, node), outcome, NULL);
}

/* What a wait for readiness can already be told. */
static enum tkt_outcome readiness(const struct tkt_client *c) {
  enum tkt_outcome refusal = tkt_ready_refusal(c);
  if (refusal == TKT_UNSUPPORTED) return refusal;
  if (c->usable) return TKT_OK;
  if (refusal == TKT_AUTH && count_verdicts(c, TKT_VERDICT_AUTH) == c->address_count)
    return TKT_AUTH;
  return TKT_PENDING;
}

void tkt_ready_announce(struct tkt_client *c) {
  enum tkt_outcome outcome = readiness(c);
  if (outcome != TKT_PENDING) end_calls(c, outcome);
}

void tkt_ready_reconsider(struct tkt_client *c) {
  enum tkt_outcome refusal = tkt_ready_refusal(c);
  if (refusal != TKT_OK) tkt_line_end_all(c, refusal, NULL);
  if (tkt_ready_no_sets(c)) tkt_line_end_sets(c, TKT_UNSUPPORTED, tkt_no_sets_text);
  tkt_ready_announce(c);
}

void tkt_client_wait_ready(struct tkt_client *client, struct tkt_call *call, int64_t timeout_ns,
                           int64_t now) {
  tkt_set_now(client, now);
  tkt_call_begin(call, TKT_CALL_WAIT_READY);
  enum tkt_outcome outcome = client->closing ? TKT_CLOSED : readiness(client);
  int64_t asked_at = tkt_call_asked_at(client, call);
  bool for_ever = timeout_ns >= TKT_NEVER - asked_at;
  if (outcome == TKT_PENDING && !for_ever && asked_at + timeout_ns <= client->now)
    outcome = TKT_TIMEOUT;
  if (outcome != TKT_PENDING) {
    tkt_call_finish(client, call, outcome, NULL);
    return;
  }
  tkt_list_append(&client->ready_calls, &call->node);
  tkt_wheel_set(&client->wheel, &call->timer, for_ever ? TKT_NEVER : asked_at + timeout_ns);
}

void tkt_ready_timer(struct tkt_client *c, struct tkt_call *call) {
  tkt_call_finish(c, call, TKT_TIMEOUT, NULL);
}
