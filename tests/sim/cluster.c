#include "cluster.h"

#include "ledger.h"
#include "network.h"
#include "server_host.h"
#include "wire/proof.h"

#include <string.h>

static const char foreign[] = "10.9.9.9:99";
/* How long a node reads on after its own end of stream. */
#define LINGER (1 * TKT_S)
#define SECRET "sesame"

const uint8_t sim_cluster_identity[32] = {"the simulated cluster, 32 bytes"};

const char *sim_cluster_address(unsigned wire, unsigned node) {
  static const char *const texts[2][SIM_NODES] = {
      {"10.0.0.1:5225", "10.0.0.2:5225", "10.0.0.3:5225", "10.0.0.4:5225", "10.0.0.5:5225"},
      {"10.0.0.1:5325", "10.0.0.2:5325", "10.0.0.3:5325", "10.0.0.4:5325", "10.0.0.5:5325"}};
  return texts[wire - 2][node];
}

static int64_t local(const struct sim *sim) {
  return sim_local(sim, &sim->server.clock);
}

static unsigned some_node(struct sim *sim) {
  return (unsigned)sim_below(sim, sim->profile.nodes);
}

void sim_cluster_init(struct sim *sim) {
  struct sim_cluster *cluster = &sim->cluster;
  cluster->leader = cluster->engine_node = some_node(sim);
  cluster->word = sim_chance(sim, 1, 4) ? "hello" : "cluster";
  for (unsigned i = 0; i < SIM_NODES; i++) {
    cluster->views[i] = (int)cluster->leader;
    cluster->view_due[i] = TKT_NEVER;
  }
}

bool sim_cluster_listens(const struct sim *sim, unsigned node) {
  return sim->cluster.down_until[node] <= sim->now;
}

bool sim_cluster_leads(const struct sim *sim, unsigned node) {
  return node == sim->cluster.engine_node && sim->server.engine && !sim->server.draining;
}

/* --- what a node says --------------------------------------------------------------------------
 */

static void say(struct sim *sim, struct sim_conn *conn, const struct tkt_msg *msg) {
  const struct tkt_wire *wire = tkt_wire_of(conn->wire);
  size_t size = wire->encoded_size(msg);
  if (size == 0 || conn->front_len + size > sizeof conn->front_out) {
    if (size == 0) sim_fail(sim, "a node cannot say message %d", (int)msg->kind);
    conn->front = SIM_FRONT_ENDING; /* a slow reader */
    return;
  }
  wire->encode(msg, conn->front_out + conn->front_len);
  conn->front_len += size;
}

static struct tkt_msg message(enum tkt_msg_kind kind, uint64_t id) {
  struct tkt_msg msg;
  memset(&msg, 0, sizeof msg);
  msg.kind = kind;
  msg.id = id;
  msg.slot = TKT_SLOT_NONE;
  return msg;
}

static void name(struct sim *sim, struct sim_conn *conn, enum tkt_msg_kind kind, uint64_t id,
                 int leader) {
  struct tkt_msg msg = message(kind, id);
  msg.text = tkt_span_str(foreign);
  if (leader >= 0) {
    msg.slot = (uint8_t)leader;
    if (sim->profile.quiet || sim->calm || !sim_chance(sim, 1, 16))
      msg.text = tkt_span_str(sim_cluster_address(conn->wire, (unsigned)leader));
  }
  say(sim, conn, &msg);
}

/* What a node that does not lead believes: the leader, or -1. */
static int view_of(const struct sim *sim, const struct sim_conn *conn) {
  int view = sim->cluster.views[conn->node];
  return view == (int)conn->node ? -1 : view;
}

static void refuse(struct sim *sim, struct sim_conn *conn, uint64_t id) {
  struct tkt_msg msg = message(TKT_MSG_ERROR, id);
  bool elected = sim->cluster.leader == conn->node;
  msg.error = elected ? TKT_WIRE_ERROR_NOT_ACTIVE : TKT_WIRE_ERROR_NO_LEADER;
  say(sim, conn, &msg);
  if (conn->wire == 2) conn->front = SIM_FRONT_ENDING;
}

