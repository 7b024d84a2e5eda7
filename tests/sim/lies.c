#include "lies.h"

#include "network.h"

#include <string.h>

enum { LIES_ROOM = 3 * SIM_PIPE_BYTES };

static void add_bytes(struct tkt_buf *to, const void *data, size_t len) {
  uint8_t *into = tkt_buf_reserve(to, len, LIES_ROOM);
  if (!into) return;
  memcpy(into, data, len);
  tkt_buf_commit(to, len);
}

static void add_text(struct tkt_buf *to, const char *text) {
  add_bytes(to, text, strlen(text));
}

/* A frame of the kind, with values that may or may not mean something to the client. */
static void add_invented(struct sim *sim, const struct tkt_wire *wire, struct tkt_buf *to) {
  static const enum tkt_msg_kind kinds[] = {TKT_MSG_GRANTED, TKT_MSG_TIMED_OUT, TKT_MSG_BUSY,
                                            TKT_MSG_RELEASED, TKT_MSG_NOT_CURRENT};
  struct tkt_msg msg;
  memset(&msg, 0, sizeof msg);
  msg.kind = kinds[sim_below(sim, sizeof kinds / sizeof kinds[0])];
  msg.token = tkt_random_u64(&sim->random) >> sim_below(sim, 64);
  if (sim->grant_count > 0 && sim_chance(sim, 1, 2))
    msg.token = sim->grants[sim->grant_count - 1 - sim_below(sim, sim->grant_count)].token;
  if (sim->request_count > 0)
    msg.id = sim->requests[sim->request_count - 1 - sim_below(sim, sim->request_count)].owner;
  msg.key_count = 1;
  msg.keys[0] = sim->keys[sim_below(sim, SIM_KEYS)];
  if (wire->version == 3 && sim_chance(sim, 1, 2)) msg.id = sim_below(sim, 40);
  msg.set = sim_chance(sim, 1, 4) && wire->version == 3;
  tkt_wire_append(wire, &msg, to, LIES_ROOM);
}

static void add_lie(struct sim *sim, const struct tkt_wire *wire, struct tkt_buf *to) {
  static const char *const texts[] = {"M127.0.0.1:5225\n",
                                      "M10.0.0.1:1\n",
                                      "L127.0.0.1:5225\n",
                                      "L10.9.9.9:99\n",
                                      "Eno_leader\n",
                                      "Enot_active\n",
                                      "Eauth_failed\n",
                                      "Ebad_op\n",
                                      "Ewhat_is_this\n",
                                      "M\n",
                                      "zzzzzzzz\n",
                                      "\n\n\n",
                                      "A",
                                      "single again\n",
                                      "TCKCLI3"};
  size_t count = sizeof texts / sizeof texts[0];
  uint64_t dice = sim_below(sim, count + 8);
  if (dice < count)
    add_text(to, texts[dice]);
  else
    add_invented(sim, wire, to);
}

/* One frame of the server, told truly or not. */
static void retell(struct sim *sim, const struct tkt_wire *wire, struct tkt_span frame,
                   struct tkt_msg *msg, struct tkt_buf *to) {
  if (!sim_chance(sim, 1, 30)) {
    add_bytes(to, frame.data, frame.len);
    return;
  }
  sim_note(sim, "the server lies");
  switch (sim_below(sim, 5)) {
  case 0: /* twice */
    add_bytes(to, frame.data, frame.len);
    add_bytes(to, frame.data, frame.len);
    break;
  case 1: /* with another token, or as another kind */
    msg->token ^= UINT64_C(1) << sim_below(sim, 50);
    if (msg->kind == TKT_MSG_RELEASED)
      msg->kind = TKT_MSG_NOT_CURRENT;
    else if (msg->kind == TKT_MSG_TIMED_OUT)
      msg->kind = TKT_MSG_GRANTED;
    if (!tkt_wire_append(wire, msg, to, LIES_ROOM)) add_bytes(to, frame.data, frame.len);
    break;
  case 2: /* not at all */
    break;
  case 3: /* cut short */
    add_bytes(to, frame.data, sim_below(sim, frame.len));
    break;
  default:
    add_lie(sim, wire, to);
    add_bytes(to, frame.data, frame.len);
  }
}

ssize_t lies_write(struct sim *sim, struct sim_conn *conn, struct tkt_span out) {
  struct tkt_buf told = {0};
  size_t at = 0;
  const struct tkt_wire *wire = tkt_wire_of(conn->wire);
  enum tkt_phase phase = conn->taps[SIM_TAP_REPLIED].phase;
  while (at < out.len) {
    struct tkt_msg msg;
    size_t used = 0;
    struct tkt_span rest = tkt_span(out.data + at, out.len - at);
    if (wire->decode(phase, rest, &msg, &used) != TKT_DECODE_OK) {
      add_bytes(&told, rest.data, rest.len);
      break;
    }
    retell(sim, wire, tkt_span(rest.data, used), &msg, &told);
    at += used;
    if (msg.kind == TKT_MSG_GREETING)
      phase = wire->version == 3 ? TKT_PHASE_VERDICT : TKT_PHASE_REPLIES;
    if (msg.kind == TKT_MSG_VERDICT) phase = TKT_PHASE_REPLIES;
  }
  /* What the pipe does not take is one more thing not told. */
  ssize_t n = 1;
  if (tkt_buf_len(&told) > 0)
    n = sim_write(sim, conn, SIM_SERVER_SIDE, told.data + told.start, tkt_buf_len(&told));
  tkt_buf_release(&told);
  return n < 0 ? n : (ssize_t)out.len;
}
