#include "client_host.h"

#include "actor.h"
#include "cluster.h"
#include "invariants.h"
#include "ledger.h"
#include "network.h"
#include "peek.h"
#include "plant.h"

#include <string.h>

static int64_t local(const struct sim *sim, const struct sim_client *client) {
  return sim_local(sim, &client->clock);
}

static bool is_impostor(const struct sim *sim, const struct sim_client *client) {
  return sim->profile.impostor && client->index == sim->profile.clients - 1;
}

void sim_client_open(struct sim *sim, struct sim_client *client) {
  client->wire = sim->profile.framed && sim_chance(sim, 2, 3) ? 3 : 2;
  unsigned nodes = sim->profile.nodes;
  const char *addresses[SIM_NODES];
  for (unsigned i = 0; i < SIM_NODES; i++)
    addresses[i] = sim_cluster_address(client->wire, i);
  struct tkt_client_config config = {
      .addresses = addresses,
      .address_count = nodes ? nodes : 1,
      .identity = sim_cluster_identity,
      .token = tkt_span_str(is_impostor(sim, client) ? "mellon" : "sesame"),
      .max_in_flight = TKT_IN_FLIGHT_DEFAULT,
      .max_unsent = TKT_UNSENT_DEFAULT,
      .wire = (uint8_t)(sim_chance(sim, 1, 4) ? client->wire : 0),
      .cancel_keeps_session = client->cancel_keeps};
  if (sim->profile.small_limits) {
    config.max_in_flight = 1 + (uint32_t)sim_below(sim, 4);
    config.max_unsent = (uint32_t)sim_below(sim, 4);
  }
  for (int i = 0; i < 4; i++)
    config.seed[i] = tkt_random_u64(&sim->random);
  client->engine = tkt_client_new(&config, local(sim, client));
  if (!client->engine) {
    if (!sim->profile.memory) sim_fail(sim, "c%u cannot be opened", client->index);
    client->reopen_at = sim->now + 100 * TKT_MS;
    return;
  }
  client->closing = false;
  client->opened++;
  client->ever_named = 0;
  memset(client->dials, 0, sizeof client->dials);
  memset(client->closings, 0, sizeof client->closings);
  client->reopen_at = TKT_NEVER;
  client->kick_at = sim->now;
  sim_note(sim, "c%u opens, wire %u", client->index, client->wire);
}

void sim_client_close(struct sim *sim, struct sim_client *client, int64_t reopen_at) {
  if (!client->engine || client->closing) return;
  sim_note(sim, "c%u closes", client->index);
  client->closing = true;
  client->reopen_at = reopen_at;
  memset(&client->close_call, 0, sizeof client->close_call);
  client->kick_at = sim->now;
  client->close_bound = local(sim, client) + 5 * TKT_S;
  tkt_client_close(client->engine, &client->close_call, local(sim, client));
}

void sim_client_free(struct sim *sim, struct sim_client *client) {
  if (!client->engine) return;
  for (unsigned i = 0; i < sim->conn_high; i++) {
    struct sim_conn *conn = &sim->conns[i];
    if (!conn->used || conn->client != client->index || conn->closed[SIM_CLIENT_SIDE]) continue;
    ledger_client_left(sim, conn);
    sim_close(sim, conn, SIM_CLIENT_SIDE);
  }
  if (sim->options.plant != SIM_PLANT_LEAK) tkt_client_free(client->engine);
  client->engine = NULL;
  for (size_t i = sim->settled_grants; i < sim->grant_count; i++)
    if (sim->grants[i].client == (int)client->index) sim->grants[i].duty_at = TKT_NEVER;
}

/* Bytes handed over may have left the process: the engine must offer the same again (S1). */
static void check_stable(struct sim *sim, const struct sim_conn *conn, struct tkt_span out) {
  if (out.len < conn->handed || memcmp(out.data, conn->handed_copy, conn->handed) != 0)
    sim_fail(sim, "c%u takes back bytes it handed over on conn %u", conn->client, conn->id);
}

