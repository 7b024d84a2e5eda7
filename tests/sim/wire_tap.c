/* Reads the bytes of a connection at four places: as written and as received, each way. */
#include "ledger.h"

#define TOKEN(t) ((unsigned long long)(t))

/* S7: some acquire under way asked for this, and the wait is what remains of its own. Only for
 * frames that were encoded in the call that writes them. */
static void check_wait(struct sim *sim, const struct sim_conn *conn, unsigned key,
                       const struct tkt_msg *msg) {
  if (!conn->fresh) return;
  const struct sim_client *client = &sim->clients[conn->client];
  for (unsigned i = 0; i < sim->profile.actors; i++) {
    const struct sim_actor *a = &client->actors[i];
    if (!a->pending || a->state != SIM_ACQUIRING || a->key != key ||
        a->plan.lease_s != msg->lease_s)
      continue;
    int64_t left = a->started + a->plan.wait_s * TKT_S - conn->sent_local;
    int64_t rounded = a->plan.wait_s ? (left + TKT_S - 1) / TKT_S : 0;
    if (rounded == msg->wait_s) return;
  }
  sim_fail(sim, "c%u sends an acquire with wait %u that fits no call", conn->client, msg->wait_s);
}

static bool is_legacy(const struct sim_conn *conn) {
  return conn->client >= SIM_CLIENTS;
}

static void sent_acquire(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  struct sim_request *before = ledger_request(sim, msg->id);
  if (before && is_legacy(conn)) return; /* it asks again: see received */
  int key = ledger_key(sim, msg->keys[0]);
  if (key < 0 || msg->id == 0 || msg->wait_s > TKT_WAIT_MAX_S || msg->lease_s < TKT_LEASE_MIN_S ||
      msg->lease_s > TKT_LEASE_MAX_S)
    sim_fail(sim, "c%u sends an acquire out of range", conn->client);
  if (key >= 0 && !is_legacy(conn)) check_wait(sim, conn, (unsigned)key, msg);
  if (sim->profile.impostor && !is_legacy(conn) && conn->client == sim->profile.clients - 1)
    sim_fail(sim, "c%u sends a request though the server never accepted it", conn->client);
  if (before) sim_fail(sim, "c%u sends owner %016llx a second time", conn->client, TOKEN(msg->id));
  if (sim->failed || sim->request_count == SIM_REQUESTS) return;
  sim_note(sim, "c%u conn %u sends A k%d wait=%u lease=%u owner %04x", conn->client, conn->id, key,
           msg->wait_s, msg->lease_s, (unsigned)(msg->id & 0xffff));
  if (!is_legacy(conn)) sim->clients[conn->client].unanswered[key][msg->lease_s]++;
  sim->requests[sim->request_count++] = (struct sim_request){.owner = msg->id,
                                                             .key = (unsigned)key,
                                                             .client = conn->client,
                                                             .conn = conn->id,
                                                             .run = sim->server.run,
                                                             .wait_s = msg->wait_s,
                                                             .lease_s = msg->lease_s,
                                                             .sent_local = conn->sent_local};
}

static void sent_release(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  sim_note(sim, "c%u conn %u sends R token %llu", conn->client, conn->id, TOKEN(msg->token));
  int key = ledger_key(sim, msg->keys[0]);
  for (unsigned i = 0; i < conn->release_count && !sim->profile.lies; i++)
    if (conn->releases[i].token == msg->token && conn->releases[i].key == key)
      sim_fail(sim, "c%u has two releases of token %llu in flight on conn %u", conn->client,
               TOKEN(msg->token), conn->id);
  if (conn->release_count < sizeof conn->releases / sizeof conn->releases[0]) {
    conn->releases[conn->release_count].token = msg->token;
    conn->releases[conn->release_count++].key = key;
  }
  struct sim_grant *g = ledger_grant(sim, msg->token);
  if (g) g->release_sent = true;
}

