/* The servers around a client engine that is fuzzed: what they get, and what the client was told,
 * both decoded here beside the engine. */
#ifndef TKT_TESTS_FUZZ_CLIENT_SERVERS_H
#define TKT_TESTS_FUZZ_CLIENT_SERVERS_H

#include "fuzz/client_world.h"

/* --- mouth -------------------------------------------------------------------------------------
 */

/* False where the server's wire does not carry it. */
static inline bool say(struct peer *p, const struct tkt_msg *msg) {
  return tkt_wire_append(p->speaks, msg, &p->inbound, 1u << 26);
}

static inline void greet_line(struct peer *p, const char *line) {
  if (p->greeted) return;
  p->greeted = true;
  append(&p->inbound, line, strlen(line));
}

static inline void greet_framed(struct peer *p, uint8_t mode, uint8_t slot) {
  if (p->greeted) return;
  p->greeted = true;
  p->speaks = &tkt_wire3;
  struct tkt_msg msg = {.kind = TKT_MSG_GREETING, .version = 3, .mode = mode, .slot = slot};
  msg.nonce = tkt_span("0123456789abcdef", TKT_WIRE3_NONCE_LEN);
  FUZZ_REQUIRE(say(p, &msg));
}

/* As a good server of this run would. */
static inline void greet(const struct world *w, struct peer *p) {
  if (!w->framed)
    greet_line(p, "cluster a-nonce\n");
  else if (w->addresses == 1)
    greet_framed(p, TKT_WIRE_SINGLE, TKT_SLOT_NONE);
  else
    greet_framed(p, TKT_WIRE_CLUSTER, (uint8_t)tkt_session_address(p->session));
}

/* The sign of acceptance. */
static inline void welcome(struct peer *p) {
  if (p->welcomed) return;
  p->welcomed = true;
  struct tkt_msg msg = {.kind = p->speaks == &tkt_wire3 ? TKT_MSG_VERDICT : TKT_MSG_KEEPALIVE,
                        .accepted = true};
  FUZZ_REQUIRE(say(p, &msg));
}

/* --- ears --------------------------------------------------------------------------------------
 */

static inline void forget_request(struct peer *p, struct request *r) {
  *r = p->requests[--p->request_count];
}

/* The unanswered request with this identifier; NULL: none. */
static inline struct request *request_of(struct peer *p, bool release, uint64_t id, uint8_t name) {
  for (size_t i = 0; i < p->request_count; i++) {
    struct request *r = &p->requests[i];
    if (p->heard == &tkt_wire3 ? r->id == id
                               : r->release == release && r->id == id && r->name == name)
      return r;
  }
  return NULL;
}

static inline void keep_request(struct peer *p, struct request r) {
  FUZZ_REQUIRE(p->request_count < REQUESTS);
  p->requests[p->request_count++] = r;
}

static inline uint8_t asked_by_lease(const struct world *w, unsigned lease) {
  for (size_t i = 0; i < w->asked_count; i++)
    if (w->asked[i].lease_s == lease) return (uint8_t)i;
  FUZZ_REQUIRE(!"a request that nobody asked for");
  return ACQUIRES;
}

/* A request of this acquire shows: it must not be over, nor asked twice (S2). */
static inline struct asked *acquire_shows(struct world *w, uint8_t index) {
  struct asked *a = &w->asked[index];
  FUZZ_JUDGE(a->ended == TKT_PENDING || a->ended == TKT_INDETERMINATE);
  FUZZ_JUDGE(!a->outstanding);
  a->seen = true;
  return a;
}

static inline void require_new_id(struct world *w, struct peer *p, uint64_t id) {
  FUZZ_JUDGE(id != 0);
  if (p->heard == &tkt_wire3) {
    FUZZ_JUDGE(!request_of(p, false, id, NAMES));
    return;
  }
  for (size_t i = 0; i < w->owner_count; i++)
    FUZZ_JUDGE(w->owners[i] != id);
  if (w->owner_count < FACTS) w->owners[w->owner_count++] = id;
}

