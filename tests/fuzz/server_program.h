/* The whole server engine: sessions of both wires that send anything at any cut, end in every way,
 * read slowly; time; a storage that delays, fails and cannot say.
 *
 * The input is a program, a byte an operation with its arguments behind it (see `run`). Held:
 *   - the storage never gets a grant of a key that another token has there: no two holders, no
 * part of a set;
 *   - tokens grow;
 *   - what the engine says is whole frames of the session's wire;
 *   - at the end, with the sessions gone and the leases over, nothing is left. */
#include "server/server.h"
#ifndef TKT_TESTS_FUZZ_SERVER_PROGRAM_H
#define TKT_TESTS_FUZZ_SERVER_PROGRAM_H

#include "fuzz/target.h"
#include "server/state.h"
#include "wire/proof.h"

enum { SESSIONS = 4, STORED_MAX = 4096, BATCHES_MAX = 512, OUTPUT_BYTES = 4096 };

static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h-is-a-longer-key"};
enum { NAMES = sizeof names / sizeof *names };

/* What the storage has: which token has which key. */
struct stored {
  uint64_t token;
  struct tkt_span key; /* of heap */
};

struct waiting_batch {
  uint64_t number;
  size_t first, count; /* in `pending` */
};

struct note {
  enum tkt_change_kind kind;
  uint64_t token;
  struct tkt_span key; /* of heap */
};

struct session {
  struct tkt_peer *peer;
  struct tkt_parser parser; /* of what it reads */
  bool stuck;               /* takes no byte */
  uint8_t nonce[64];
  size_t nonce_len;
  uint64_t next_id;
};

struct world {
  struct tkt_storage storage;
  struct tkt_server *server;
  int64_t now;
  struct tkt_span input;
  struct session sessions[SESSIONS];
  enum tkt_commit answer;
  bool unknown_is_stored;
  size_t stored_count;
  struct stored stored[STORED_MAX];
  size_t batch_first, batch_count;
  struct waiting_batch batches[BATCHES_MAX];
  struct note *notes; /* of the batches not decided */
  size_t note_count, note_cap;
  uint64_t newest, seen_token;
};

static inline uint8_t next_byte(struct world *w) {
  if (w->input.len == 0) return 0;
  uint8_t byte = *w->input.data;
  w->input = tkt_span(w->input.data + 1, w->input.len - 1);
  return byte;
}

static inline struct tkt_span next_bytes(struct world *w, size_t n) {
  if (n > w->input.len) n = w->input.len;
  struct tkt_span bytes = tkt_span(w->input.data, n);
  w->input = tkt_span(w->input.data + n, w->input.len - n);
  return bytes;
}

/* --- storage -------------------------------------------------------------------------------------
 */

static inline struct tkt_span own(struct tkt_span key) {
  uint8_t *copy = malloc(key.len);
  FUZZ_REQUIRE(copy);
  memcpy(copy, key.data, key.len);
  return tkt_span(copy, key.len);
}

static inline void disown(struct tkt_span key) {
  union {
    const uint8_t *borrowed;
    uint8_t *owned;
  } p = {key.data};
  free(p.owned);
}

static inline void store(struct world *w, const struct note *note) {
  if (note->kind == TKT_CHANGE_EXTEND) return;
  for (size_t i = 0; i < w->stored_count; i++) {
    struct stored *s = &w->stored[i];
    if (!tkt_span_equal(s->key, note->key)) continue;
    FUZZ_REQUIRE(note->kind != TKT_CHANGE_GRANT); /* two holders */
    if (s->token != note->token) continue;
    disown(s->key);
    *s = w->stored[--w->stored_count];
    return;
  }
  if (note->kind != TKT_CHANGE_GRANT) return; /* of a grant whose fate was unknown */
  FUZZ_REQUIRE(w->stored_count < STORED_MAX);
  w->stored[w->stored_count++] = (struct stored){note->token, own(note->key)};
}

static inline void take_note(struct world *w, const struct tkt_change *change) {
  for (size_t k = 0; k < change->key_count; k++) {
    if (w->note_count == w->note_cap) {
      w->note_cap = w->note_cap ? w->note_cap * 2 : 64;
      w->notes = realloc(w->notes, w->note_cap * sizeof *w->notes);
      FUZZ_REQUIRE(w->notes);
    }
    w->notes[w->note_count++] = (struct note){change->kind, change->token, own(change->keys[k])};
  }
}

