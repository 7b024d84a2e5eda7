/* Reads the bytes of a connection at four places: as written and as received, each way. */
#include "cluster.h"
#include "heap.h"
#include "ledger.h"
#include "peek.h"

#include <string.h>

#define TOKEN(t) ((unsigned long long)(t))

/* S7: some acquire under way asked for this, and the wait is what remains of its own. Only for
 * frames that were encoded in the call that writes them. */
static void check_wait(struct sim *sim, const struct sim_conn *conn, unsigned keys,
                       const struct tkt_msg *msg) {
  if (!conn->fresh) return;
  const struct sim_client *client = &sim->clients[conn->client];
  for (unsigned i = 0; i < sim->profile.actors; i++) {
    const struct sim_actor *a = &client->actors[i];
    if (!a->pending || a->state != SIM_ACQUIRING || a->keys != keys ||
        a->plan.lease_s != msg->lease_s)
      continue;
    int64_t left = a->started + a->plan.wait_s * TKT_S - conn->sent_local;
    int64_t rounded = a->plan.wait_s ? (left + TKT_S - 1) / TKT_S : 0;
    if (rounded == msg->wait_s) return;
  }
  sim_fail(sim, "c%u sends an acquire with wait %u that fits no call", conn->client, msg->wait_s);
}

/* B2: to the leader, as far as one is known and can be written to. */
static void check_addressee(struct sim *sim, const struct sim_conn *conn) {
  const struct tkt_client *engine = sim->clients[conn->client].engine;
  int hint = peek_hint(engine);
  if (conn->fresh && hint >= 0 && hint != (int)conn->node && peek_can_take(engine, (unsigned)hint))
    sim_fail(sim, "c%u sends an acquire to node %u, though node %d is known to lead", conn->client,
             conn->node, hint);
}

static bool is_legacy(const struct sim_conn *conn) {
  return conn->client >= SIM_CLIENTS;
}

static void sent_acquire(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  uint64_t name = ledger_name(conn, msg->id);
  struct sim_request *before = ledger_request(sim, name);
  if (before && is_legacy(conn)) return; /* it asks again: see received */
  unsigned keys = ledger_keys(sim, msg->keys, msg->key_count);
  if (keys == 0 || msg->set != ledger_is_set(keys) || msg->id == 0 ||
      msg->wait_s > TKT_WAIT_MAX_S || msg->lease_s < TKT_LEASE_MIN_S ||
      msg->lease_s > TKT_LEASE_MAX_S)
    sim_fail(sim, "c%u sends an acquire out of range", conn->client);
  if (keys && !is_legacy(conn)) check_wait(sim, conn, keys, msg);
  if (sim->profile.nodes) check_addressee(sim, conn);
  bool silent = sim->profile.nodes && strcmp(sim->cluster.word, "cluster") != 0;
  if (sim->profile.impostor && !is_legacy(conn) && !(silent && conn->wire == 2) &&
      conn->client == sim->profile.clients - 1)
    sim_fail(sim, "c%u sends a request though the server never accepted it", conn->client);
  if (before) sim_fail(sim, "c%u sends owner %016llx a second time", conn->client, TOKEN(msg->id));
  if (sim->failed || sim->request_count == SIM_REQUESTS) return;
  sim_note(sim, "c%u conn %u sends A k%x wait=%u lease=%u owner %04x", conn->client, conn->id, keys,
           msg->wait_s, msg->lease_s, (unsigned)(msg->id & 0xffff));
  if (!is_legacy(conn)) sim->clients[conn->client].unanswered[keys][msg->lease_s]++;
  sim->requests[sim->request_count++] = (struct sim_request){.owner = name,
                                                             .keys = keys,
                                                             .set = msg->set,
                                                             .client = conn->client,
                                                             .conn = conn->id,
                                                             .run = sim->server.run,
                                                             .wait_s = msg->wait_s,
                                                             .lease_s = msg->lease_s,
                                                             .sent_local = conn->sent_local};
}

