/* The caller of a client engine that is fuzzed: its calls and tickets, and what their ends have to
 * agree with. */
#ifndef TKT_TESTS_FUZZ_CLIENT_LEDGER_H
#define TKT_TESTS_FUZZ_CLIENT_LEDGER_H

#include "client/explain.h"
#include "fuzz/client_driver.h"

/* --- calls -------------------------------------------------------------------------------------
 */

/* A free slot with a fresh call, NULL: all are in use. */
static inline struct call_slot *new_call(struct world *w, int64_t limit) {
  for (int i = 0; i < CALLS; i++) {
    struct call_slot *slot = &w->calls[i];
    if (slot->call) continue;
    *slot = (struct call_slot){.call = calloc(1, sizeof *slot->call), .asked = ACQUIRES};
    FUZZ_REQUIRE(slot->call);
    slot->bound = w->now + limit + SLACK;
    return slot;
  }
  return NULL;
}

static inline void forget_call(struct world *w, struct call_slot *slot) {
  if (!slot->call) return;
  tkt_client_forget(w->client, slot->call, w->now);
  if (slot->asked < ACQUIRES && w->asked[slot->asked].ended == TKT_PENDING)
    w->asked[slot->asked].ended = TKT_INDETERMINATE; /* nobody knows any more */
  free(slot->call);
  slot->call = NULL;
}

/* `budget`: in quarters as the program chooses it. */
static inline struct call_slot *start_acquire(struct world *w, uint8_t name, uint8_t wait_s,
                                              unsigned budget) {
  if (w->asked_count == ACQUIRES) return NULL;
  struct call_slot *slot = new_call(w, wait_s * TKT_S + 5 * TKT_S);
  if (!slot) return NULL;
  uint8_t index = (uint8_t)w->asked_count++;
  struct asked *a = &w->asked[index];
  a->lease_s = (uint8_t)(249 - index * 37 % 250 + 1); /* each once */
  int64_t budgets[] = {0, 1, a->lease_s * TKT_S / 2, a->lease_s * TKT_S};
  *a = (struct asked){.called_at = w->now,
                      .budget_ns = budgets[budget % 4],
                      .name = name,
                      .wait_s = wait_s,
                      .lease_s = a->lease_s,
                      .ended = TKT_PENDING};
  slot->asked = index;
  struct tkt_span keys[TKT_KEY_SET_MAX];
  uint8_t count = name_keys(name, keys);
  struct tkt_acquire_args args = {keys, count, wait_s * TKT_S, a->lease_s * TKT_S, a->budget_ns};
  struct tkt_acquire_plan plan;
  char why[TKT_REFUSAL_SIZE];
  FUZZ_REQUIRE(tkt_acquire_check(&args, &plan, why) == TKT_OK);
  tkt_client_acquire(w->client, slot->call, &plan, w->now);
  return slot;
}

static inline void cancel_call(struct world *w, uint8_t which) {
  struct call_slot *slot = &w->calls[which % CALLS];
  if (!slot->call) return;
  slot->cancelled = true;
  tkt_client_cancel(w->client, slot->call, w->now);
  if (slot->asked < ACQUIRES) /* a pending acquire ends at once (S3) */
    FUZZ_REQUIRE(slot->call->outcome != TKT_PENDING);
}

static inline void wait_ready(struct world *w, uint8_t what) {
  static const int64_t limits[] = {0, TKT_MS, TKT_S, 30 * TKT_S};
  struct call_slot *slot = new_call(w, limits[what % 4]);
  if (slot) tkt_client_wait_ready(w->client, slot->call, limits[what % 4], w->now);
}

static inline struct call_slot *start_close(struct world *w) {
  struct call_slot *slot = new_call(w, 5 * TKT_S);
  if (!slot) {
    forget_call(w, &w->calls[0]);
    slot = new_call(w, 5 * TKT_S);
  }
  w->closing = true;
  tkt_client_close(w->client, slot->call, w->now);
  return slot;
}

/* --- tickets -----------------------------------------------------------------------------------
 */

