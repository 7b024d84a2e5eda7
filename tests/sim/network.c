#include "network.h"

#include "cluster.h"

#include <string.h>

static int64_t max64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static int64_t latency(struct sim *sim) {
  return sim_between(sim, sim->profile.latency_min, sim->profile.latency_max);
}

static void pipe_init(struct sim *sim, struct sim_pipe *pipe) {
  pipe->head = pipe->len = 0;
  pipe->first_segment = pipe->segment_count = 0;
  pipe->last_at = pipe->stall_until = 0;
  pipe->fin_at = pipe->reset_at = TKT_NEVER;
  pipe->reset_drops = pipe->cut = false;
  /* Small windows force partial writes and back-pressure. */
  if (sim->profile.narrow) {
    pipe->cap = (uint32_t)sim_between(sim, 16, 120);
    return;
  }
  pipe->cap = sim->profile.quiet || sim_chance(sim, 2, 3)
                  ? SIM_PIPE_BYTES
                  : (uint32_t)sim_between(sim, 40, SIM_PIPE_BYTES);
}

static bool is_listening(const struct sim *sim, unsigned node) {
  if (sim->profile.nodes) return sim_cluster_listens(sim, node);
  return sim->server.engine && !sim->server.draining;
}

struct sim_conn *sim_connect(struct sim *sim, unsigned client, unsigned wire, unsigned node) {
  struct sim_conn *conn = NULL;
  for (unsigned i = 0; i < SIM_CONNS && !conn; i++)
    if (!sim->conns[i].used) conn = &sim->conns[i];
  if (!conn) return NULL;
  while (sim->conn_high > 0 && !sim->conns[sim->conn_high - 1].used)
    sim->conn_high--;
  unsigned index = (unsigned)(conn - sim->conns);
  if (index >= sim->conn_high) sim->conn_high = index + 1;
  conn->used = true;
  conn->id = ++sim->next_conn;
  conn->client = client;
  conn->wire = wire;
  conn->node = node;
  conn->front = SIM_FRONT_NONE;
  conn->front_len = 0;
  conn->demoted = conn->asked = false;
  conn->closed[0] = conn->closed[1] = false;
  conn->faulted = false;
  conn->dialled_at = sim->now;
  conn->accepted = false;
  conn->session = NULL;
  conn->peer = NULL;
  conn->connected = conn->failed = conn->shut_wanted = conn->shut_done = conn->peer_shut = false;
  conn->peer_failed = conn->must_end = false;
  conn->eof_told[0] = conn->eof_told[1] = conn->write_blocked[0] = conn->write_blocked[1] = false;
  conn->written_at = TKT_NEVER;
  conn->whole = sim_chance(sim, 1, 3);
  conn->handed = 0;
  conn->release_count = 0;
  conn->releases_lost = false;
  conn->last_id = 0;
  pipe_init(sim, &conn->pipes[0]);
  pipe_init(sim, &conn->pipes[1]);
  tkt_parser_init(&conn->front_in, tkt_wire_of(wire), TKT_PHASE_PROOF);
  tkt_parser_init(&conn->taps[SIM_TAP_SENT], tkt_wire_of(wire), TKT_PHASE_PROOF);
  tkt_parser_init(&conn->taps[SIM_TAP_RECEIVED], tkt_wire_of(wire), TKT_PHASE_PROOF);
  tkt_parser_init(&conn->taps[SIM_TAP_REPLIED], tkt_wire_of(wire), TKT_PHASE_GREETING);
  tkt_parser_init(&conn->taps[SIM_TAP_DELIVERED], tkt_wire_of(wire), TKT_PHASE_GREETING);
  conn->connected_at = conn->refused_at = conn->accept_at = TKT_NEVER;

  int64_t there = sim->now + latency(sim);
  if (!sim->calm && sim_chance(sim, sim->profile.connect_hang, 1000)) {
    sim_fault_until(sim, sim->now + 10 * TKT_S);
    sim_note(sim, "c%u conn %u hangs", client, conn->id);
  } else if ((!sim->calm && sim_chance(sim, sim->profile.connect_fail, 1000)) ||
             !is_listening(sim, node)) {
    conn->refused_at = there + latency(sim);
    sim_note(sim, "c%u conn %u will be refused", client, conn->id);
  } else {
    conn->accept_at = there;
    conn->connected_at = there + latency(sim);
  }
  return conn;
}

