#include "server_host.h"

#include "cluster.h"
#include "ledger.h"
#include "lies.h"
#include "network.h"
#include "plant.h"
#include "storage.h"

#include <string.h>

static int64_t local(const struct sim *sim) {
  return sim_local(sim, &sim->server.clock);
}

static bool nonce(void *context, uint8_t *out, size_t len) {
  struct sim *sim = context;
  for (size_t i = 0; i < len; i++)
    out[i] = (uint8_t)tkt_random_u64(&sim->server.nonces);
  return true;
}

void sim_server_start(struct sim *sim) {
  struct sim_server *server = &sim->server;
  static const struct tkt_client_token token = {.label = "sim"};
  struct tkt_client_token tokens[1] = {token};
  tokens[0].secret = tkt_span_str("sesame");
  uint64_t seed[4] = {sim->options.seed, 1, 2, 3};
  tkt_random_init(&server->nonces, seed);
  sim_storage_init(sim);
  struct tkt_server_config config = {.limits = tkt_server_limits_default,
                                     .tokens = tokens,
                                     .token_count = 1,
                                     .first_token = 1,
                                     .hash_secret = {sim->options.seed, 7},
                                     .storage = &server->storage.base,
                                     .nonce = nonce,
                                     .nonce_context = sim};
  if (sim->grant_count > 0 && sim->options.plant != SIM_PLANT_TOKEN_REUSE)
    config.first_token = sim->grants[sim->grant_count - 1].token + 1 + sim_below(sim, 1000);
  if (sim->profile.small_limits) {
    config.limits.waiters_per_key = 1 + (uint32_t)sim_below(sim, 4);
    config.limits.keys = 1 + (uint32_t)sim_below(sim, SIM_KEYS);
    config.limits.waiters = 1 + (uint32_t)sim_below(sim, 8);
    config.limits.requests_per_session = 1 + (uint32_t)sim_below(sim, 4);
    config.limits.wait_margin_ns = sim_between(sim, 0, 3 * TKT_S);
    config.limits.sessions = 2 * SIM_CLIENTS + 2 + (uint32_t)sim_below(sim, 8);
  }
  server->wait_margin = config.limits.wait_margin_ns;
  server->engine = tkt_server_new(&config, local(sim));
  if (!server->engine) {
    if (!sim->profile.memory) sim_fail(sim, "the server cannot be started");
    server->up_at = sim->now + 100 * TKT_MS;
    sim_fault_until(sim, server->up_at);
    return;
  }
  server->draining = false;
  server->run++;
  server->up_at = TKT_NEVER;
  sim->settled_grants = sim->grant_count;
  for (size_t i = sim->settled_requests; i < sim->request_count; i++)
    if (sim->requests[i].arrival) sim->requests[i].over = true; /* others are still on their way */
  sim_note(sim, "server starts, run %u, first token %llu", server->run,
           (unsigned long long)config.first_token);
}

void sim_server_free(struct sim *sim) {
  if (sim->server.engine) tkt_server_free(sim->server.engine);
  sim->server.engine = NULL;
}

/* When the next engine may start: with restart_waits after every lease of this run. */
static int64_t come_back(struct sim *sim) {
  int64_t up = sim->now + sim_between(sim, 0, 3 * TKT_S);
  if (!sim->profile.restart_waits) return up;
  for (size_t i = 0; i < sim->grant_count; i++)
    if (sim->grants[i].fate != SIM_FAILED && sim->grants[i].until != TKT_NEVER &&
        sim->grants[i].until > up)
      up = sim->grants[i].until;
  return up;
}

void sim_server_kill(struct sim *sim) {
  sim_note(sim, "server killed");
  for (unsigned i = 0; i < sim->conn_high; i++) {
    struct sim_conn *conn = &sim->conns[i];
    if (!conn->used || conn->closed[SIM_SERVER_SIDE] || sim->profile.nodes) continue;
    conn->faulted = true;
    if (!conn->accepted) {
      conn->accept_at = TKT_NEVER;
      if (conn->connected_at > sim->now) conn->refused_at = conn->connected_at;
      if (conn->connected_at > sim->now) conn->connected_at = TKT_NEVER;
      conn->accepted = true;
    }
    conn->peer = NULL;
    if (sim_chance(sim, 1, 2)) sim_reset(sim, conn);
    sim_close(sim, conn, SIM_SERVER_SIDE);
  }
  sim->held.conn = NULL;
  if (sim->profile.nodes)
    sim_cluster_node_dies(sim, sim->cluster.engine_node, sim->now + sim_between(sim, 0, TKT_S));
  sim_server_free(sim);
  sim->server.up_at = come_back(sim);
  sim_fault_until(sim, sim->server.up_at);
}