static inline void take_ticket(struct world *w, uint8_t which) {
  struct call_slot *slot = &w->calls[which % CALLS];
  int room = 0;
  while (room < TICKETS && w->lent[room].ticket)
    room++;
  if (!slot->call || room == TICKETS) return;
  struct lent *l = &w->lent[room];
  struct tkt_ticket *ticket = NULL;
  enum tkt_outcome rc = tkt_client_take(w->client, slot->call, w->now, &ticket);
  FUZZ_REQUIRE((rc == TKT_OK) == (ticket != NULL));
  if (!ticket) return;
  const struct asked *a = &w->asked[slot->asked];
  int64_t left = tkt_ticket_valid_until(ticket) - w->now;
  FUZZ_REQUIRE(!slot->taken && !slot->cancelled);
  FUZZ_REQUIRE(left > 0 && left >= a->budget_ns && left <= a->lease_s * TKT_S); /* G1 */
  struct tkt_span keys[2] = {tkt_ticket_key(ticket, 0), tkt_ticket_key(ticket, 1)};
  FUZZ_REQUIRE(name_of(keys, tkt_ticket_key_count(ticket)) == a->name);
  slot->taken = true;
  *l = (struct lent){.ticket = ticket, .token = tkt_ticket_token(ticket), .name = a->name};
}

static inline void release_ticket(struct world *w, uint8_t which) {
  struct lent *l = &w->lent[which % TICKETS];
  struct call_slot *slot = l->ticket ? new_call(w, 5 * TKT_S) : NULL;
  if (!slot) return;
  slot->token = l->token;
  slot->name = l->name;
  note(&w->may_go, l->token, l->name, ACQUIRES);
  tkt_client_release(w->client, slot->call, l->ticket, w->now);
}

static inline void drop_ticket(struct world *w, uint8_t which) {
  struct lent *l = &w->lent[which % TICKETS];
  if (!l->ticket) return;
  if (l->detached) note(&w->detached, l->token, l->name, ACQUIRES);
  tkt_client_drop(w->client, l->ticket, w->now);
  l->ticket = NULL;
}

static inline void detach_ticket(struct world *w, uint8_t which) {
  struct lent *l = &w->lent[which % TICKETS];
  if (!l->ticket) return;
  tkt_client_detach(w->client, l->ticket);
  l->detached = true;
}

/* By a token that was fed, or one that was not. */
static inline void release_exact(struct world *w, uint8_t what) {
  struct call_slot *slot = new_call(w, 5 * TKT_S);
  if (!slot) return;
  slot->token = 1000000 + what;
  slot->name = what % NAMES;
  if (what & 1 && w->tokens.count) {
    slot->token = w->tokens.at[what % w->tokens.count].token;
    slot->name = w->tokens.at[what % w->tokens.count].name;
  }
  if (slot->token == 0) slot->token = 1;
  note(&w->tokens, slot->token, slot->name, ACQUIRES);
  note(&w->may_go, slot->token, slot->name, ACQUIRES);
  struct tkt_span keys[TKT_KEY_SET_MAX];
  uint8_t count = name_keys(slot->name, keys);
  tkt_client_release_exact(w->client, slot->call, keys, count, slot->token, w->now);
}

/* --- ends --------------------------------------------------------------------------------------
 */

static inline void granted(struct world *w, const struct call_slot *slot) {
  if (slot->taken || slot->call->given_back || !slot->call->ticket) return;
  uint64_t token = tkt_ticket_token(slot->call->ticket);
  bool found = w->grants.count == FACTS;
  for (size_t i = 0; i < w->grants.count && !found; i++) {
    struct fact *f = &w->grants.at[i];
    if (f->used || f->asked != slot->asked || f->token != token) continue;
    found = f->used = true;
  }
  FUZZ_JUDGE(found);
}