static inline void got_acquire(struct world *w, struct peer *p, const struct tkt_msg *msg) {
  uint8_t index = asked_by_lease(w, msg->lease_s);
  struct asked *a = acquire_shows(w, index);
  FUZZ_JUDGE(name_of(msg->keys, msg->key_count) == a->name && msg->wait_s <= a->wait_s);
  require_new_id(w, p, msg->id);
  a->outstanding = true;
  keep_request(p, (struct request){.id = msg->id, .name = a->name, .asked = index});
}

/* The engine's own decision to release: never of what the caller holds, nor of what it detached
 * (G4), unless a server gave that out twice. */
static inline void require_may_go(const struct world *w, uint64_t token, uint8_t name) {
  if (known(&w->may_go, token, name)) return;
  for (size_t i = 0; i < TICKETS; i++)
    FUZZ_JUDGE(!w->lent[i].ticket || w->lent[i].token != token || w->lent[i].name != name);
  if (known(&w->tokens, token, name) == 1 && w->detached.count < FACTS)
    FUZZ_JUDGE(!known(&w->detached, token, name));
}

static inline void got_release(struct world *w, struct peer *p, const struct tkt_msg *msg) {
  bool framed = p->heard == &tkt_wire3;
  uint8_t name = name_of(msg->keys, msg->key_count);
  FUZZ_JUDGE(msg->token != 0);
  if (name == NAMES) return; /* of a grant that a server of wire 2 made up */
  FUZZ_JUDGE(known(&w->tokens, msg->token, name));
  for (size_t i = 0; i < p->request_count; i++) /* R1: never two of one token on one session */
    FUZZ_JUDGE(!p->requests[i].release || p->requests[i].token != msg->token ||
               p->requests[i].name != name);
  require_may_go(w, msg->token, name);
  if (framed) require_new_id(w, p, msg->id);
  keep_request(p, (struct request){.id = framed ? msg->id : msg->token,
                                   .token = msg->token,
                                   .name = name,
                                   .asked = ACQUIRES,
                                   .release = true});
}

static inline void got_proof(struct world *w, struct peer *p, const struct tkt_msg *msg) {
  uint8_t proof[TKT_WIRE2_PROOF_LEN];
  size_t len = TKT_WIRE2_PROOF_LEN;
  struct tkt_span nonce = tkt_span(p->nonce, p->nonce_len);
  if (p->heard == &tkt_wire3) {
    len = TKT_WIRE3_PROOF_LEN;
    FUZZ_REQUIRE(tkt_wire3_proof(w->token, p->mode,
                                 p->mode == TKT_WIRE_CLUSTER ? identity : tkt_wire3_single_identity,
                                 p->slot, nonce, proof));
  } else {
    FUZZ_REQUIRE(tkt_wire2_proof(w->token, nonce, (char *)proof));
  }
  FUZZ_REQUIRE(tkt_span_equal(msg->text, tkt_span(proof, len)));
  p->proved = true;
  p->gets = TKT_PHASE_REQUESTS;
  if (w->welcomes) welcome(p);
}

/* The beginning of a request: where it tells which acquire it is of, that one counts as sent. */
static inline void got_beginning(struct world *w, struct peer *p, struct tkt_span bytes) {
  if (p->gets != TKT_PHASE_REQUESTS || bytes.len == 0) return;
  bool framed = p->heard == &tkt_wire3;
  bool acquire = bytes.data[0] == 'A' || (framed && bytes.data[0] == 'S');
  size_t lease_end = framed ? TKT_WIRE3_HEADER + TKT_WIRE3_ACQUIRE_FIXED : 5;
  p->begun = acquire && bytes.len >= lease_end;
  if (!p->begun) {
    w->vague = true;
    return;
  }
  const uint8_t *end = bytes.data + lease_end;
  p->begun_asked = asked_by_lease(w, framed ? end[-1] : tkt_load16(end - 2));
  acquire_shows(w, p->begun_asked);
}

