/* The client engine driven by a byte program: calls of every kind, servers that answer, lie and
 * vanish, bytes at any cut, time that jumps.
 *
 * Input: two bytes for the configuration, then operations of one byte with their arguments. After
 * the program the servers behave, and the engine has to come to rest and to work. Held throughout
 * (here, in client_ledger.h, and in client_servers.h for what shows on the wire):
 *   - every call ends once, within its bound, and not after it was forgotten;
 *   - an acquire is granted only by an A with its owner and key on the session it was sent on, one
 *     grant each; no outcome claims that nothing was sent where something was;
 *   - no request is sent twice; a ticket that the caller holds is never released by the engine;
 *   - sessions and requests stay within their bounds, and the engine neither spins nor oversleeps.
 */
#include "fuzz/client_ledger.h"

enum { OPERATIONS_MAX = 600, INPUT_MAX = 8192 };

struct program {
  const uint8_t *data;
  size_t left;
};

static uint8_t byte(struct program *in) {
  if (in->left == 0) return 0;
  in->left--;
  return *in->data++;
}

static struct peer *peer_of(struct world *w, struct program *in) {
  uint8_t which = byte(in);
  return w->peer_count ? w->peers[which % w->peer_count] : NULL;
}

static void op_acquire(struct world *w, struct program *in) {
  static const uint8_t waits[] = {0, 0, 1, 2, 5, 20, 60, 255};
  uint8_t what = byte(in);
  unsigned of_lease = what >> 6; /* the budget: 0, a fraction, half, all */
  start_acquire(w, what % NAMES, waits[what / 8 % 8], of_lease);
}

/* What only wire 3 has. */
static void make_framed(struct tkt_msg *msg, uint8_t kind, uint8_t which) {
  switch (kind >> 5) {
  case 4:
    msg->kind = TKT_MSG_MOVED;
    break;
  case 5:
    msg->kind = TKT_MSG_UNCERTAIN;
    break;
  case 6:
    msg->kind = TKT_MSG_ERROR;
    msg->error = (enum tkt_wire_error)(which / 16 % (TKT_WIRE_ERROR_BAD_TOKEN + 1));
    break;
  default:
    break;
  }
}

/* The answer to a request of `p`, or nearly. */
static void op_reply(struct world *w, struct program *in) {
  static const uint8_t slots[] = {0, 1, 2, TKT_SLOT_NONE, 4};
  struct peer *p = peer_of(w, in);
  uint8_t kind = byte(in), which = byte(in), twist = byte(in);
  if (!p) return;
  struct request r = {.name = (uint8_t)(twist % NAMES), .id = which, .release = kind & 1};
  if (p->request_count) r = p->requests[which % p->request_count];
  struct tkt_msg msg = {.kind = TKT_MSG_GRANTED, .id = r.id, .set = r.name == KEYS};
  msg.key_count = name_keys(r.name, msg.keys);
  msg.token = r.release ? r.token : w->next_token++;
  msg.slot = slots[which / 16 % 5];
  if (r.release)
    msg.kind = kind & 8 ? TKT_MSG_NOT_CURRENT : TKT_MSG_RELEASED;
  else if (kind & 8)
    msg.kind = kind & 16 ? TKT_MSG_BUSY : TKT_MSG_TIMED_OUT;
  if (p->speaks == &tkt_wire3) make_framed(&msg, kind, which);
  switch (twist >> 4) { /* mostly the truth */
  case 1:
    msg.keys[0] = key_span((uint8_t)((r.name + 1) % KEYS));
    msg.set = !msg.set;
    break;
  case 2:
    msg.id++;
    break;
  case 3:
    msg.token = 0;
    break;
  case 4: /* one that was named before */
    if (w->tokens.count) msg.token = w->tokens.at[twist % w->tokens.count].token;
    break;
  case 5: /* said by another server */
    if (w->peer_count) p = w->peers[twist % w->peer_count];
    break;
  case 6:
    msg.kind = r.release ? TKT_MSG_TIMED_OUT : TKT_MSG_RELEASED;
    break;
  case 7:
    msg.keys[0] = tkt_span_str("made-up");
    break;
  default:
    break;
  }
  say(p, &msg);
}