static void answer_as_follower(struct sim *sim, struct sim_conn *conn, uint64_t id) {
  int view = view_of(sim, conn);
  bool vague = conn->wire == 3 && !sim->calm && sim_chance(sim, 1, 8);
  if (view < 0 && !(vague && sim_chance(sim, 1, 2))) {
    refuse(sim, conn, id);
    return;
  }
  name(sim, conn, TKT_MSG_MOVED, id, vague ? -1 : view);
  if (conn->wire == 2) conn->front = SIM_FRONT_ENDING;
}

static void announce(struct sim *sim, struct sim_conn *conn, int leader) {
  if (conn->wire == 3 || leader >= 0)
    name(sim, conn, TKT_MSG_LEADER, 0, leader);
  else
    refuse(sim, conn, 0);
}

/* --- handshake ---------------------------------------------------------------------------------
 */

static void greet(struct sim *sim, struct sim_conn *conn) {
  struct tkt_msg msg = message(TKT_MSG_GREETING, 0);
  for (size_t i = 0; i < sizeof conn->nonce; i++)
    conn->nonce[i] = (uint8_t)('a' + sim_below(sim, 26));
  msg.nonce = tkt_span(conn->nonce, conn->wire == 3 ? TKT_WIRE3_NONCE_LEN : sizeof conn->nonce);
  msg.text = tkt_span_str(sim->cluster.word);
  msg.mode = TKT_WIRE_CLUSTER;
  msg.slot = (uint8_t)conn->node;
  say(sim, conn, &msg);
}

static bool proof(const struct sim_conn *conn, struct tkt_span nonce, uint8_t mode, uint8_t slot,
                  uint8_t *out, size_t *len_out) {
  const uint8_t *identity =
      mode == TKT_WIRE_CLUSTER ? sim_cluster_identity : tkt_wire3_single_identity;
  *len_out = conn->wire == 3 ? TKT_WIRE3_PROOF_LEN : TKT_WIRE2_PROOF_LEN;
  return conn->wire == 3 ? tkt_wire3_proof(tkt_span_str(SECRET), mode, identity, slot, nonce, out)
                         : tkt_wire2_proof(tkt_span_str(SECRET), nonce, (char *)out);
}

static bool proved(const struct sim_conn *conn, struct tkt_span text) {
  uint8_t right[TKT_WIRE2_PROOF_LEN];
  size_t len;
  struct tkt_span nonce =
      tkt_span(conn->nonce, conn->wire == 3 ? TKT_WIRE3_NONCE_LEN : sizeof conn->nonce);
  return proof(conn, nonce, TKT_WIRE_CLUSTER, (uint8_t)conn->node, right, &len) &&
         tkt_span_equal(tkt_span(right, len), text);
}

/* The connection comes to the engine, by a handshake of which the client sees nothing. */
static void adopt(struct sim *sim, struct sim_conn *conn) {
  struct tkt_server *engine = sim->server.engine;
  const struct tkt_wire *wire = tkt_wire_of(conn->wire);
  struct tkt_peer *peer = tkt_server_accept(engine, wire, conn, local(sim));
  if (!peer) {
    conn->front = SIM_FRONT_ENDING;
    conn->faulted = true;
    return;
  }
  struct tkt_span out = tkt_peer_output(peer);
  struct tkt_msg msg;
  size_t used = 0;
  uint8_t answer[TKT_WIRE2_PROOF_LEN + 1];
  if (wire->decode(TKT_PHASE_GREETING, out, &msg, &used) != TKT_DECODE_OK ||
      !proof(conn, msg.nonce, TKT_WIRE_SINGLE, TKT_SLOT_NONE, answer, &used))
    sim_fail(sim, "the engine does not greet");
  tkt_server_sent(engine, peer, out.len);
  if (conn->wire == 2) answer[used++] = '\n';
  tkt_server_input(engine, peer, tkt_span(answer, used), local(sim));
  tkt_server_sent(engine, peer, tkt_peer_output(peer).len);
  conn->peer = peer;
  conn->front = SIM_FRONT_ENGINE;
  conn->written_at = sim->now;
  sim_note(sim, "node %u conn %u comes to the engine", conn->node, conn->id);
}