/* Bytes that left the client. */
static inline void receive(struct world *w, struct peer *p, struct tkt_span bytes) {
  append(&p->received, bytes.data, bytes.len);
  for (;;) {
    struct tkt_msg msg;
    size_t used = 0;
    struct tkt_span all = tkt_buf_span(&p->received);
    enum tkt_decode got = p->heard->decode(p->gets, all, &msg, &used);
    if (got == TKT_DECODE_MORE) {
      got_beginning(w, p, all);
      return;
    }
    FUZZ_REQUIRE(got == TKT_DECODE_OK);
    FUZZ_REQUIRE(msg.kind == TKT_MSG_PROOF || p->confirmed || !p->ours); /* accepted before */
    if (msg.kind == TKT_MSG_PROOF)
      got_proof(w, p, &msg);
    else if (msg.kind == TKT_MSG_ACQUIRE)
      got_acquire(w, p, &msg);
    else
      got_release(w, p, &msg);
    p->begun = false;
    tkt_buf_consume(&p->received, used);
  }
}

/* --- what the client gets ----------------------------------------------------------------------
 */

static inline void fed_greeting(struct peer *p, const struct tkt_msg *msg) {
  memcpy(p->nonce, msg->nonce.data, msg->nonce.len);
  p->nonce_len = msg->nonce.len;
  p->heard = tkt_wire_of(msg->version);
  p->slot = msg->slot;
  p->mode = msg->mode;
  p->ours = msg->version == 3 || tkt_span_equal(msg->text, tkt_span_str("single")) ||
            tkt_span_equal(msg->text, tkt_span_str("cluster"));
  p->sends = msg->version == 3 ? TKT_PHASE_VERDICT : TKT_PHASE_REPLIES;
}

static inline void fed_to_acquire(struct world *w, struct peer *p, struct request *r,
                                  const struct tkt_msg *msg) {
  struct asked *a = &w->asked[r->asked];
  bool set = r->name == KEYS;
  switch (msg->kind) {
  case TKT_MSG_GRANTED:
    if (msg->token == 0 || (p->heard == &tkt_wire3 && msg->set != set)) break;
    note(&w->grants, msg->token, r->name, r->asked);
    a->outstanding = false;
    return;
  case TKT_MSG_TIMED_OUT:
    a->told_timed_out = true;
    a->outstanding = false;
    return;
  case TKT_MSG_BUSY:
    a->told_busy = true;
    a->outstanding = false;
    return;
  case TKT_MSG_MOVED:
    a->outstanding = false;
    return;
  case TKT_MSG_UNCERTAIN: /* outstanding for ever: Indeterminate */
    return;
  case TKT_MSG_ERROR:
    if (msg->error == TKT_WIRE_ERROR_UNKNOWN || msg->error >= TKT_WIRE_ERROR_GROUP_MISMATCH ||
        (msg->error == TKT_WIRE_ERROR_BAD_KEY_SET && !set))
      break;
    a->told_refused =
        msg->error != TKT_WIRE_ERROR_NO_LEADER && msg->error != TKT_WIRE_ERROR_NOT_ACTIVE;
    a->outstanding = false;
    return;
  default:
    break;
  }
  p->faulted = true;
}

static inline void fed_to_release(struct world *w, struct peer *p, struct request *r,
                                  const struct tkt_msg *msg) {
  switch (msg->kind) {
  case TKT_MSG_RELEASED:
    if (p->heard == &tkt_wire3 && msg->set != (r->name == KEYS)) break;
    note(&w->released, r->token, r->name, ACQUIRES);
    return;
  case TKT_MSG_NOT_CURRENT:
    note(&w->gone, r->token, r->name, ACQUIRES);
    return;
  case TKT_MSG_ERROR:
    if (msg->error == TKT_WIRE_ERROR_UNKNOWN || msg->error == TKT_WIRE_ERROR_BAD_LEASE ||
        (msg->error == TKT_WIRE_ERROR_BAD_KEY_SET && r->name != KEYS))
      break;
    w->release_refused = true;
    return;
  case TKT_MSG_MOVED:
  case TKT_MSG_UNCERTAIN:
    return;
  default:
    break;
  }
  p->faulted = true;
}