static void write_out(struct sim *sim, struct sim_client *client, struct sim_conn *conn) {
  conn->write_blocked[SIM_CLIENT_SIDE] = false;
  while (tkt_session_wants(conn->session) & TKT_WANT_WRITE) {
    int64_t now = local(sim, client);
    struct tkt_span out = tkt_session_output(conn->session, now);
    if (out.len == 0) return;
    if (out.len > TKT_CHUNK) sim_fail(sim, "c%u encodes %zu bytes ahead", client->index, out.len);
    if (conn->shut_done) sim_fail(sim, "c%u writes on a session it shut", client->index);
    check_stable(sim, conn, out);
    if (sim->failed) return;
    conn->sent_local = now;
    sim_pause(sim);
    conn->fresh = conn->handed == 0 && !tkt_parser_mid_frame(&conn->taps[SIM_TAP_SENT]);
    if (conn->whole) {
      tkt_session_handed(conn->session, out.len);
      memcpy(conn->handed_copy, out.data, out.len);
      conn->handed = out.len;
    }
    ssize_t n = plant_request(sim, conn, out);
    if (n == SIM_RESET) {
      conn->failed = true;
      tkt_session_failed(conn->session, "connection reset", local(sim, client));
      return;
    }
    if (n <= 0) {
      conn->write_blocked[SIM_CLIENT_SIDE] = true;
      return;
    }
    ledger_tap(sim, conn, SIM_TAP_SENT, out.data, (size_t)n);
    if (!conn->whole) tkt_session_handed(conn->session, (size_t)n);
    if (conn->whole) {
      conn->handed -= (size_t)n;
      memmove(conn->handed_copy, conn->handed_copy + n, conn->handed);
    }
    sim_pause(sim);
    tkt_session_written(conn->session, (size_t)n, local(sim, client));
  }
}

/* The connection ended, by a failure where there is a reason for one. */
static void tell_end(struct sim *sim, struct sim_client *client, struct sim_conn *conn,
                     const char *reason) {
  bool in_place = peek_in_place(conn->session);
  if (reason) {
    conn->failed = true;
    tkt_session_failed(conn->session, reason, local(sim, client));
  } else {
    conn->eof_told[SIM_CLIENT_SIDE] = true;
    tkt_session_eof(conn->session, local(sim, client));
  }
  /* B2 */
  if (sim->profile.nodes && in_place && peek_hint(client->engine) == (int)conn->node)
    sim_fail(sim, "c%u follows node %u on, though its session went down", client->index,
             conn->node);
}

/* Reads at most `most` bytes; false when nothing more comes now. */
static void read_in(struct sim *sim, struct sim_client *client, struct sim_conn *conn,
                    size_t most) {
  uint8_t bytes[SIM_PIPE_BYTES];
  size_t total = 0;
  while (total < most && !conn->eof_told[SIM_CLIENT_SIDE] && !conn->failed) {
    size_t room = 1 + sim_below(sim, sizeof bytes);
    ssize_t n = sim_read(sim, conn, SIM_CLIENT_SIDE, bytes, room);
    if (n == SIM_AGAIN) return;
    if (n == SIM_EOF) {
      sim_note(sim, "c%u conn %u end of stream", client->index, conn->id);
      tell_end(sim, client, conn, NULL);
      return;
    }
    if (n == SIM_RESET) {
      sim_note(sim, "c%u conn %u reset", client->index, conn->id);
      tell_end(sim, client, conn, "connection reset");
      return;
    }
    total += (size_t)n;
    client->naming = SIM_NAMED_NOTHING;
    ledger_tap(sim, conn, SIM_TAP_DELIVERED, bytes, (size_t)n);
    tkt_session_input(conn->session, tkt_span(bytes, (size_t)n), local(sim, client));
    if (sim->profile.nodes) invariants_hint(sim, client);
  }
}

static bool awaits_reply(const struct sim *sim, const struct sim_conn *conn) {
  if (conn->release_count > 0) return true;
  for (size_t i = sim->settled_requests; i < sim->request_count; i++)
    if (sim->requests[i].conn == conn->id && !sim->requests[i].answered) return true;
  return false;
}

static void count_event(const struct sim *sim, struct sim_rate *rate) {
  rate->at[rate->count++ % SIM_RATE_KEPT] = sim->now;
}

static void close_session(struct sim *sim, struct sim_client *client, struct tkt_session *session,
                          struct sim_conn *conn, unsigned wants) {
  if (conn) {
    if (!conn->failed && !conn->eof_told[SIM_CLIENT_SIDE] && !conn->shut_wanted)
      count_event(sim, &client->closings[conn->node]);
    if ((wants & TKT_WANT_LAST_READ) && conn->connected)
      read_in(sim, client, conn, TKT_READ_BEFORE_CLOSE);
    sim_note(sim, "c%u closes conn %u", client->index, conn->id);
    if (conn->connected && !conn->failed && !conn->eof_told[SIM_CLIENT_SIDE] &&
        !sim->profile.lies && awaits_reply(sim, conn) && sim_unread(sim, conn, SIM_CLIENT_SIDE))
      sim_fail(sim, "c%u closes conn %u with a reply unread (S4)", client->index, conn->id);
    conn->session = NULL;
    ledger_client_left(sim, conn);
    sim_close(sim, conn, SIM_CLIENT_SIDE);
  }
  tkt_session_closed(session, local(sim, client));
}

