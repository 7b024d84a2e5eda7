#include "legacy.h"

#include "ledger.h"
#include "network.h"
#include "wire/proof.h"

#include <string.h>

#define TOKEN(t) ((unsigned long long)(t))

static int64_t local(const struct sim *sim, const struct sim_legacy *l) {
  return sim_local(sim, &l->clock);
}

void sim_legacy_init(struct sim *sim, struct sim_legacy *legacy, unsigned index) {
  int ppm = sim->profile.drift_ppm;
  legacy->index = index;
  legacy->clock =
      (struct sim_clock){sim_between(sim, 0, 1000 * TKT_S), sim_between(sim, -ppm, ppm)};
  legacy->state = SIM_LEGACY_IDLE;
  legacy->due = sim->now + sim_between(sim, 0, TKT_S);
  legacy->dial_at = sim->now;
}

static void append(struct sim_legacy *l, const struct tkt_msg *msg) {
  size_t size = tkt_wire2.encoded_size(msg);
  if (size == 0 || l->out_len + size > sizeof l->out) return;
  tkt_wire2.encode(msg, l->out + l->out_len);
  l->out_len += size;
}

/* Asks, for the first time or again; the grant is ours for a lease after the earliest request that
 * this connection may be answering. */
static void ask(struct sim *sim, struct sim_legacy *l) {
  struct tkt_msg msg;
  memset(&msg, 0, sizeof msg);
  msg.kind = TKT_MSG_ACQUIRE;
  msg.id = l->owner;
  msg.wait_s = l->wait_s;
  msg.lease_s = (uint16_t)sim_between(sim, 1, 12);
  msg.key_count = 1;
  msg.keys[0] = sim->keys[l->key];
  int64_t until = local(sim, l) + msg.lease_s * TKT_S;
  if (!l->asked_here || until < l->surely_until) l->surely_until = until;
  l->asked_here = true;
  append(l, &msg);
  sim_note(sim, "l%u asks k%u wait %u lease %u owner %04x", l->index, l->key, msg.wait_s,
           msg.lease_s, (unsigned)(l->owner & 0xffff));
}

static void say_release(struct sim *sim, struct sim_legacy *l) {
  struct tkt_msg msg;
  memset(&msg, 0, sizeof msg);
  msg.kind = TKT_MSG_RELEASE;
  msg.token = l->token;
  msg.key_count = 1;
  msg.keys[0] = sim->keys[l->key];
  append(l, &msg);
}

/* What this connection has to be told, right behind the proof. */
static void speak(struct sim *sim, struct sim_legacy *l) {
  if (l->state == SIM_LEGACY_ASKING) ask(sim, l);
  if (l->state == SIM_LEGACY_RELEASING) say_release(sim, l);
}

static void hang_up(struct sim *sim, struct sim_legacy *l, int64_t pause) {
  if (l->conn) {
    tkt_parser_release(&l->parser);
    sim_close(sim, l->conn, SIM_CLIENT_SIDE);
  }
  l->conn = NULL;
  l->greeted = l->asked_here = false;
  l->out_len = 0;
  l->dial_at = sim->now + pause;
}

static void dial(struct sim *sim, struct sim_legacy *l) {
  l->dial_at = TKT_NEVER;
  l->conn = sim_connect(sim, SIM_CLIENTS + l->index, 2, 0);
  if (!l->conn) {
    l->dial_at = sim->now + 100 * TKT_MS;
    return;
  }
  tkt_parser_init(&l->parser, &tkt_wire2, TKT_PHASE_GREETING);
  l->give_up_at = sim->now + 3 * TKT_S;
}

static void greeted(struct sim *sim, struct sim_legacy *l, const struct tkt_msg *msg) {
  char proof[TKT_WIRE2_PROOF_LEN];
  if (!tkt_wire2_proof(tkt_span_str("sesame"), msg->nonce, proof)) return;
  memcpy(l->out, proof, sizeof proof);
  l->out[sizeof proof] = '\n';
  l->out_len = sizeof proof + 1;
  l->greeted = true;
  l->parser.phase = TKT_PHASE_REPLIES;
  speak(sim, l);
}

static void rest(struct sim *sim, struct sim_legacy *l) {
  l->state = SIM_LEGACY_IDLE;
  l->due = sim->now + sim_between(sim, 0, TKT_S);
}

static void granted(struct sim *sim, struct sim_legacy *l, uint64_t token) {
  struct sim_grant *g = ledger_grant(sim, token);
  if (!g || g->run != sim->server.run || g->keys != 1u << l->key) return;
  l->token = token;
  l->state = SIM_LEGACY_HOLDING;
  int64_t left = l->surely_until - local(sim, l);
  l->due = sim->now + sim_between(sim, 0, left > TKT_S ? TKT_S : left);
  sim_note(sim, "l%u holds k%u token %llu", l->index, l->key, TOKEN(token));
  if (left <= 0 || sim->ticket_count == SIM_TICKETS) return;
  l->ticket = &sim->tickets[sim->ticket_count++];
  *l->ticket = (struct sim_ticket){.client = SIM_CLIENTS + l->index,
                                   .clock = &l->clock,
                                   .run = g->run,
                                   .keys = 1u << l->key,
                                   .token = token,
                                   .valid_until = l->surely_until,
                                   .believed = true};
  if (sim_world(&l->clock, l->surely_until) > g->until)
    sim_fail(sim, "l%u was promised token %llu for longer than the server keeps it", l->index,
             TOKEN(token));
}