void sim_server_drain(struct sim *sim) {
  if (!sim->server.engine || sim->server.draining) return;
  sim_note(sim, "server drains");
  sim->server.draining = true;
  sim->server.drain_bound = sim->now + 5 * TKT_S;
  sim_fault_until(sim, sim->now);
  tkt_server_drain(sim->server.engine, local(sim));
}

static void accept_new(struct sim *sim) {
  for (unsigned i = 0; i < sim->conn_high; i++) {
    struct sim_conn *conn = &sim->conns[i];
    if (!conn->used || conn->accepted || conn->accept_at > sim->now) continue;
    conn->accepted = true;
    conn->peer = tkt_server_accept(sim->server.engine, tkt_wire_of(conn->wire), conn, local(sim));
    if (!conn->peer) {
      sim_note(sim, "server refuses conn %u", conn->id);
      if (sim->profile.quiet) sim_fail(sim, "server refuses a connection though no limit is near");
      conn->faulted = true;
      sim_close(sim, conn, SIM_SERVER_SIDE);
    }
  }
}

static void read_conn(struct sim *sim, struct sim_conn *conn) {
  uint8_t bytes[SIM_PIPE_BYTES];
  for (int rounds = 0; rounds < 3 && !sim->failed; rounds++) {
    /* After the end of stream only a reset can still come. */
    ssize_t n =
        conn->eof_told[SIM_SERVER_SIDE]
            ? SIM_RESET
            : sim_read(sim, conn, SIM_SERVER_SIDE, bytes, 1 + (size_t)sim_below(sim, sizeof bytes));
    if (n == SIM_AGAIN) return;
    if (n == SIM_EOF) {
      sim_note(sim, "server conn %u end of stream", conn->id);
      conn->eof_told[SIM_SERVER_SIDE] = true;
      ledger_session_over(sim, conn);
      tkt_server_eof(sim->server.engine, conn->peer, local(sim));
      return;
    }
    if (n == SIM_RESET) {
      sim_note(sim, "server conn %u reset", conn->id);
      conn->peer_failed = true;
      ledger_session_over(sim, conn);
      tkt_server_gone(sim->server.engine, conn->peer, local(sim));
      return;
    }
    if (!conn->peer_shut) ledger_tap(sim, conn, SIM_TAP_RECEIVED, bytes, (size_t)n);
    if (plant_hold_back(sim, conn, bytes, (size_t)n)) return;
    tkt_server_input(sim->server.engine, conn->peer, tkt_span(bytes, (size_t)n), local(sim));
  }
}

static bool server_readable(const struct sim *sim, const struct sim_conn *conn) {
  return conn->used && conn->peer && !conn->peer_failed &&
         sim_readable_at(conn, SIM_SERVER_SIDE) <= sim->now;
}

static void read_all(struct sim *sim) {
  unsigned from = (unsigned)sim_below(sim, sim->conn_high);
  for (unsigned i = 0; i < sim->conn_high && !sim->failed; i++) {
    struct sim_conn *conn = &sim->conns[(from + i) % sim->conn_high];
    if (!server_readable(sim, conn) || plant_holds(sim, conn)) continue;
    read_conn(sim, conn);
  }
}

static void serve(struct sim *sim, struct tkt_peer *peer) {
  struct sim_conn *conn = tkt_peer_connection(peer);
  conn->write_blocked[SIM_SERVER_SIDE] = false;
  while ((tkt_peer_wants(peer) & TKT_PEER_WRITE) && !conn->peer_failed) {
    struct tkt_span out = tkt_peer_output(peer);
    if (out.len == 0) break;
    if (conn->peer_shut) sim_fail(sim, "server writes on conn %u after its end", conn->id);
    if (!sim_cluster_flush(sim, conn)) {
      conn->write_blocked[SIM_SERVER_SIDE] = true;
      break;
    }
    ssize_t n = sim->profile.nodes                ? sim_cluster_write(sim, conn, out)
                : sim->profile.lies && !sim->calm ? lies_write(sim, conn, out)
                                                  : plant_reply(sim, conn, out);
    if (n == SIM_AGAIN) {
      conn->write_blocked[SIM_SERVER_SIDE] = true;
      break;
    }
    if (n == SIM_RESET) {
      conn->peer_failed = true;
      ledger_session_over(sim, conn);
      tkt_server_gone(sim->server.engine, peer, local(sim));
      break;
    }
    if (!sim->profile.nodes) ledger_tap(sim, conn, SIM_TAP_REPLIED, out.data, (size_t)n);
    conn->written_at = sim->now;
    if (sim->failed) return;
    tkt_server_sent(sim->server.engine, peer, (size_t)n);
  }
  unsigned wants = tkt_peer_wants(peer);
  if ((wants & TKT_PEER_SHUT) && !(wants & TKT_PEER_WRITE) && !conn->peer_shut) {
    conn->peer_shut = true;
    sim_note(sim, "server shuts conn %u", conn->id);
    ledger_session_over(sim, conn);
    sim_shut(sim, conn, SIM_SERVER_SIDE);
  }
  if (wants & TKT_PEER_CLOSE) {
    sim_note(sim, "server closes conn %u", conn->id);
    ledger_session_over(sim, conn);
    conn->peer = NULL;
    sim_close(sim, conn, SIM_SERVER_SIDE);
    tkt_server_closed(sim->server.engine, peer, local(sim));
  }
}