static void release_conn(struct sim_conn *conn) {
  for (int i = 0; i < 4; i++)
    tkt_parser_release(&conn->taps[i]);
  tkt_parser_release(&conn->front_in);
  conn->used = false;
}

ssize_t sim_write(struct sim *sim, struct sim_conn *conn, enum sim_side side, const uint8_t *from,
                  size_t len) {
  struct sim_pipe *pipe = &conn->pipes[side];
  struct sim_pipe *back = &conn->pipes[1 - side];
  if (back->reset_at <= sim->now) return SIM_RESET;
  if (conn->closed[1 - side]) {
    /* Nobody reads any more: the bytes vanish and a reset comes back. */
    if (back->reset_at == TKT_NEVER) {
      back->reset_at = sim->now + 2 * latency(sim);
      back->reset_drops = sim_chance(sim, 1, 2);
    }
    return (ssize_t)len;
  }
  if (pipe->cut) return (ssize_t)len;
  size_t room = pipe->cap > pipe->len ? pipe->cap - pipe->len : 0;
  size_t n = len < room ? len : room;
  if (!sim->profile.quiet && n > 1 && sim_chance(sim, 1, 8)) n = 1 + sim_below(sim, n);
  if (n == 0 || pipe->segment_count == SIM_PIPE_SEGMENTS) return SIM_AGAIN;
  size_t done = 0;
  while (done < n) {
    bool last = pipe->segment_count == SIM_PIPE_SEGMENTS - 1;
    size_t cut = n - done;
    if (!last && cut > 1 && sim_chance(sim, 1, 3)) cut = 1 + sim_below(sim, cut);
    int64_t at = max64(pipe->last_at, sim->now + latency(sim));
    pipe->last_at = at;
    uint32_t slot = (pipe->first_segment + pipe->segment_count) % SIM_PIPE_SEGMENTS;
    pipe->segments[slot].at = at;
    pipe->segments[slot].len = (uint32_t)cut;
    pipe->segment_count++;
    for (size_t i = 0; i < cut; i++)
      pipe->bytes[(pipe->head + pipe->len + i) % SIM_PIPE_BYTES] = from[done + i];
    pipe->len += (uint32_t)cut;
    done += cut;
    if (last) break;
  }
  return (ssize_t)done;
}

ssize_t sim_read(struct sim *sim, struct sim_conn *conn, enum sim_side side, uint8_t *into,
                 size_t room) {
  struct sim_pipe *pipe = &conn->pipes[1 - side];
  bool reset = pipe->reset_at <= sim->now;
  if (reset && pipe->reset_drops) return SIM_RESET;
  size_t got = 0;
  while (got < room && pipe->segment_count > 0) {
    struct sim_segment *segment = &pipe->segments[pipe->first_segment];
    if (max64(segment->at, pipe->stall_until) > sim->now) break;
    size_t n = segment->len < room - got ? segment->len : room - got;
    for (size_t i = 0; i < n; i++)
      into[got + i] = pipe->bytes[(pipe->head + i) % SIM_PIPE_BYTES];
    pipe->head = (pipe->head + (uint32_t)n) % SIM_PIPE_BYTES;
    pipe->len -= (uint32_t)n;
    segment->len -= (uint32_t)n;
    got += n;
    if (segment->len > 0) break;
    pipe->first_segment = (pipe->first_segment + 1) % SIM_PIPE_SEGMENTS;
    pipe->segment_count--;
  }
  if (got > 0) return (ssize_t)got;
  if (reset) return SIM_RESET;
  if (pipe->segment_count == 0 && max64(pipe->fin_at, pipe->stall_until) <= sim->now &&
      pipe->fin_at != TKT_NEVER)
    return SIM_EOF;
  return SIM_AGAIN;
}

void sim_shut(struct sim *sim, struct sim_conn *conn, enum sim_side side) {
  struct sim_pipe *pipe = &conn->pipes[side];
  if (pipe->fin_at == TKT_NEVER) pipe->fin_at = max64(pipe->last_at, sim->now + latency(sim));
}