static void heard(struct sim *sim, struct sim_legacy *l, const struct tkt_msg *msg) {
  bool asking = l->state == SIM_LEGACY_ASKING && msg->id == l->owner;
  switch (msg->kind) {
  case TKT_MSG_GREETING:
    greeted(sim, l, msg);
    break;
  case TKT_MSG_GRANTED:
    if (asking) granted(sim, l, msg->token);
    break;
  case TKT_MSG_TIMED_OUT:
  case TKT_MSG_BUSY:
    if (asking) rest(sim, l);
    break;
  case TKT_MSG_RELEASED:
  case TKT_MSG_NOT_CURRENT:
    if (l->state == SIM_LEGACY_RELEASING && msg->token == l->token) rest(sim, l);
    break;
  default:
    break;
  }
}

static void read_all(struct sim *sim, struct sim_legacy *l) {
  uint8_t bytes[512];
  while (l->conn && !sim->failed) {
    ssize_t n = sim_read(sim, l->conn, SIM_CLIENT_SIDE, bytes, sizeof bytes);
    if (n == SIM_AGAIN) return;
    if (n <= 0) {
      hang_up(sim, l, sim_between(sim, 10 * TKT_MS, TKT_S));
      return;
    }
    struct tkt_msg msg;
    tkt_parser_push(&l->parser, tkt_span(bytes, (size_t)n));
    while (tkt_parser_next(&l->parser, &msg) == TKT_DECODE_OK)
      heard(sim, l, &msg);
  }
}

static void write_all(struct sim *sim, struct sim_legacy *l) {
  while (l->conn && l->out_len > 0) {
    ssize_t n = sim_write(sim, l->conn, SIM_CLIENT_SIDE, l->out, l->out_len);
    if (n == SIM_RESET) hang_up(sim, l, sim_between(sim, 10 * TKT_MS, TKT_S));
    if (n <= 0) return;
    ledger_tap(sim, l->conn, SIM_TAP_SENT, l->out, (size_t)n);
    l->out_len -= (size_t)n;
    memmove(l->out, l->out + n, l->out_len);
  }
}

/* Asking again: on the same connection, or on a new one with the old one left behind. */
static void ask_again(struct sim *sim, struct sim_legacy *l) {
  /* In the calm only because no answer came: bytes that an abandoned connection delivers late can
   * take the request away from the connection that is alive. */
  l->due = sim->now + (sim->calm ? 8 * TKT_S : sim_between(sim, 50 * TKT_MS, 2 * TKT_S));
  if (!l->greeted) return;
  if (!sim->calm && sim_chance(sim, 1, 2))
    ask(sim, l);
  else
    hang_up(sim, l, sim_chance(sim, 1, 2) ? 0 : sim_between(sim, 0, 500 * TKT_MS));
}

static void act(struct sim *sim, struct sim_legacy *l) {
  switch (l->state) {
  case SIM_LEGACY_IDLE:
    l->due = TKT_NEVER;
    if (sim->calm) return;
    l->state = SIM_LEGACY_ASKING;
    l->owner = tkt_random_u64(&sim->random) | 1;
    l->key = (unsigned)sim_below(sim, sim->profile.keys);
    l->wait_s = (uint16_t)sim_between(sim, 0, 6);
    l->asked_here = false;
    l->due = sim->now + sim_between(sim, 0, 4 * TKT_S);
    if (l->greeted) ask(sim, l);
    break;
  case SIM_LEGACY_ASKING:
    ask_again(sim, l);
    break;
  case SIM_LEGACY_HOLDING:
    if (l->ticket) l->ticket->believed = false;
    l->ticket = NULL;
    l->state = SIM_LEGACY_RELEASING;
    l->due = sim->now + 2 * TKT_S;
    if (l->greeted) say_release(sim, l);
    break;
  case SIM_LEGACY_RELEASING:
    l->due = sim->now + 2 * TKT_S;
    hang_up(sim, l, 0);
    break;
  }
}

void sim_legacy_turn(struct sim *sim, struct sim_legacy *legacy) {
  struct sim_legacy *l = legacy;
  if (!l->conn && l->dial_at <= sim->now) dial(sim, l);
  if (l->conn) {
    if (l->conn->connected_at <= sim->now) read_all(sim, l);
    if (l->conn && !l->greeted && (l->conn->refused_at <= sim->now || l->give_up_at <= sim->now))
      hang_up(sim, l, sim_between(sim, 10 * TKT_MS, TKT_S));
  }
  if (l->due <= sim->now) act(sim, l);
  write_all(sim, l);
}

int64_t sim_legacy_wake(const struct sim *sim, const struct sim_legacy *legacy) {
  const struct sim_legacy *l = legacy;
  int64_t wake = l->due;
  if (!l->conn) return l->dial_at < wake ? l->dial_at : wake;
  if (!l->greeted) {
    if (l->conn->refused_at < wake) wake = l->conn->refused_at;
    if (l->give_up_at < wake) wake = l->give_up_at;
  }
  if (l->conn->connected_at == TKT_NEVER) return wake;
  int64_t at = sim_readable_at(l->conn, SIM_CLIENT_SIDE);
  if (at < l->conn->connected_at) at = l->conn->connected_at;
  if (l->out_len > 0 && sim_writable(l->conn, SIM_CLIENT_SIDE)) at = sim->now;
  return at < wake ? at : wake;
}

bool sim_legacy_idle(const struct sim_legacy *legacy) {
  return legacy->state == SIM_LEGACY_IDLE;
}

void sim_legacy_close(struct sim *sim, struct sim_legacy *legacy) {
  hang_up(sim, legacy, 0);
  legacy->dial_at = legacy->due = TKT_NEVER;
}