static void serve_dirty(struct sim *sim) {
  struct tkt_peer *peer;
  unsigned rounds = 0;
  while (!sim->failed && (peer = tkt_server_next_dirty(sim->server.engine))) {
    serve(sim, peer);
    if (++rounds > 10000) sim_fail(sim, "server: sessions stay dirty for ever");
  }
}

static void serve_writable(struct sim *sim) {
  for (unsigned i = 0; i < sim->conn_high && !sim->failed; i++) {
    struct sim_conn *conn = &sim->conns[i];
    if (conn->used && conn->peer && conn->write_blocked[SIM_SERVER_SIDE] && !conn->peer_failed &&
        sim_writable(conn, SIM_SERVER_SIDE))
      serve(sim, conn->peer);
  }
}

/* An idle session gets a sign of life at least every 10 s. */
static void check_alive(struct sim *sim) {
  if (!sim->profile.quiet) return;
  for (unsigned i = 0; i < sim->conn_high; i++) {
    const struct sim_conn *conn = &sim->conns[i];
    if (conn->used && conn->peer && !conn->peer_shut && conn->written_at != TKT_NEVER &&
        sim->now > conn->written_at + 10 * TKT_S + 50 * TKT_MS)
      sim_fail(sim, "server is silent on conn %u for more than 10 s", conn->id);
  }
}

static void after_drain(struct sim *sim) {
  if (!sim->server.draining) return;
  if (tkt_server_drained(sim->server.engine)) {
    sim_note(sim, "server drained");
    if (!sim->calm) sim_server_kill(sim);
  } else if (sim->now > sim->server.drain_bound && !sim->calm) {
    sim_server_kill(sim);
  }
}

void sim_server_turn(struct sim *sim) {
  struct sim_server *server = &sim->server;
  if (sim->profile.nodes) sim_cluster_turn(sim);
  if (!server->engine) {
    if (server->up_at <= sim->now) sim_server_start(sim);
    if (!server->engine) return;
    if (sim->profile.nodes) sim_cluster_started(sim);
  }
  server->commits_this_turn = 0;
  if (!server->draining && !sim->profile.nodes) accept_new(sim);
  plant_feed_held(sim);
  read_all(sim);
  if (sim->failed) return;
  sim_pause(sim);
  sim_storage_decide(sim, local(sim));
  sim_pause(sim);
  tkt_server_turn(server->engine, local(sim));
  if (sim->failed) return;
  serve_writable(sim);
  serve_dirty(sim);
  if (sim->failed) return;
  ledger_turn_end(sim);
  check_alive(sim);
  after_drain(sim);
}

static int64_t awake(const struct sim *sim, int64_t wake) {
  int64_t until = sim->server.asleep_until;
  return wake > until || wake == TKT_NEVER ? wake : until;
}

int64_t sim_server_wake(const struct sim *sim) {
  const struct sim_server *server = &sim->server;
  int64_t wake = sim->profile.nodes ? sim_cluster_wake(sim) : TKT_NEVER;
  if (!server->engine) return awake(sim, wake < server->up_at ? wake : server->up_at);
  int64_t deadline = tkt_server_next_deadline(server->engine);
  if (deadline != TKT_NEVER && sim_world(&server->clock, deadline) < wake)
    wake = sim_world(&server->clock, deadline);
  int64_t due = sim_storage_due(sim);
  if (sim->held.conn && sim->held.until < due) due = sim->held.until;
  if (due < wake) wake = due;
  if (server->draining && server->drain_bound + 1 < wake && !sim->calm)
    wake = server->drain_bound + 1;
  for (unsigned i = 0; i < sim->conn_high; i++) {
    const struct sim_conn *conn = &sim->conns[i];
    if (!conn->used || conn->closed[SIM_SERVER_SIDE]) continue;
    int64_t at = TKT_NEVER;
    if (!conn->accepted) {
      if (!server->draining && !sim->profile.nodes) at = conn->accept_at;
    } else if (conn->peer && !conn->peer_failed) {
      if (conn->write_blocked[SIM_SERVER_SIDE] && sim_writable(conn, SIM_SERVER_SIDE))
        at = sim->now;
      else if (!plant_holds(sim, conn))
        at = sim_readable_at(conn, SIM_SERVER_SIDE);
    }
    if (at < wake) wake = at;
  }
  return awake(sim, wake);
}