static unsigned events_since(const struct sim_rate *rate, int64_t since) {
  unsigned count = 0;
  for (unsigned i = 0; i < SIM_RATE_KEPT; i++)
    if (rate->at[i] != 0 && rate->at[i] > since) count++;
  return count;
}

/* B4: pauses grow, save after sessions that the client itself closed; and at most so many sessions
 * of one address. M10: nothing but the configured addresses. */
static void check_dial(struct sim *sim, struct sim_client *client,
                       const struct tkt_session *session) {
  size_t node = tkt_session_address(session);
  unsigned places = sim->profile.nodes ? 1 : 2, open = 0;
  if (node >= (sim->profile.nodes ? sim->profile.nodes : 1) ||
      strcmp(tkt_session_address_text(session),
             sim_cluster_address(client->wire, (unsigned)node)) != 0)
    sim_fail(sim, "c%u dials %s, which is not configured", client->index,
             tkt_session_address_text(session));
  if (sim->failed) return;
  count_event(sim, &client->dials[node]);
  unsigned dials = events_since(&client->dials[node], sim->now - TKT_S);
  unsigned excused = events_since(&client->closings[node], sim->now - 1100 * TKT_MS);
  if (dials > places * SIM_BACKED_OFF + (excused < 11 ? excused : 11))
    sim_fail(sim, "c%u dials address %zu %u times in a second (%u of its own will)", client->index,
             node, dials, excused);
  for (unsigned i = 0; i < sim->conn_high; i++)
    if (sim->conns[i].used && sim->conns[i].client == client->index && sim->conns[i].session &&
        sim->conns[i].node == node)
      open++;
  if (open + 1 > places + SIM_CLOSING)
    sim_fail(sim, "c%u has %u sessions of address %zu open", client->index, open + 1, node);
}

static void serve(struct sim *sim, struct sim_client *client, struct tkt_session *session) {
  struct sim_conn *conn = tkt_session_stream(session);
  unsigned wants = tkt_session_wants(session);
  if ((wants & TKT_WANT_CONNECT) && !conn && !(wants & TKT_WANT_CLOSE)) {
    check_dial(sim, client, session);
    if (sim->failed) return;
    conn = sim_connect(sim, client->index, client->wire, (unsigned)tkt_session_address(session));
    if (!conn) {
      tkt_session_failed(session, "no descriptor left", local(sim, client));
      sim_fault_until(sim, sim->now);
    } else {
      conn->session = session;
      tkt_session_set_stream(session, conn);
    }
  }
  if (conn && conn->connected && !conn->failed && (wants & TKT_WANT_WRITE))
    write_out(sim, client, conn);
  if (sim->failed) return;
  wants = tkt_session_wants(session);
  if (conn && (wants & TKT_WANT_SHUT) && !conn->shut_wanted) {
    conn->shut_wanted = true;
    count_event(sim, &client->closings[conn->node]);
  }
  if (conn && conn->shut_wanted && !conn->shut_done && !(wants & TKT_WANT_WRITE) &&
      conn->connected) {
    sim_note(sim, "c%u half-closes conn %u", client->index, conn->id);
    if (sim->profile.hurry && !sim->calm && sim_chance(sim, 2, 3)) {
      sim_fault_until(sim, sim->now + 3 * TKT_S);
      sim_stall(sim, conn, SIM_SERVER_SIDE, sim->now + 3 * TKT_S);
    }
    conn->shut_done = true;
    sim_shut(sim, conn, SIM_CLIENT_SIDE);
  }
  if (wants & TKT_WANT_CLOSE) close_session(sim, client, session, conn, wants);
}

static void serve_dirty(struct sim *sim, struct sim_client *client) {
  struct tkt_session *session;
  unsigned rounds = 0;
  while (!sim->failed && (session = tkt_client_next_dirty(client->engine))) {
    serve(sim, client, session);
    if (++rounds > 10000) sim_fail(sim, "c%u: sessions stay dirty for ever", client->index);
  }
}

static void poll_conn(struct sim *sim, struct sim_client *client, struct sim_conn *conn) {
  if (conn->failed) return;
  if (!conn->connected) {
    if (conn->connected_at <= sim->now) {
      conn->connected = true;
      tkt_session_connected(conn->session, local(sim, client));
    } else if (conn->refused_at <= sim->now) {
      tell_end(sim, client, conn, "connection refused");
    }
    if (!conn->connected) return;
  }
  if (conn->eof_told[SIM_CLIENT_SIDE]) {
    /* Only a reset can still come. */
    if (sim_readable_at(conn, SIM_CLIENT_SIDE) > sim->now) return;
    conn->failed = true;
    tkt_session_failed(conn->session, "connection reset", local(sim, client));
    return;
  }
  if (sim_readable_at(conn, SIM_CLIENT_SIDE) <= sim->now)
    read_in(sim, client, conn, 1 + sim_below(sim, 2 * SIM_PIPE_BYTES));
  if (conn->session && conn->write_blocked[SIM_CLIENT_SIDE] && !conn->failed &&
      sim_writable(conn, SIM_CLIENT_SIDE)) {
    write_out(sim, client, conn);
    if (!conn->failed) serve(sim, client, conn->session);
  }
}