static void op_notice(struct world *w, struct program *in) {
  static const char *const errors[] = {"no_leader", "not_active", "auth_failed", "bad_op",
                                       "new_reason"};
  static const char *const addresses[] = {"127.0.0.1:1", "127.0.0.1:2", "[::1]:3",
                                          "example.org:5225"};
  struct peer *p = peer_of(w, in);
  uint8_t what = byte(in);
  if (!p) return;
  struct tkt_msg msg = {.kind = TKT_MSG_KEEPALIVE, .slot = what / 4 % 4};
  if (msg.slot == 3) msg.slot = TKT_SLOT_NONE;
  msg.text = tkt_span_str(addresses[what / 4 % 4]);
  switch (what % 4) {
  case 1:
    msg.kind = TKT_MSG_MOVED;
    break;
  case 2:
    msg.kind = TKT_MSG_LEADER;
    break;
  case 3:
    msg.kind = TKT_MSG_ERROR;
    msg.text = tkt_span_str(errors[what / 4 % 5]);
    break;
  default:
    break;
  }
  say(p, &msg);
}

static void op_garbage(struct world *w, struct program *in) {
  struct peer *p = peer_of(w, in);
  size_t n = byte(in) % 64;
  if (n > in->left) n = in->left;
  if (p) append(&p->inbound, in->data, n);
  in->data += n;
  in->left -= n;
}

static void op_connect(struct world *w, struct program *in) {
  static const char *const lines[] = {
      "cluster n1\n", "single n2\n", "older n3\n", "SSH-2.0-x\n", "cluster ", "", "TCKCLI3"};
  struct peer *p = peer_of(w, in);
  uint8_t what = byte(in);
  if (!p) return;
  connect_peer(w, p);
  if (what % 10 == 0)
    greet(w, p);
  else if (what % 10 < 8)
    greet_line(p, lines[what % 10 - 1]);
  else
    greet_framed(p, what / 10 % 2, what / 20 % 4);
}

static void op_end(struct world *w, struct program *in) {
  struct peer *p = peer_of(w, in);
  uint8_t what = byte(in);
  if (!p || p->eof) return;
  if (what & 2) deliver(w, p, 0);
  p->eof = true;
  if (what & 1 || !p->connected)
    tkt_session_failed(p->session, "reset", w->now);
  else
    tkt_session_eof(p->session, w->now);
}

static void op_room(struct world *w, struct program *in) {
  static const size_t rooms[] = {0, 1, 4, 5, 20, 44, 200, SIZE_MAX};
  struct peer *p = peer_of(w, in);
  uint8_t what = byte(in);
  if (!p) return;
  p->room = rooms[what % 8];
  if (!p->room || !p->blocked || !p->connected) return;
  write_peer(w, p);
  shut_peer(p);
}

static void op_time(struct world *w, struct program *in) {
  static const int64_t jumps[] = {TKT_MS,     10 * TKT_MS, 100 * TKT_MS, 300 * TKT_MS,
                                  TKT_S,      2 * TKT_S,   3 * TKT_S,    5 * TKT_S,
                                  10 * TKT_S, 30 * TKT_S,  100 * TKT_S,  250 * TKT_S};
  uint8_t what = byte(in);
  int64_t next = tkt_client_next_deadline(w->client);
  if (what % 16 < 12)
    w->now += jumps[what % 16];
  else if (next != TKT_NEVER && next > w->now)
    w->now = next;
}

