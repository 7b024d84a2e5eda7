#include "plant.h"

#include "ledger.h"
#include "network.h"

#include <string.h>

/* Rewriting needs whole frames, and the quiet network of planted runs gives them: everything
 * written is taken at once. Returns what goes on to the network. */
static size_t rewrite(struct sim *sim, struct sim_conn *conn, struct tkt_span in,
                      enum tkt_phase phase, struct tkt_buf *out) {
  size_t at = 0;
  while (at < in.len) {
    struct tkt_msg msg;
    size_t used = 0;
    struct tkt_span rest = tkt_span(in.data + at, in.len - at);
    if (tkt_wire2.decode(phase, rest, &msg, &used) != TKT_DECODE_OK) used = in.len - at;
    bool swallow = false, change = false;
    switch (sim->options.plant) {
    case SIM_PLANT_DOUBLE_GRANT:
      change = msg.kind == TKT_MSG_TIMED_OUT && sim->grant_count > 0;
      if (change) {
        msg.kind = TKT_MSG_GRANTED;
        msg.token = sim->grants[sim->grant_count - 1].token;
      }
      break;
    case SIM_PLANT_FALSE_RELEASED:
      change = msg.kind == TKT_MSG_NOT_CURRENT;
      if (change) msg.kind = TKT_MSG_RELEASED;
      break;
    case SIM_PLANT_LOST_GRANT:
      swallow = msg.kind == TKT_MSG_GRANTED && sim_chance(sim, 1, 4);
      break;
    case SIM_PLANT_SWALLOWED_RELEASE:
      swallow = msg.kind == TKT_MSG_RELEASE && sim_chance(sim, 1, 4);
      if (swallow) {
        struct tkt_buf reply = {0};
        msg.kind = TKT_MSG_RELEASED;
        if (tkt_wire_append(&tkt_wire2, &msg, &reply, SIM_PIPE_BYTES))
          sim_write(sim, conn, SIM_SERVER_SIDE, reply.data, tkt_buf_len(&reply));
        tkt_buf_release(&reply);
      }
      break;
    default:
      break;
    }
    if (change) {
      tkt_wire_append(&tkt_wire2, &msg, out, SIM_PIPE_BYTES);
    } else if (!swallow) {
      uint8_t *into = tkt_buf_reserve(out, used, 4 * SIM_PIPE_BYTES);
      if (into) {
        memcpy(into, rest.data, used);
        tkt_buf_commit(out, used);
      }
    }
    at += used;
  }
  return tkt_buf_len(out);
}

static ssize_t write_changed(struct sim *sim, struct sim_conn *conn, enum sim_side side,
                             struct tkt_span out, enum tkt_phase phase) {
  struct tkt_buf changed = {0};
  rewrite(sim, conn, out, phase, &changed);
  struct tkt_span now = tkt_buf_span(&changed);
  ssize_t n = now.len ? sim_write(sim, conn, side, now.data, now.len) : 0;
  tkt_buf_release(&changed);
  if (n < 0) return n;
  if ((size_t)n < now.len) sim_fail(sim, "a planted fault met back-pressure");
  return (ssize_t)out.len;
}

ssize_t plant_request(struct sim *sim, struct sim_conn *conn, struct tkt_span out) {
  if (sim->options.plant != SIM_PLANT_SWALLOWED_RELEASE)
    return sim_write(sim, conn, SIM_CLIENT_SIDE, out.data, out.len);
  enum tkt_phase phase = conn->taps[SIM_TAP_SENT].phase;
  return write_changed(sim, conn, SIM_CLIENT_SIDE, out, phase);
}

ssize_t plant_reply(struct sim *sim, struct sim_conn *conn, struct tkt_span out) {
  bool rewrites = sim->options.plant == SIM_PLANT_DOUBLE_GRANT ||
                  sim->options.plant == SIM_PLANT_FALSE_RELEASED ||
                  sim->options.plant == SIM_PLANT_LOST_GRANT;
  if (!rewrites) return sim_write(sim, conn, SIM_SERVER_SIDE, out.data, out.len);
  return write_changed(sim, conn, SIM_SERVER_SIDE, out, conn->taps[SIM_TAP_REPLIED].phase);
}

bool plant_hold_back(struct sim *sim, struct sim_conn *conn, const uint8_t *bytes, size_t len) {
  if (sim->options.plant != SIM_PLANT_UNFAIR || sim->held.conn || !sim_chance(sim, 1, 3))
    return false;
  sim->held.conn = conn;
  sim->held.until = sim->now + 50 * TKT_MS;
  sim->held.len = len;
  memcpy(sim->held.bytes, bytes, len);
  return true;
}

bool plant_holds(const struct sim *sim, const struct sim_conn *conn) {
  return sim->held.conn == conn;
}

void plant_feed_held(struct sim *sim) {
  struct sim_conn *conn = sim->held.conn;
  if (!conn || sim->held.until > sim->now) return;
  sim->held.conn = NULL;
  if (conn->used && conn->peer)
    tkt_server_input(sim->server.engine, conn->peer, tkt_span(sim->held.bytes, sim->held.len),
                     sim_local(sim, &sim->server.clock));
}