/* Whether the result leaves the changes in the storage. */
static inline bool is_stored(const struct world *w, enum tkt_commit result) {
  return result == TKT_COMMIT_DONE || (result == TKT_COMMIT_UNKNOWN && w->unknown_is_stored);
}

static inline void settle_notes(struct world *w, size_t first, size_t count, bool stored) {
  for (size_t i = first; i < first + count; i++) {
    if (stored) store(w, &w->notes[i]);
    disown(w->notes[i].key);
    w->notes[i].key = tkt_span(NULL, 0);
  }
}

static inline enum tkt_commit commit(struct tkt_storage *storage, uint64_t batch,
                                     const struct tkt_change *changes, size_t count) {
  struct world *w = (struct world *)(void *)storage;
  size_t first = w->note_count;
  FUZZ_REQUIRE(count > 0);
  for (size_t i = 0; i < count; i++) {
    FUZZ_REQUIRE(changes[i].key_count >= 1 && changes[i].key_count <= TKT_KEY_SET_MAX);
    if (changes[i].kind == TKT_CHANGE_GRANT) {
      FUZZ_REQUIRE(changes[i].token > w->newest);
      w->newest = changes[i].token;
    }
    take_note(w, &changes[i]);
  }
  /* At once only where nothing is pending, so that no batch overtakes another. */
  if (w->answer == TKT_COMMIT_PENDING || w->batch_count > 0) {
    FUZZ_REQUIRE(w->batch_first + w->batch_count < BATCHES_MAX);
    w->batches[w->batch_first + w->batch_count++] =
        (struct waiting_batch){batch, first, w->note_count - first};
    return TKT_COMMIT_PENDING;
  }
  settle_notes(w, first, w->note_count - first, is_stored(w, w->answer));
  w->note_count = first;
  return w->answer;
}

static inline void decide_oldest(struct world *w, enum tkt_commit result) {
  if (w->batch_count == 0) return;
  struct waiting_batch batch = w->batches[w->batch_first++];
  if (--w->batch_count == 0) w->batch_first = 0;
  settle_notes(w, batch.first, batch.count, is_stored(w, result));
  if (w->batch_count == 0) w->note_count = 0;
  tkt_server_committed(w->server, batch.number, result, w->now);
}

/* --- sessions ------------------------------------------------------------------------------------
 */

static inline bool nonce(void *context, uint8_t *out, size_t len) {
  (void)context;
  memset(out, 'n', len);
  return true;
}

static inline void connect_session(struct world *w, struct session *s,
                                   const struct tkt_wire *wire) {
  if (s->peer) return;
  memset(s, 0, sizeof *s);
  tkt_parser_init(&s->parser, wire, TKT_PHASE_GREETING);
  s->peer = tkt_server_accept(w->server, wire, s, w->now);
}

static inline void send_bytes(struct world *w, struct session *s, struct tkt_span bytes) {
  if (!s->peer) return;
  uint8_t *copy = malloc(bytes.len + !bytes.len); /* dies right after, as a read buffer does */
  FUZZ_REQUIRE(copy);
  if (bytes.len) memcpy(copy, bytes.data, bytes.len);
  tkt_server_input(w->server, s->peer, tkt_span(copy, bytes.len), w->now);
  free(copy);
}

static inline void prove(struct world *w, struct session *s) {
  uint8_t proof[TKT_WIRE2_PROOF_LEN + 1];
  struct tkt_span secret = tkt_span_str("secret"), said = tkt_span(s->nonce, s->nonce_len);
  if (!s->peer || s->nonce_len == 0) return;
  if (s->parser.wire->version == 2) {
    FUZZ_REQUIRE(tkt_wire2_proof(secret, said, (char *)proof));
    proof[TKT_WIRE2_PROOF_LEN] = '\n';
    send_bytes(w, s, tkt_span(proof, sizeof proof));
  } else {
    FUZZ_REQUIRE(tkt_wire3_proof(secret, 0, tkt_wire3_single_identity, 255, said, proof));
    send_bytes(w, s, tkt_span(proof, TKT_WIRE3_PROOF_LEN));
  }
}

/* Names the token and the keys of something stored, in order. */
static inline void name_stored(const struct world *w, struct tkt_msg *msg, size_t which) {
  msg->token = w->stored[which % w->stored_count].token;
  msg->key_count = 0;
  for (size_t k = 0; k < NAMES; k++)
    for (size_t i = 0; i < w->stored_count; i++)
      if (w->stored[i].token == msg->token &&
          tkt_span_equal(w->stored[i].key, tkt_span_str(names[k])))
        msg->keys[msg->key_count++] = tkt_span_str(names[k]);
}