static inline void acquire_ended(struct world *w, const struct call_slot *slot) {
  struct asked *a = &w->asked[slot->asked];
  const struct tkt_call *call = slot->call;
  bool granted_once = false;
  for (size_t i = 0; i < w->grants.count; i++)
    granted_once |= w->grants.at[i].asked == slot->asked;
  a->ended = call->outcome;
  switch (call->outcome) {
  case TKT_OK:
    granted(w, slot);
    break;
  case TKT_INSUFFICIENT_LEASE:
    FUZZ_JUDGE(granted_once);
    FUZZ_JUDGE(call->detail.remaining_ns <= 0 || call->detail.remaining_ns < a->budget_ns);
    break;
  case TKT_TIMEOUT:
    FUZZ_JUDGE(a->told_timed_out ||
               (!a->outstanding && a->wait_s && w->now >= a->called_at + a->wait_s * TKT_S));
    break;
  case TKT_BUSY:
    FUZZ_JUDGE(a->told_busy);
    break;
  case TKT_INDETERMINATE:
    FUZZ_JUDGE(a->seen || w->vague);
    break;
  case TKT_CANCELLED:
    FUZZ_JUDGE(slot->cancelled && !a->outstanding);
    break;
  case TKT_CLOSED:
    FUZZ_JUDGE(w->closing && !a->outstanding);
    break;
  case TKT_NOT_CONNECTED:
  case TKT_AUTH:
  case TKT_CLIENT_CAPACITY:
  case TKT_UNSUPPORTED:
    FUZZ_JUDGE(!a->outstanding);
    break;
  case TKT_INVALID_ARGUMENT:
    FUZZ_JUDGE(a->told_refused);
    break;
  default:
    FUZZ_REQUIRE(!"an outcome that an acquire has");
  }
}

static inline void release_ended(struct world *w, const struct call_slot *slot) {
  switch (slot->call->outcome) {
  case TKT_OK:
    FUZZ_JUDGE(known(&w->released, slot->token, slot->name));
    break;
  case TKT_NOT_CURRENT:
    FUZZ_JUDGE(known(&w->gone, slot->token, slot->name));
    break;
  case TKT_CANCELLED:
    FUZZ_JUDGE(slot->cancelled);
    break;
  case TKT_CLOSED:
    FUZZ_JUDGE(w->closing);
    break;
  case TKT_INDETERMINATE:
  case TKT_NOT_CONNECTED:
  case TKT_CLIENT_CAPACITY:
    break;
  case TKT_UNSUPPORTED: /* a set, on wire 2 */
    FUZZ_JUDGE(slot->name == KEYS);
    break;
  case TKT_INVALID_ARGUMENT:
    FUZZ_JUDGE(w->release_refused);
    break;
  default:
    FUZZ_REQUIRE(!"an outcome that a release has");
  }
}

static inline void call_ended(struct world *w, const struct tkt_call *call) {
  struct call_slot *slot = w->calls;
  while (slot < w->calls + CALLS && slot->call != call)
    slot++;
  FUZZ_REQUIRE(slot < w->calls + CALLS); /* not one that was forgotten */
  FUZZ_REQUIRE(!slot->reported && call->outcome != TKT_PENDING);
  slot->reported = true;
  char text[48];
  size_t whole = tkt_call_explain(call, text, sizeof text);
  FUZZ_REQUIRE(whole > 0 && memchr(text, 0, sizeof text));
  if (call->kind == TKT_CALL_ACQUIRE) acquire_ended(w, slot);
  if (call->kind == TKT_CALL_RELEASE) release_ended(w, slot);
  if (call->kind == TKT_CALL_CLOSE)
    FUZZ_REQUIRE(call->outcome == TKT_OK || (slot->cancelled && call->outcome == TKT_CANCELLED));
}

/* --- turns -------------------------------------------------------------------------------------
 */

static inline uint64_t counter(const struct world *w, const char *name) {
  struct tkt_counter counters[64];
  size_t n = tkt_client_counters(w->client, counters, 64);
  for (size_t i = 0; i < n && i < 64; i++)
    if (strcmp(counters[i].name, name) == 0) return counters[i].value;
  FUZZ_REQUIRE(!"a counter of this name");
  return 0;
}