static void received(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  /* A second asking keeps the place of the first, as long as the server still knows that one. */
  if (msg->kind != TKT_MSG_ACQUIRE) return;
  struct sim_request *r = ledger_request(sim, msg->id);
  if (!r) {
    sim_fail(sim, "the network delivered an acquire nobody sent on conn %u", conn->id);
    return;
  }
  if (is_legacy(conn)) {
    r->conn = conn->id;
    r->run = sim->server.run;
    r->wait_s = msg->wait_s;
    r->lease_s = msg->lease_s;
    r->received_at = sim->now;
    if (r->arrival && !r->over) return;
    r->over = false;
  }
  r->received_at = sim->now;
  r->arrival = ++sim->arrivals;
}

static struct sim_request *answered(struct sim *sim, struct sim_conn *conn,
                                    const struct tkt_msg *msg, const char *what) {
  struct sim_request *r = ledger_request(sim, msg->id);
  if (!r || !r->arrival) {
    sim_fail(sim, "server answers %s to owner %016llx, which did not ask", what, TOKEN(msg->id));
    return NULL;
  }
  if (r->conn != conn->id && !is_legacy(conn))
    sim_fail(sim, "server answers %s on another session than asked", what);
  if ((int)r->key != ledger_key(sim, msg->keys[0]))
    sim_fail(sim, "server answers %s for another key than asked", what);
  if (r->over && !conn->eof_told[SIM_SERVER_SIDE] && !is_legacy(conn))
    sim_fail(sim, "server answers %s to owner %016llx, answered before", what, TOKEN(msg->id));
  sim_note(sim, "server conn %u replies %s k%u owner %04x token %llu", conn->id, what, r->key,
           (unsigned)(msg->id & 0xffff), TOKEN(msg->kind == TKT_MSG_GRANTED ? msg->token : 0));
  r->over = true;
  return r;
}

static void replied_granted(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  struct sim_request *r = answered(sim, conn, msg, "A");
  if (!r) return;
  if (conn->must_end && r->received_at > conn->must_end_at)
    sim_fail(sim, "server serves conn %u on, though it withdrew its waiters", conn->id);
  r->granted = true;
  struct sim_grant *g = ledger_grant(sim, msg->token);
  if (!g || g->run != sim->server.run || g->key != r->key) {
    sim_fail(sim, "server tells token %llu, which it did not grant", TOKEN(msg->token));
    return;
  }
  if (g->fate != SIM_DONE)
    sim_fail(sim, "server tells token %llu before its commit (fate %d)", TOKEN(msg->token),
             (int)g->fate);
  if (g->told && !is_legacy(conn))
    sim_fail(sim, "server tells token %llu twice", TOKEN(msg->token));
  if (g->lease_ns < r->lease_s * TKT_S && !is_legacy(conn))
    sim_fail(sim, "server keeps token %llu shorter than asked", TOKEN(msg->token));
  if (g->expected_owner && g->expected_owner != r->owner)
    sim_fail(sim, "token %llu went to another waiter than the first", TOKEN(msg->token));
  g->told = true;
  g->owner = r->owner;
  g->client = (int)r->client;
}

static void replied_timeout(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  struct sim_request *r = answered(sim, conn, msg, "T");
  if (!r) return;
  bool ending = conn->eof_told[SIM_SERVER_SIDE] || sim->server.draining;
  int64_t asked = sim_local(sim, &sim->server.clock) - r->wait_s * TKT_S;
  bool sure = !is_legacy(conn) || sim->profile.quiet; /* else an older T may be under way */
  if (!ending && sure && sim_world(&sim->server.clock, asked) + 2 * TKT_US < r->received_at) {
    /* Only where a commit or an allocation went wrong and the session has to end for it. */
    if (!conn->must_end) conn->must_end_at = sim->now;
    conn->must_end = true;
    if (sim->profile.commit_fail + sim->profile.commit_unknown + sim->profile.memory == 0)
      sim_fail(sim, "server says T to owner %016llx before its wait is over", TOKEN(msg->id));
  }
  for (size_t i = sim->settled_grants; i < sim->grant_count; i++)
    if (sim->grants[i].expected_owner == r->owner && sim->grants[i].fate == SIM_UNDECIDED &&
        sim->grants[i].run == sim->server.run)
      sim_fail(sim, "server says T to a request whose grant is in commit");
}