/* A request that is well formed, mostly. */
static inline void request(struct world *w, struct session *s) {
  if (!s->peer) return;
  uint8_t how = next_byte(w), which = next_byte(w), times = next_byte(w);
  struct tkt_msg msg = {.kind = how & 1 ? TKT_MSG_RELEASE : TKT_MSG_ACQUIRE};
  bool framed = s->parser.wire->version == 3;
  msg.set = framed && how & 2;
  if (msg.set) {
    for (size_t k = 0; k < NAMES; k++)
      if (which >> k & 1) msg.keys[msg.key_count++] = tkt_span_str(names[k]);
    if (which >> 7 && how >> 6 == 2 && msg.key_count > 1) { /* out of order */
      struct tkt_span last = msg.keys[msg.key_count - 1];
      size_t at = which & 1;
      memmove(&msg.keys[at + 1], &msg.keys[at], (msg.key_count - 1u - at) * sizeof last);
      msg.keys[at] = last;
    }
  } else {
    msg.key_count = 1;
    msg.keys[0] = tkt_span_str(names[which % NAMES]);
  }
  msg.id = how & 4 ? times : ++s->next_id + (framed ? 0 : (uint64_t)(how >> 3) << 32);
  msg.wait_s = times >> 4;
  msg.lease_s = how >> 6 == 3 ? times & 15 : 1 + times % 8;
  msg.token = w->seen_token - times % 8;
  if (msg.kind == TKT_MSG_RELEASE && how & 8 && w->stored_count > 0) {
    name_stored(w, &msg, times);
    msg.set = framed && (msg.set || msg.key_count > 1);
  }
  size_t size = s->parser.wire->encoded_size(&msg);
  if (size == 0) return;
  uint8_t *frame = malloc(size);
  FUZZ_REQUIRE(frame);
  s->parser.wire->encode(&msg, frame);
  send_bytes(w, s, tkt_span(frame, size));
  free(frame);
}

static inline void reads(struct world *w, struct session *s, struct tkt_span bytes) {
  struct tkt_msg msg;
  enum tkt_decode r;
  tkt_parser_push(&s->parser, bytes);
  while ((r = tkt_parser_next(&s->parser, &msg)) == TKT_DECODE_OK) {
    if (msg.kind == TKT_MSG_GREETING) {
      FUZZ_REQUIRE(msg.nonce.len <= sizeof s->nonce);
      memcpy(s->nonce, msg.nonce.data, msg.nonce.len);
      s->nonce_len = msg.nonce.len;
      s->parser.phase = s->parser.wire->version == 3 ? TKT_PHASE_VERDICT : TKT_PHASE_REPLIES;
    } else if (msg.kind == TKT_MSG_VERDICT) {
      s->parser.phase = TKT_PHASE_REPLIES;
    } else if (msg.kind == TKT_MSG_GRANTED) {
      FUZZ_REQUIRE(msg.token <= w->newest);
      w->seen_token = msg.token;
    }
  }
  FUZZ_REQUIRE(r == TKT_DECODE_MORE);
}

static inline void serve(struct world *w, struct session *s, size_t most) {
  unsigned wants = tkt_peer_wants(s->peer);
  if (wants & TKT_PEER_WRITE && !s->stuck) {
    struct tkt_span out = tkt_peer_output(s->peer);
    FUZZ_REQUIRE(out.len <= OUTPUT_BYTES);
    if (out.len > most) out.len = most;
    reads(w, s, out);
    if (most & 1) tkt_server_handed(w->server, s->peer, out.len);
    tkt_server_sent(w->server, s->peer, out.len);
    wants = tkt_peer_wants(s->peer);
  }
  if (wants & TKT_PEER_CLOSE) {
    tkt_server_closed(w->server, s->peer, w->now);
    tkt_parser_release(&s->parser);
    s->peer = NULL;
  }
}

static inline void turn(struct world *w, size_t most) {
  while (w->batch_first + w->batch_count == BATCHES_MAX) /* room for one more */
    decide_oldest(w, TKT_COMMIT_DONE);
  tkt_server_turn(w->server, w->now);
  for (struct tkt_peer *peer; (peer = tkt_server_next_dirty(w->server));)
    serve(w, tkt_peer_connection(peer), most);
}

/* --- the program ---------------------------------------------------------------------------------
 */