static inline void require_bounds(const struct world *w) {
  int64_t next = tkt_client_next_deadline(w->client);
  FUZZ_REQUIRE(next > w->now);
  for (int i = 0; i < CALLS; i++) {
    const struct call_slot *slot = &w->calls[i];
    if (!slot->call) continue;
    bool pending = slot->call->outcome == TKT_PENDING;
    FUZZ_REQUIRE(pending != slot->reported);
    if (pending) FUZZ_REQUIRE(w->now < slot->bound && next <= slot->bound);
  }
  size_t places = w->addresses == 1 ? 2 : w->addresses;
  FUZZ_REQUIRE(w->peer_count <= places + 8 * w->addresses);
  FUZZ_REQUIRE(counter(w, "requests_with_slot") <= w->max_in_flight);
  FUZZ_REQUIRE(counter(w, "requests_without_slot") <= w->max_unsent);
}

/* As the driver's loop: until nothing is due. */
static inline void turn(struct world *w) {
  for (int i = 0; i == 0 || tkt_client_next_deadline(w->client) <= w->now; i++) {
    FUZZ_REQUIRE(i < TURNS_MAX);
    tkt_client_tick(w->client, w->now);
    serve(w);
    for (struct tkt_call *call; (call = tkt_client_next_done(w->client));)
      call_ended(w, call);
  }
  require_bounds(w);
}

/* Every server does its duty once; `how` chooses what acquires are told. */
static inline void behave(struct world *w, uint8_t how) {
  static const enum tkt_msg_kind answers[] = {TKT_MSG_GRANTED, TKT_MSG_TIMED_OUT, TKT_MSG_BUSY};
  for (size_t i = 0; i < w->peer_count; i++) {
    struct peer *p = w->peers[i];
    connect_peer(w, p);
    greet(w, p);
    p->room = SIZE_MAX;
    if (p->blocked) write_peer(w, p);
    shut_peer(p);
    if (p->proved && p->ours) welcome(p);
    for (size_t j = 0; j < p->request_count && how % 4 < 3; j++) {
      const struct request *r = &p->requests[j];
      struct tkt_msg msg = {.kind = answers[how % 4], .id = r->id, .set = r->name == KEYS};
      msg.key_count = name_keys(r->name, msg.keys);
      msg.token = r->release ? r->token : w->next_token++;
      if (r->release) msg.kind = TKT_MSG_RELEASED;
      say(p, &msg);
    }
    deliver(w, p, 0);
    if (p->shut && !p->eof) {
      p->eof = true;
      tkt_session_eof(p->session, w->now);
    }
  }
}

/* Time goes by in the steps the engine asks for. */
static inline void let_pass(struct world *w, int64_t length, bool servers_behave) {
  int64_t until = w->now + length;
  for (int i = 0;; i++) {
    FUZZ_REQUIRE(i < SERVE_MAX);
    turn(w);
    if (servers_behave) {
      behave(w, 0);
      turn(w);
    }
    if (w->now == until) return;
    int64_t next = tkt_client_next_deadline(w->client);
    w->now = next < until ? next : until;
  }
}

/* Nothing is under way and nothing is kept but what the caller has. */
static inline void require_rest(const struct world *w) {
  size_t kept = 0;
  for (int i = 0; i < TICKETS; i++)
    kept += w->lent[i].ticket != NULL;
  for (int i = 0; i < CALLS; i++) {
    const struct tkt_call *call = w->calls[i].call;
    if (!call) continue;
    FUZZ_REQUIRE(call->outcome != TKT_PENDING);
    kept += call->kind == TKT_CALL_ACQUIRE && call->ticket;
  }
  FUZZ_REQUIRE(counter(w, "tickets") == kept);
  FUZZ_REQUIRE(counter(w, "requests_with_slot") == 0 && counter(w, "requests_without_slot") == 0);
  FUZZ_REQUIRE(counter(w, "releases_under_way") == 0);
}

static inline void end_world(struct world *w) {
  while (w->peer_count)
    free_peer(w, w->peers[0]);
  tkt_client_free(w->client);
  for (int i = 0; i < CALLS; i++)
    free(w->calls[i].call);
  free(w);
}

#endif