static void replied_release(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  struct sim_grant *g = ledger_grant(sim, msg->token);
  bool same = g && g->run == sim->server.run && (int)g->key == ledger_key(sim, msg->keys[0]);
  bool released = msg->kind == TKT_MSG_RELEASED;
  sim_note(sim, "server conn %u replies %s token %llu", conn->id, released ? "R" : "N",
           TOKEN(msg->token));
  if (released && !(same && g->released && !g->expired))
    sim_fail(sim, "server says token %llu is released, which it is not", TOKEN(msg->token));
  if (!released && same && ledger_live(sim, g))
    sim_fail(sim, "server says token %llu is not current, which it is", TOKEN(msg->token));
}

static void replied(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  switch (msg->kind) {
  case TKT_MSG_GRANTED:
    replied_granted(sim, conn, msg);
    break;
  case TKT_MSG_TIMED_OUT:
    replied_timeout(sim, conn, msg);
    break;
  case TKT_MSG_BUSY:
    answered(sim, conn, msg, "B");
    if (sim->profile.quiet) sim_fail(sim, "server says B though no limit was near");
    break;
  case TKT_MSG_RELEASED:
  case TKT_MSG_NOT_CURRENT:
    replied_release(sim, conn, msg);
    break;
  case TKT_MSG_ERROR:
    sim_note(sim, "server conn %u replies E%.*s", conn->id, (int)msg->text.len,
             (const char *)msg->text.data);
    ledger_session_over(sim, conn);
    if (sim->profile.quiet)
      sim_fail(sim, "server sends an error to a client that did nothing wrong");
    break;
  case TKT_MSG_MOVED:
  case TKT_MSG_LEADER:
    sim_fail(sim, "a single server names another leader");
    break;
  default:
    break;
  }
}

static void delivered(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  if (sim->profile.lies) return;
  if (msg->kind == TKT_MSG_GRANTED || msg->kind == TKT_MSG_TIMED_OUT || msg->kind == TKT_MSG_BUSY) {
    struct sim_request *r = ledger_request(sim, msg->id);
    if (r && !r->answered) {
      r->answered = true;
      sim->clients[r->client].unanswered[r->key][r->lease_s]--;
    }
  }
  if (msg->kind == TKT_MSG_GRANTED) {
    struct sim_grant *g = ledger_grant(sim, msg->token);
    if (!g || g->delivered) return;
    g->delivered = true;
    g->duty_at = sim->now;
  } else if (msg->kind == TKT_MSG_RELEASED || msg->kind == TKT_MSG_NOT_CURRENT) {
    for (unsigned i = 0; i < conn->release_count; i++)
      if (conn->releases[i].token == msg->token &&
          conn->releases[i].key == ledger_key(sim, msg->keys[0]))
        conn->releases[i--] = conn->releases[--conn->release_count];
  }
}

void ledger_tap(struct sim *sim, struct sim_conn *conn, enum sim_tap tap, const uint8_t *bytes,
                size_t len) {
  struct tkt_parser *parser = &conn->taps[tap];
  struct tkt_msg msg;
  enum tkt_decode result;
  tkt_parser_push(parser, tkt_span(bytes, len));
  while ((result = tkt_parser_next(parser, &msg)) == TKT_DECODE_OK) {
    if (msg.kind == TKT_MSG_PROOF)
      parser->phase = TKT_PHASE_REQUESTS;
    else if (msg.kind == TKT_MSG_GREETING)
      parser->phase = TKT_PHASE_REPLIES;
    else if (tap == SIM_TAP_SENT && msg.kind == TKT_MSG_ACQUIRE)
      sent_acquire(sim, conn, &msg);
    else if (tap == SIM_TAP_SENT)
      sent_release(sim, conn, &msg);
    else if (tap == SIM_TAP_RECEIVED)
      received(sim, conn, &msg);
    else if (tap == SIM_TAP_REPLIED)
      replied(sim, conn, &msg);
    else
      delivered(sim, conn, &msg);
  }
  if (result != TKT_DECODE_MORE && !(sim->profile.lies && tap == SIM_TAP_DELIVERED))
    sim_fail(sim, "conn %u carries bytes that are no message (tap %d, code %d)", conn->id, (int)tap,
             (int)result);
}