static void operate(struct world *w, struct program *in) {
  struct peer *p;
  switch (byte(in) % 24) {
  case 0:
  case 1:
    turn(w);
    break;
  case 2:
  case 3:
    op_acquire(w, in);
    break;
  case 4:
    op_time(w, in);
    break;
  case 5:
  case 6:
    op_reply(w, in);
    break;
  case 7:
    op_notice(w, in);
    break;
  case 8:
    op_garbage(w, in);
    break;
  case 9:
    op_connect(w, in);
    break;
  case 10:
    op_end(w, in);
    break;
  case 11:
    op_room(w, in);
    break;
  case 12:
    p = peer_of(w, in);
    if (p) deliver(w, p, byte(in));
    break;
  case 13:
    behave(w, byte(in));
    turn(w);
    break;
  case 14:
    cancel_call(w, byte(in));
    break;
  case 15:
    forget_call(w, &w->calls[byte(in) % CALLS]);
    break;
  case 16:
  case 17:
    take_ticket(w, byte(in));
    break;
  case 18:
    release_ticket(w, byte(in));
    break;
  case 19:
    drop_ticket(w, byte(in));
    break;
  case 20:
    detach_ticket(w, byte(in));
    break;
  case 21:
    release_exact(w, byte(in));
    break;
  case 22:
    wait_ready(w, byte(in));
    break;
  default:
    if (byte(in) % 8 == 7) start_close(w);
    break;
  }
}

/* The servers behave from here on: everything settles, and what is asked then is granted. */
static void recover(struct world *w) {
  w->at_once = w->welcomes = true;
  let_pass(w, 40 * TKT_S, true);
  require_rest(w);
  for (int i = 0; i < CALLS; i++)
    forget_call(w, &w->calls[i]);
  if (w->asked_count == ACQUIRES) return;
  struct call_slot *slot = start_acquire(w, 0, 20, 0);
  FUZZ_REQUIRE(slot);
  for (int i = 0; i < 8; i++) {
    turn(w);
    behave(w, 0);
  }
  turn(w);
  FUZZ_REQUIRE(slot->call->outcome == (w->closing ? TKT_CLOSED : TKT_OK));
}

static void close_down(struct world *w, bool servers_behave) {
  struct call_slot *slot = start_close(w);
  let_pass(w, 5 * TKT_S + SLACK, servers_behave);
  FUZZ_REQUIRE(tkt_client_finished(w->client) && w->peer_count == 0);
  FUZZ_REQUIRE(!slot || slot->call->outcome == TKT_OK);
  let_pass(w, 20 * TKT_S, false); /* timers of what is over may still come, once */
  FUZZ_REQUIRE(tkt_client_next_deadline(w->client) == TKT_NEVER && w->peer_count == 0);
}

static void configure(struct world *w, uint8_t flags, uint8_t seed) {
  static const uint32_t slots[] = {1, 3, TKT_IN_FLIGHT_DEFAULT, 2};
  static const uint32_t unsent[] = {1, 8, TKT_UNSENT_DEFAULT, 2};
  w->now = 1000 * TKT_S;
  w->next_token = 1;
  w->framed = seed & 64;
  w->addresses = 1 + flags % 3;
  if (w->framed && w->addresses == 2) w->addresses = 3; /* 1, 3 or 5 on wire 3 */
  w->token = tkt_span_str(flags & 4 ? "secret" : "");
  w->at_once = flags & 8;
  w->welcomes = flags & 16;
  w->tls = seed & 128;
  w->max_in_flight = slots[seed % 4];
  w->max_unsent = unsent[seed % 4];
  struct tkt_client_config config = {.addresses = address_texts,
                                     .address_count = w->addresses,
                                     .token = w->token,
                                     .max_in_flight = w->max_in_flight,
                                     .max_unsent = w->max_unsent,
                                     .cancel_keeps_session = flags & 32,
                                     .identity = identity,
                                     .seed = {seed}};
  w->client = tkt_client_new(&config, w->now);
  FUZZ_REQUIRE(w->client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 3 || size > INPUT_MAX) return 0;
  struct world *w = calloc(1, sizeof *w);
  FUZZ_REQUIRE(w);
  struct program in = {data + 2, size - 2};
  configure(w, data[0], data[1]);
  for (int i = 0; i < OPERATIONS_MAX && in.left; i++)
    operate(w, &in);
  switch (data[0] >> 6) {
  case 0: /* freed as it stands */
    break;
  case 1:
    close_down(w, false);
    break;
  default:
    recover(w);
    close_down(w, true);
    break;
  }
  end_world(w);
  return 0;
}