static void poll_all(struct sim *sim, struct sim_client *client) {
  unsigned from = (unsigned)sim_below(sim, sim->conn_high);
  for (unsigned i = 0; i < sim->conn_high && !sim->failed; i++) {
    struct sim_conn *conn = &sim->conns[(from + i) % sim->conn_high];
    if (conn->used && conn->client == client->index && conn->session) poll_conn(sim, client, conn);
  }
}

static void collect_done(struct sim *sim, struct sim_client *client) {
  struct tkt_call *call;
  while (!sim->failed && (call = tkt_client_next_done(client->engine))) {
    if (call == &client->close_call) {
      if (call->outcome != TKT_OK)
        sim_fail(sim, "c%u: close ends as %d", client->index, call->outcome);
      sim_note(sim, "c%u close ended", client->index);
    } else {
      sim_actor_done(sim, client, call);
    }
  }
}

static void end_of_life(struct sim *sim, struct sim_client *client) {
  if (!client->closing || !tkt_client_finished(client->engine)) return;
  if (client->close_call.outcome == TKT_PENDING) {
    sim_fail(sim, "c%u is finished, its close still pends", client->index);
    return;
  }
  sim_actors_closed(sim, client);
  sim_client_free(sim, client);
  sim_note(sim, "c%u freed", client->index);
}

void sim_client_turn(struct sim *sim, struct sim_client *client) {
  if (!client->engine) {
    sim_client_open(sim, client);
    if (!client->engine) return;
  }
  client->kick_at = TKT_NEVER;
  /* Whoever starts a call may also send it, without reading or running timers. */
  bool flush_only = sim_chance(sim, 1, 6);
  if (flush_only) {
    sim_actors_act(sim, client);
    serve_dirty(sim, client);
    collect_done(sim, client);
    if (!sim->failed) end_of_life(sim, client);
    return;
  }
  poll_all(sim, client);
  if (sim->failed) return;
  sim_pause(sim);
  sim_actors_act(sim, client);
  sim_pause(sim);
  int64_t ticked_at = local(sim, client);
  if (sim->options.plant != SIM_PLANT_STUCK_TIMERS) tkt_client_tick(client->engine, ticked_at);
  client->ticked_at = ticked_at;
  serve_dirty(sim, client);
  collect_done(sim, client);
  if (sim->failed) return;
  invariants_after_tick(sim, client);
  if (sim->options.plant == SIM_PLANT_HASTY_DIALS) peek_hurry_dials(client->engine);
  if (sim->options.plant == SIM_PLANT_CLOSINGS) peek_forget_closings(client->engine);
  end_of_life(sim, client);
}

int64_t sim_client_wake(const struct sim *sim, const struct sim_client *client) {
  int64_t wake = TKT_NEVER;
  if (client->engine) {
    int64_t deadline = tkt_client_next_deadline(client->engine);
    if (deadline != TKT_NEVER) {
      wake = sim_world(&client->clock, deadline);
      if (sim->options.plant == SIM_PLANT_LATE_WAKE) wake += 3 * TKT_S;
    }
    if (sim->options.plant == SIM_PLANT_STUCK_TIMERS && wake <= sim->now) wake = TKT_NEVER;
    for (unsigned i = 0; i < sim->conn_high; i++) {
      const struct sim_conn *conn = &sim->conns[i];
      if (!conn->used || conn->client != client->index || !conn->session || conn->failed) continue;
      int64_t at;
      if (!conn->connected)
        at = conn->connected_at < conn->refused_at ? conn->connected_at : conn->refused_at;
      else if (conn->write_blocked[SIM_CLIENT_SIDE] && sim_writable(conn, SIM_CLIENT_SIDE))
        at = sim->now;
      else
        at = sim_readable_at(conn, SIM_CLIENT_SIDE);
      if (at < wake) wake = at;
    }
    int64_t due = sim_actors_due(sim, client);
    if (due < wake) wake = due;
    if (client->kick_at < wake) wake = client->kick_at;
  } else {
    wake = client->reopen_at;
  }
  if (wake == TKT_NEVER) return wake;
  return wake > client->asleep_until ? wake : client->asleep_until;
}