static void take_place(struct sim *sim, struct sim_conn *conn) {
  bool leads = sim_cluster_leads(sim, conn->node);
  conn->front = SIM_FRONT_FOLLOWER;
  announce(sim, conn, leads ? (int)conn->node : view_of(sim, conn));
  if (leads && conn->front == SIM_FRONT_FOLLOWER) adopt(sim, conn);
}

static void handle_proof(struct sim *sim, struct sim_conn *conn, struct tkt_span text) {
  bool right = proved(conn, text);
  struct tkt_msg msg = message(conn->wire == 3 ? TKT_MSG_VERDICT : TKT_MSG_ERROR, 0);
  msg.accepted = right;
  msg.error = TKT_WIRE_ERROR_AUTH_FAILED;
  if (conn->wire == 3 || !right) say(sim, conn, &msg);
  conn->front_in.phase = TKT_PHASE_REQUESTS;
  if (right)
    take_place(sim, conn);
  else
    conn->front = SIM_FRONT_ENDING;
}

/* --- turns -------------------------------------------------------------------------------------
 */

static void accept_new(struct sim *sim) {
  for (unsigned i = 0; i < sim->conn_high; i++) {
    struct sim_conn *conn = &sim->conns[i];
    if (!conn->used || conn->accepted || conn->accept_at > sim->now) continue;
    conn->accepted = true;
    conn->front = SIM_FRONT_PROOF;
    greet(sim, conn);
  }
}

static void hang_up(struct sim *sim, struct sim_conn *conn) {
  ledger_session_over(sim, conn);
  conn->front = SIM_FRONT_NONE;
  sim_close(sim, conn, SIM_SERVER_SIDE);
}

static void handle(struct sim *sim, struct sim_conn *conn, struct tkt_span bytes) {
  struct tkt_msg msg;
  tkt_parser_push(&conn->front_in, bytes);
  while (conn->front == SIM_FRONT_PROOF || conn->front == SIM_FRONT_FOLLOWER) {
    if (tkt_parser_next(&conn->front_in, &msg) != TKT_DECODE_OK) return;
    if (msg.kind == TKT_MSG_PROOF)
      handle_proof(sim, conn, msg.text);
    else
      answer_as_follower(sim, conn, msg.id);
  }
  /* What came right behind the proof is for the engine. */
  struct tkt_span rest = conn->front_in.input;
  if (conn->front == SIM_FRONT_ENGINE && rest.len)
    tkt_server_input(sim->server.engine, conn->peer, rest, local(sim));
}

static void read_conn(struct sim *sim, struct sim_conn *conn) {
  uint8_t bytes[SIM_PIPE_BYTES];
  while (!sim->failed && !conn->peer && conn->used && !conn->closed[SIM_SERVER_SIDE]) {
    ssize_t n = sim_read(sim, conn, SIM_SERVER_SIDE, bytes, sizeof bytes);
    if (n == SIM_AGAIN) return;
    if (n == SIM_EOF && conn->front == SIM_FRONT_FOLLOWER) {
      conn->eof_told[SIM_SERVER_SIDE] = true;
      conn->front = SIM_FRONT_ENDING;
      return;
    }
    if (n < 0) {
      hang_up(sim, conn);
      return;
    }
    if (conn->front == SIM_FRONT_ENDING) continue;
    ledger_tap(sim, conn, SIM_TAP_RECEIVED, bytes, (size_t)n);
    handle(sim, conn, tkt_span(bytes, (size_t)n));
  }
}

bool sim_cluster_flush(struct sim *sim, struct sim_conn *conn) {
  while (conn->front_len > 0) {
    ssize_t n = sim_write(sim, conn, SIM_SERVER_SIDE, conn->front_out, conn->front_len);
    if (n == SIM_RESET) return false; /* seen when reading */
    if (n <= 0) return false;
    ledger_tap(sim, conn, SIM_TAP_REPLIED, conn->front_out, (size_t)n);
    conn->front_len -= (size_t)n;
    memmove(conn->front_out, conn->front_out + n, conn->front_len);
  }
  return true;
}