static void sent_release(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  sim_note(sim, "c%u conn %u sends R token %llu", conn->client, conn->id, TOKEN(msg->token));
  unsigned keys = ledger_keys(sim, msg->keys, msg->key_count);
  for (unsigned i = 0; i < conn->release_count && !sim->profile.lies; i++)
    if (conn->releases[i].token == msg->token && conn->releases[i].keys == keys)
      sim_fail(sim, "c%u has two releases of token %llu in flight on conn %u", conn->client,
               TOKEN(msg->token), conn->id);
  if (conn->release_count < sizeof conn->releases / sizeof conn->releases[0]) {
    conn->releases[conn->release_count].token = msg->token;
    conn->releases[conn->release_count].id = msg->id;
    conn->releases[conn->release_count].set = msg->set;
    conn->releases[conn->release_count++].keys = keys;
  } else {
    conn->releases_lost = true;
  }
  struct sim_grant *g = ledger_grant(sim, msg->token);
  if (g && g->keys == keys) g->release_sent = true;
}

static void sent(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  if (conn->wire == 3 && msg->id <= conn->last_id)
    sim_fail(sim, "c%u sends id %llu after id %llu on conn %u", conn->client, TOKEN(msg->id),
             TOKEN(conn->last_id), conn->id);
  if (conn->wire == 3) conn->last_id = msg->id;
  conn->asked = true;
  if (msg->kind == TKT_MSG_ACQUIRE)
    sent_acquire(sim, conn, msg);
  else
    sent_release(sim, conn, msg);
}

static void received(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  /* A second asking keeps the place of the first, as long as the server still knows that one. */
  if (msg->kind != TKT_MSG_ACQUIRE) return;
  struct sim_request *r = ledger_request(sim, ledger_name(conn, msg->id));
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
  r->run = sim->server.run;
  r->received_at = sim->now;
  r->arrival = ++sim->arrivals;
}