static inline void run(struct world *w) {
  while (w->input.len > 0) {
    uint8_t byte = next_byte(w);
    struct session *s = &w->sessions[byte >> 6];
    switch (byte & 15) {
    case 0:
    case 1:
      connect_session(w, s, byte & 1 ? &tkt_wire3 : &tkt_wire2);
      turn(w, SIZE_MAX);
      break;
    case 2:
      send_bytes(w, s, next_bytes(w, next_byte(w)));
      break;
    case 3:
      prove(w, s);
      break;
    case 4:
    case 5:
    case 6:
      request(w, s);
      break;
    case 7:
      if (s->peer) tkt_server_eof(w->server, s->peer, w->now);
      break;
    case 8:
      if (s->peer) tkt_server_gone(w->server, s->peer, w->now);
      break;
    case 9:
      w->now += (int64_t)next_byte(w) * 20 * TKT_MS;
      turn(w, SIZE_MAX);
      break;
    case 10:
      w->now += (int64_t)next_byte(w) * TKT_S;
      turn(w, SIZE_MAX);
      break;
    case 11:
      s->stuck = byte & 16;
      break;
    case 12:
      turn(w, 1 + (size_t)next_byte(w));
      break;
    case 13: { /* how the storage answers from now on */
      static const enum tkt_commit answers[] = {TKT_COMMIT_DONE, TKT_COMMIT_PENDING,
                                                TKT_COMMIT_FAILED, TKT_COMMIT_UNKNOWN};
      w->answer = answers[byte >> 4 & 3];
      w->unknown_is_stored = byte >> 6 & 1;
      break;
    }
    case 14:
      decide_oldest(w, TKT_COMMIT_DONE + (byte >> 4) % 3);
      break;
    default:
      if (byte == 255) tkt_server_drain(w->server, w->now);
      turn(w, SIZE_MAX);
      break;
    }
  }
}

static inline void wind_up(struct world *w) {
  w->answer = TKT_COMMIT_DONE;
  for (size_t i = 0; i < SESSIONS; i++)
    if (w->sessions[i].peer) tkt_server_gone(w->server, w->sessions[i].peer, w->now);
  turn(w, SIZE_MAX);
  for (int round = 0; round < 4; round++) {
    while (w->batch_count > 0) {
      decide_oldest(w, TKT_COMMIT_DONE);
      turn(w, SIZE_MAX);
    }
    w->now += 300 * TKT_S;
    turn(w, SIZE_MAX);
  }
  const struct tkt_server *server = w->server;
  FUZZ_REQUIRE(server->stats.sessions == 0 && server->stats.sessions_unauthenticated == 0);
  FUZZ_REQUIRE(server->stats.waiters == 0 && server->stats.keys_held == 0);
  FUZZ_REQUIRE(server->locks.count == 0 && server->owners.count == 0 && server->sets.count == 0);
  FUZZ_REQUIRE(server->ids.count == 0 && server->release_ids.count == 0);
  FUZZ_REQUIRE(server->waiter_pool.used == 0 && server->waiter_set_pool.used == 0);
  FUZZ_REQUIRE(server->grant_pool.used == 0 && server->grant_set_pool.used == 0);
  FUZZ_REQUIRE(server->release_pool.used == 0 && server->set_pool.used == 0);
  FUZZ_REQUIRE(server->wheel.armed == 0);
}

/* Runs the program to its end; what the engine counted. */
static inline struct tkt_server_stats run_program(const uint8_t *data, size_t size) {
  static struct world w;
  memset(&w, 0, sizeof w);
  w.storage.commit = commit;
  w.answer = TKT_COMMIT_DONE;
  w.now = 1000 * TKT_S;
  w.seen_token = 100;
  w.input = tkt_span(data, size);
  const struct tkt_client_token token = {"t", tkt_span_str("secret")};
  struct tkt_server_config config = {
      .limits = tkt_server_limits_default,
      .tokens = &token,
      .token_count = 1,
      .first_token = 100,
      .hash_secret = {1, 2},
      .storage = &w.storage,
      .nonce = nonce,
  };
  config.limits.output_bytes = OUTPUT_BYTES;
  config.limits.waiters_per_key = 8;
  config.limits.requests_per_session = 16;
  config.limits.keys = 6;
  w.server = tkt_server_new(&config, w.now);
  FUZZ_REQUIRE(w.server);
  run(&w);
  wind_up(&w);
  struct tkt_server_stats stats = tkt_server_stats(w.server);
  tkt_server_free(w.server);
  for (size_t i = 0; i < w.stored_count; i++)
    disown(w.stored[i].key);
  free(w.notes);
  return stats;
}

#endif