/* The engine believes to be alone; what it says of a leader is corrected where it fits. */
ssize_t sim_cluster_write(struct sim *sim, struct sim_conn *conn, struct tkt_span out) {
  uint8_t bytes[SIM_PIPE_BYTES];
  size_t len = out.len < sizeof bytes ? out.len : sizeof bytes, at = 0, used;
  memcpy(bytes, out.data, len);
  struct tkt_msg msg;
  bool whole = conn->wire == 3 && !tkt_parser_mid_frame(&conn->taps[SIM_TAP_REPLIED]);
  while (whole && tkt_wire3.decode(TKT_PHASE_REPLIES, tkt_span(bytes + at, len - at), &msg,
                                   &used) == TKT_DECODE_OK) {
    if (msg.kind == TKT_MSG_LEADER) bytes[at + used - 1] = (uint8_t)conn->node;
    at += used;
  }
  ssize_t n = sim_write(sim, conn, SIM_SERVER_SIDE, bytes, len);
  if (n > 0) ledger_tap(sim, conn, SIM_TAP_REPLIED, bytes, (size_t)n);
  return n;
}

static void end_conn(struct sim *sim, struct sim_conn *conn) {
  if (!conn->peer_shut) {
    conn->peer_shut = true;
    conn->linger_until = sim->now + LINGER;
    ledger_session_over(sim, conn);
    sim_shut(sim, conn, SIM_SERVER_SIDE);
  }
  if (conn->eof_told[SIM_SERVER_SIDE] || conn->linger_until <= sim->now) hang_up(sim, conn);
}

static bool is_scripted(const struct sim_conn *conn) {
  return conn->used && conn->front != SIM_FRONT_NONE && conn->front != SIM_FRONT_ENGINE;
}

static void refresh_views(struct sim *sim) {
  struct sim_cluster *cluster = &sim->cluster;
  for (unsigned node = 0; node < sim->profile.nodes; node++) {
    if (cluster->view_due[node] > sim->now) continue;
    cluster->view_due[node] = TKT_NEVER;
    cluster->views[node] = (int)cluster->leader;
    for (unsigned i = 0; i < sim->conn_high; i++) {
      struct sim_conn *conn = &sim->conns[i];
      if (conn->used && conn->node == node && conn->front == SIM_FRONT_FOLLOWER &&
          view_of(sim, conn) >= 0 && (sim->calm || sim_chance(sim, 3, 4)))
        announce(sim, conn, view_of(sim, conn));
    }
  }
}

void sim_cluster_turn(struct sim *sim) {
  accept_new(sim);
  refresh_views(sim);
  for (unsigned i = 0; i < sim->conn_high && !sim->failed; i++) {
    struct sim_conn *conn = &sim->conns[i];
    if (is_scripted(conn) && sim_readable_at(conn, SIM_SERVER_SIDE) <= sim->now)
      read_conn(sim, conn);
    if (!conn->used || conn->front == SIM_FRONT_NONE) continue;
    bool flushed = sim_cluster_flush(sim, conn);
    if (conn->front == SIM_FRONT_ENDING && flushed) end_conn(sim, conn);
  }
}

int64_t sim_cluster_wake(const struct sim *sim) {
  int64_t wake = TKT_NEVER;
  for (unsigned i = 0; i < sim->profile.nodes; i++)
    if (sim->cluster.view_due[i] < wake) wake = sim->cluster.view_due[i];
  for (unsigned i = 0; i < sim->conn_high; i++) {
    const struct sim_conn *conn = &sim->conns[i];
    if (!conn->used || conn->closed[SIM_SERVER_SIDE]) continue;
    int64_t at = conn->accepted ? TKT_NEVER : conn->accept_at;
    if (is_scripted(conn)) at = sim_readable_at(conn, SIM_SERVER_SIDE);
    if (conn->front == SIM_FRONT_ENDING && conn->peer_shut && conn->linger_until < at)
      at = conn->linger_until;
    if (conn->front == SIM_FRONT_ENDING && !conn->peer_shut && conn->front_len == 0) at = sim->now;
    if (conn->front_len > 0 && sim_writable(conn, SIM_SERVER_SIDE)) at = sim->now;
    if (at < wake) wake = at;
  }
  return wake;
}