static struct sim_request *answered(struct sim *sim, struct sim_conn *conn,
                                    const struct tkt_msg *msg, const char *what) {
  struct sim_request *r = ledger_request(sim, ledger_name(conn, msg->id));
  if (!r || !r->arrival) {
    sim_fail(sim, "server answers %s to owner %016llx, which did not ask", what, TOKEN(msg->id));
    return NULL;
  }
  if (r->conn != conn->id && !is_legacy(conn))
    sim_fail(sim, "server answers %s on another session than asked", what);
  if (conn->wire == 2 && r->keys != ledger_keys(sim, msg->keys, msg->key_count))
    sim_fail(sim, "server answers %s for another key than asked", what);
  if (r->over && !conn->eof_told[SIM_SERVER_SIDE] && !conn->demoted && !is_legacy(conn))
    sim_fail(sim, "server answers %s to owner %016llx, answered before", what, TOKEN(msg->id));
  sim_note(sim, "server conn %u replies %s k%x owner %04x token %llu", conn->id, what, r->keys,
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
  if (!g || g->run != sim->server.run || g->keys != r->keys ||
      (conn->wire == 3 && msg->set != r->set)) {
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
  bool ending = conn->eof_told[SIM_SERVER_SIDE] || sim->server.draining || conn->demoted;
  int64_t wait = r->wait_s * TKT_S, margin = 0; /* on wire 3 a little early */
  if (conn->wire == 3)
    margin = sim->server.wait_margin < wait / 2 ? sim->server.wait_margin : wait / 2;
  int64_t asked = sim_local(sim, &sim->server.clock) - (wait - margin);
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

/* Which of the releases sent on this connection it answers, -1: none. */
static int release_answered(const struct sim *sim, const struct sim_conn *conn,
                            const struct tkt_msg *msg) {
  for (unsigned i = 0; i < conn->release_count; i++) {
    if (conn->wire == 3 ? conn->releases[i].id == msg->id
                        : conn->releases[i].token == msg->token &&
                              conn->releases[i].keys == ledger_keys(sim, msg->keys, msg->key_count))
      return (int)i;
  }
  return -1;
}

static void replied_release(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  int index = release_answered(sim, conn, msg);
  if (index < 0 && conn->wire == 3) {
    if (!conn->releases_lost && !sim->profile.lies)
      sim_fail(sim, "server answers a release nobody asked for on conn %u", conn->id);
    return;
  }
  uint64_t token = conn->wire == 3 ? conn->releases[index].token : msg->token;
  unsigned keys =
      conn->wire == 3 ? conn->releases[index].keys : ledger_keys(sim, msg->keys, msg->key_count);
  struct sim_grant *g = ledger_grant(sim, token);
  bool same = g && g->run == sim->server.run && g->keys == keys;
  bool released = msg->kind == TKT_MSG_RELEASED;
  sim_note(sim, "server conn %u replies %s token %llu", conn->id, released ? "R" : "N",
           TOKEN(token));
  if (released && conn->wire == 3 && msg->set != conn->releases[index].set)
    sim_fail(sim, "server answers a release in a frame of the other kind");
  if (released && !(same && g->released && !g->expired))
    sim_fail(sim, "server says token %llu is released, which it is not", TOKEN(token));
  if (!released && same && ledger_live(sim, g))
    sim_fail(sim, "server says token %llu is not current, which it is", TOKEN(token));
}

/* M12: only where a commit or an allocation went wrong. */
static void replied_uncertain(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  if (ledger_request(sim, ledger_name(conn, msg->id)))
    answered(sim, conn, msg, "I");
  else if (release_answered(sim, conn, msg) < 0 && !conn->releases_lost)
    sim_fail(sim, "server answers I to what nobody asked on conn %u", conn->id);
  if (sim->profile.commit_fail + sim->profile.commit_unknown + sim->profile.memory == 0)
    sim_fail(sim, "server says that it cannot say, yet its storage can");
}

/* Wire 3: keys that are not those of the grant are all that our clients do wrong. */
static void replied_error(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  int index = release_answered(sim, conn, msg);
  sim_note(sim, "server conn %u replies E%d", conn->id, (int)msg->error);
  if (index < 0 && conn->releases_lost) return;
  if (index < 0 || msg->error != TKT_WIRE_ERROR_GROUP_MISMATCH) {
    sim_fail(sim, "server answers error %d to a client that did nothing wrong", (int)msg->error);
    return;
  }
  const struct sim_grant *g = ledger_grant(sim, conn->releases[index].token);
  if (!g || g->keys == conn->releases[index].keys)
    sim_fail(sim, "server refuses the keys of token %llu, which are right",
             TOKEN(conn->releases[index].token));
}

/* A node names a leader, or says that it cannot serve; on wire 3 in answer to a request. */
static void replied_as_node(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  const char *what = msg->kind == TKT_MSG_MOVED ? "M" : msg->kind == TKT_MSG_LEADER ? "L" : "E";
  if (conn->wire == 3 && msg->kind != TKT_MSG_LEADER) {
    if (ledger_request(sim, ledger_name(conn, msg->id)))
      answered(sim, conn, msg, what);
    else
      sim_note(sim, "node %u conn %u answers %s to a release", conn->node, conn->id, what);
    return;
  }
  if (conn->wire == 3)
    sim_note(sim, "node %u conn %u says L %u", conn->node, conn->id, msg->slot);
  else
    sim_note(sim, "node %u conn %u says %s %.*s", conn->node, conn->id, what, (int)msg->text.len,
             (const char *)msg->text.data);
  if (msg->kind != TKT_MSG_LEADER) ledger_session_over(sim, conn);
}

static bool of_node(const struct sim *sim, const struct tkt_msg *msg) {
  if (!sim->profile.nodes) return false;
  return msg->kind == TKT_MSG_MOVED || msg->kind == TKT_MSG_LEADER ||
         (msg->kind == TKT_MSG_ERROR && msg->error != TKT_WIRE_ERROR_GROUP_MISMATCH);
}

static void replied(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  if (of_node(sim, msg)) {
    replied_as_node(sim, conn, msg);
    return;
  }
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
  case TKT_MSG_UNCERTAIN:
    replied_uncertain(sim, conn, msg);
    break;
  case TKT_MSG_ERROR:
    if (conn->wire == 3) {
      replied_error(sim, conn, msg);
      break;
    }
    sim_note(sim, "server conn %u replies E%.*s", conn->id, (int)msg->text.len,
             (const char *)msg->text.data);
    ledger_session_over(sim, conn);
    if (sim->profile.quiet)
      sim_fail(sim, "server sends an error to a client that did nothing wrong");
    break;
  case TKT_MSG_MOVED:
    if (conn->wire == 3 && sim->server.draining && msg->slot == TKT_SLOT_NONE)
      answered(sim, conn, msg, "M");
    else
      sim_fail(sim, "a single server names another leader");
    break;
  case TKT_MSG_LEADER:
    if (conn->wire == 2 || msg->slot != TKT_SLOT_NONE)
      sim_fail(sim, "a single server names another leader");
    break;
  default:
    break;
  }
}

/* M5..M7: what the client has to make of it, see invariants_hint. */
static void note_naming(struct sim *sim, const struct sim_conn *conn, const struct tkt_msg *msg) {
  struct sim_client *client = &sim->clients[conn->client];
  bool names = msg->kind == TKT_MSG_MOVED || msg->kind == TKT_MSG_LEADER;
  if (names && conn->wire == 3) {
    client->naming = msg->slot == TKT_SLOT_NONE ? SIM_NAMED_NOBODY : SIM_NAMED_NODE;
    client->named = msg->slot;
  } else if (names) {
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
      if (!tkt_span_equal(msg->text, tkt_span_str(sim_cluster_address(2, i)))) continue;
      client->naming = SIM_NAMED_NODE;
      client->named = i;
    }
  } else if (msg->kind == TKT_MSG_ERROR && msg->error == TKT_WIRE_ERROR_NO_LEADER &&
             (conn->asked || peek_hint(client->engine) == (int)conn->node)) {
    client->naming = SIM_NAMED_NOBODY;
  }
  if (client->naming == SIM_NAMED_NODE) client->ever_named |= 1u << client->named;
}

static void delivered(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  if (sim->profile.lies) return;
  if (sim->profile.nodes) note_naming(sim, conn, msg);
  if (msg->kind == TKT_MSG_KEEPALIVE || msg->kind == TKT_MSG_LEADER) return;
  bool on_wire2 =
      msg->kind == TKT_MSG_GRANTED || msg->kind == TKT_MSG_TIMED_OUT || msg->kind == TKT_MSG_BUSY;
  struct sim_request *r =
      on_wire2 || conn->wire == 3 ? ledger_request(sim, ledger_name(conn, msg->id)) : NULL;
  if (r && !r->answered) {
    r->answered = true;
    sim->clients[r->client].unanswered[r->keys][r->lease_s]--;
  }
  if (msg->kind == TKT_MSG_GRANTED) {
    struct sim_grant *g = ledger_grant(sim, msg->token);
    if (!g || g->delivered) return;
    g->delivered = true;
    g->duty_at = sim->now;
  } else if (!r && (conn->wire == 3 || msg->kind == TKT_MSG_RELEASED ||
                    msg->kind == TKT_MSG_NOT_CURRENT)) {
    int index = release_answered(sim, conn, msg);
    if (index >= 0) conn->releases[index] = conn->releases[--conn->release_count];
  }
}

void ledger_tap(struct sim *sim, struct sim_conn *conn, enum sim_tap tap, const uint8_t *bytes,
                size_t len) {
  struct tkt_parser *parser = &conn->taps[tap];
  struct tkt_msg msg;
  enum tkt_decode result;
  heap_spare(true);
  tkt_parser_push(parser, tkt_span(bytes, len));
  while ((result = tkt_parser_next(parser, &msg)) == TKT_DECODE_OK) {
    if (msg.kind == TKT_MSG_PROOF)
      parser->phase = TKT_PHASE_REQUESTS;
    else if (msg.kind == TKT_MSG_GREETING)
      parser->phase = conn->wire == 3 ? TKT_PHASE_VERDICT : TKT_PHASE_REPLIES;
    else if (msg.kind == TKT_MSG_VERDICT)
      parser->phase = TKT_PHASE_REPLIES;
    else if (tap == SIM_TAP_SENT)
      sent(sim, conn, &msg);
    else if (tap == SIM_TAP_RECEIVED)
      received(sim, conn, &msg);
    else if (tap == SIM_TAP_REPLIED)
      replied(sim, conn, &msg);
    else
      delivered(sim, conn, &msg);
  }
  heap_spare(false);
  if (result != TKT_DECODE_MORE &&
      !(sim->profile.lies && tap != SIM_TAP_REPLIED)) /* even the wire may have been a lie */
    sim_fail(sim, "conn %u carries bytes that are no message (tap %d, code %d)", conn->id, (int)tap,
             (int)result);
}