void sim_close(struct sim *sim, struct sim_conn *conn, enum sim_side side) {
  conn->closed[side] = true;
  if (side == SIM_CLIENT_SIDE && !conn->accepted) conn->closed[SIM_SERVER_SIDE] = true;
  if (conn->closed[1 - side]) {
    release_conn(conn);
    return;
  }
  struct sim_pipe *in = &conn->pipes[1 - side];
  if (in->len > 0) {
    /* Unread bytes at close: the kernel answers with a reset, which may overtake nothing but can
     * destroy what the peer has not read. */
    struct sim_pipe *out = &conn->pipes[side];
    if (out->reset_at == TKT_NEVER) {
      out->reset_at = max64(out->last_at, sim->now + latency(sim));
      out->reset_drops = sim_chance(sim, 1, 2);
      if (out->len > 0) conn->faulted = true;
    }
  } else {
    sim_shut(sim, conn, side);
  }
}

int64_t sim_readable_at(const struct sim_conn *conn, enum sim_side side) {
  const struct sim_pipe *pipe = &conn->pipes[1 - side];
  int64_t at = TKT_NEVER;
  if (pipe->segment_count > 0)
    at = max64(pipe->segments[pipe->first_segment].at, pipe->stall_until);
  else if (pipe->fin_at != TKT_NEVER && !conn->eof_told[side])
    at = max64(pipe->fin_at, pipe->stall_until);
  return pipe->reset_at < at ? pipe->reset_at : at;
}

/* Signs of life are no loss: an LF, or L with a slot. */
static bool of_sign_of_life(const struct sim_conn *conn, uint8_t byte) {
  if (conn->wire == 2) return byte == '\n';
  return byte == 'L' || byte <= 5 || byte == TKT_SLOT_NONE;
}

bool sim_unread(const struct sim *sim, const struct sim_conn *conn, enum sim_side side) {
  const struct sim_pipe *pipe = &conn->pipes[1 - side];
  if (pipe->reset_at <= sim->now && pipe->reset_drops) return false;
  uint32_t at = pipe->head;
  for (uint32_t i = 0; i < pipe->segment_count; i++) {
    const struct sim_segment *s = &pipe->segments[(pipe->first_segment + i) % SIM_PIPE_SEGMENTS];
    if (max64(s->at, pipe->stall_until) > sim->now) break;
    for (uint32_t j = 0; j < s->len; j++, at++)
      if (!of_sign_of_life(conn, pipe->bytes[at % SIM_PIPE_BYTES])) return true;
  }
  return false;
}

bool sim_writable(const struct sim_conn *conn, enum sim_side side) {
  const struct sim_pipe *pipe = &conn->pipes[side];
  return conn->closed[1 - side] ||
         (pipe->len < pipe->cap && pipe->segment_count < SIM_PIPE_SEGMENTS);
}

void sim_reset(struct sim *sim, struct sim_conn *conn) {
  conn->faulted = true;
  for (int side = 0; side < 2; side++) {
    struct sim_pipe *pipe = &conn->pipes[side];
    int64_t at = sim->now + latency(sim);
    if (at < pipe->reset_at) pipe->reset_at = at;
    pipe->reset_drops = sim_chance(sim, 1, 2);
    /* What is still on its way then is lost: drop from the end. */
    while (pipe->segment_count > 0) {
      uint32_t last = (pipe->first_segment + pipe->segment_count - 1) % SIM_PIPE_SEGMENTS;
      if (pipe->segments[last].at <= pipe->reset_at) break;
      pipe->len -= pipe->segments[last].len;
      pipe->cut = true;
      pipe->segment_count--;
    }
  }
}

void sim_stall(struct sim *sim, struct sim_conn *conn, enum sim_side side, int64_t until) {
  (void)sim;
  conn->faulted = true;
  if (until > conn->pipes[side].stall_until) conn->pipes[side].stall_until = until;
}

void sim_network_free(struct sim *sim) {
  for (unsigned i = 0; i < SIM_CONNS; i++)
    if (sim->conns[i].used) release_conn(&sim->conns[i]);
}