/* --- leadership --------------------------------------------------------------------------------
 */

void sim_cluster_started(struct sim *sim) {
  struct sim_cluster *cluster = &sim->cluster;
  cluster->engine_node = cluster->leader;
  for (unsigned i = 0; i < sim->conn_high; i++) {
    struct sim_conn *conn = &sim->conns[i];
    if (!conn->used || conn->node != cluster->leader || conn->front != SIM_FRONT_FOLLOWER) continue;
    if (tkt_parser_mid_frame(&conn->front_in)) {
      conn->front = SIM_FRONT_ENDING; /* half a request: its rest would have no beginning */
      continue;
    }
    if (sim->calm || sim_chance(sim, 3, 4)) announce(sim, conn, (int)conn->node);
    if (conn->front == SIM_FRONT_FOLLOWER) adopt(sim, conn);
  }
}

void sim_cluster_node_dies(struct sim *sim, unsigned node, int64_t until) {
  sim->cluster.down_until[node] = until;
  for (unsigned i = 0; i < sim->conn_high; i++) {
    struct sim_conn *conn = &sim->conns[i];
    if (!conn->used || conn->node != node || conn->closed[SIM_SERVER_SIDE]) continue;
    struct tkt_peer *peer = conn->peer;
    conn->faulted = true;
    conn->peer = NULL;
    conn->front = SIM_FRONT_NONE;
    conn->accepted = true;
    conn->accept_at = TKT_NEVER;
    if (conn->connected_at > sim->now && conn->connected_at != TKT_NEVER) {
      conn->refused_at = conn->connected_at;
      conn->connected_at = TKT_NEVER;
    }
    ledger_session_over(sim, conn);
    if (peer) {
      tkt_server_gone(sim->server.engine, peer, local(sim));
      tkt_server_closed(sim->server.engine, peer, local(sim));
    }
    if (sim_chance(sim, 1, 2)) sim_reset(sim, conn);
    sim_close(sim, conn, SIM_SERVER_SIDE);
  }
}

/* It goes on as a follower; its sessions end in good order. */
static void step_down(struct sim *sim) {
  for (unsigned i = 0; i < sim->conn_high; i++) {
    struct sim_conn *conn = &sim->conns[i];
    if (!conn->used || !conn->peer || conn->peer_failed) continue;
    conn->demoted = true;
    tkt_server_eof(sim->server.engine, conn->peer, local(sim));
  }
}

/* Nodes learn of it one by one; some believe in each other meanwhile, or in nobody. */
static void confuse(struct sim *sim) {
  struct sim_cluster *cluster = &sim->cluster;
  for (unsigned node = 0; node < sim->profile.nodes; node++) {
    if (sim_chance(sim, 1, 3))
      cluster->views[node] = -1;
    else if (sim_chance(sim, 1, 2))
      cluster->views[node] = (int)some_node(sim);
    cluster->view_due[node] = sim->now + sim_between(sim, 0, 3 * TKT_S);
    sim_fault_until(sim, cluster->view_due[node]);
  }
}

void sim_cluster_elect(struct sim *sim) {
  struct sim_cluster *cluster = &sim->cluster;
  if (!sim->server.engine || sim->server.draining) return;
  unsigned old = cluster->leader, how = (unsigned)sim_below(sim, 8);
  cluster->leader = some_node(sim);
  sim_note(sim, "fault: leadership moves from node %u to node %u (%u)", old, cluster->leader, how);
  sim_fault_until(sim, sim->now);
  confuse(sim);
  if (how == 0) {
    sim_server_kill(sim);
  } else if (how == 1) {
    sim_server_drain(sim);
  } else {
    if (how < 5 || old == cluster->leader)
      sim_cluster_node_dies(sim, old, sim->now + sim_between(sim, 0, 3 * TKT_S));
    else
      step_down(sim);
    sim_cluster_started(sim);
  }
}

void sim_cluster_calm(struct sim *sim) {
  for (unsigned node = 0; node < sim->profile.nodes; node++) {
    sim->cluster.view_due[node] = sim->now;
    sim->cluster.down_until[node] = sim->now;
  }
}