static inline void fed_reply(struct world *w, struct peer *p, const struct tkt_msg *msg) {
  bool release = msg->kind == TKT_MSG_RELEASED || msg->kind == TKT_MSG_NOT_CURRENT;
  bool framed = p->heard == &tkt_wire3;
  uint8_t name = framed ? NAMES : name_of(msg->keys, msg->key_count);
  struct request *r = request_of(p, release, release && !framed ? msg->token : msg->id, name);
  if (framed && r) name = r->name;
  /* A token in use breaks the protocol; whether this one still is, is not known here. */
  p->doubtful |= msg->kind == TKT_MSG_GRANTED && known(&w->tokens, msg->token, name);
  if (msg->kind == TKT_MSG_GRANTED && name < NAMES) note(&w->tokens, msg->token, name, ACQUIRES);
  if (!r) p->faulted = true;
  if (!r && framed && tkt_buf_len(&p->received)) w->blind = true;
  if (p->faulted) return;
  if (r->release)
    fed_to_release(w, p, r, msg);
  else
    fed_to_acquire(w, p, r, msg);
  if (!p->faulted && !p->doubtful) forget_request(p, r); /* else a grant may still name it (M9) */
}

static inline bool slot_exists(const struct world *w, const struct peer *p, uint8_t slot) {
  return slot == TKT_SLOT_NONE || (p->mode == TKT_WIRE_CLUSTER && slot < w->addresses);
}

static inline void fed_message(struct world *w, struct peer *p, const struct tkt_msg *msg) {
  bool framed = p->heard == &tkt_wire3;
  if (framed && (msg->kind == TKT_MSG_MOVED || msg->kind == TKT_MSG_LEADER) &&
      !slot_exists(w, p, msg->slot))
    p->faulted = true;
  switch (msg->kind) {
  case TKT_MSG_GREETING:
    fed_greeting(p, msg);
    break;
  case TKT_MSG_VERDICT:
    p->sends = TKT_PHASE_REPLIES;
    p->confirmed |= msg->accepted;
    break;
  case TKT_MSG_LEADER:
  case TKT_MSG_KEEPALIVE:
    p->confirmed |= p->proved;
    break;
  case TKT_MSG_MOVED:
  case TKT_MSG_ERROR:
    if (framed)
      fed_reply(w, p, msg);
    else if (msg->kind == TKT_MSG_ERROR && msg->error != TKT_WIRE_ERROR_NO_LEADER &&
             msg->error != TKT_WIRE_ERROR_NOT_ACTIVE && msg->error != TKT_WIRE_ERROR_AUTH_FAILED)
      p->faulted = true;
    break;
  default:
    fed_reply(w, p, msg);
    break;
  }
}

/* Notes what these bytes tell the client, before it gets them. */
static inline void observe(struct world *w, struct peer *p, struct tkt_span bytes) {
  append(&p->fed, bytes.data, bytes.len);
  for (;;) {
    struct tkt_msg msg;
    size_t used = 0;
    enum tkt_decode got = p->heard->decode(p->sends, tkt_buf_span(&p->fed), &msg, &used);
    if (got == TKT_DECODE_MORE) return;
    if (got != TKT_DECODE_OK) { /* nothing behind it can be read */
      p->faulted = true;
      tkt_buf_release(&p->fed);
      return;
    }
    fed_message(w, p, &msg);
    tkt_buf_consume(&p->fed, used);
  }
}

#endif
