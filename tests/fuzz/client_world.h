/* The world around a client engine that is fuzzed: a driver as the real one, servers that keep what
 * they got, and a ledger of what the caller asked. Each acquire of a run has a lease of its own, so
 * a request tells from outside which acquire it belongs to. */
#ifndef TKT_TESTS_FUZZ_CLIENT_WORLD_H
#define TKT_TESTS_FUZZ_CLIENT_WORLD_H

#include "client/client.h"
#include "fuzz/target.h"
#include "wire/parser.h"
#include "wire/proof.h"
#include "wire/wire2.h"
#include "wire/wire3.h"

enum {
  CALLS = 24,       /* at a time */
  TICKETS = 24,     /* lent at a time */
  ACQUIRES = 200,   /* in a run: below the number of leases there are */
  PEERS = 64,       /* open connections */
  REQUESTS = 512,   /* unanswered, of one connection */
  FACTS = 1024,     /* things remembered of one kind */
  KEYS = 5,         /* that the caller uses */
  NAMES = KEYS + 1, /* what it asks for: a key, or the set of the first and the last but one */
  TURNS_MAX = 200,  /* turns in a row without time passing */
};
/* A timer is late by a tick at most. */
#define SLACK (2 * TKT_MS)

struct request {
  uint64_t id;    /* as the wire has it: of a release of wire 2 the token */
  uint64_t token; /* release */
  uint8_t name;
  uint8_t asked; /* acquire: whose; else ACQUIRES */
  bool release;
};

struct peer {
  struct tkt_session *session;
  struct tkt_buf received;       /* by the server, not decoded yet */
  struct tkt_buf inbound;        /* on its way to the client */
  struct tkt_buf fed;            /* given to the client, not decoded here yet */
  struct tkt_buf offered;        /* TLS: what the next output has to begin with */
  const struct tkt_wire *speaks; /* the server; wire 2 until it has greeted */
  const struct tkt_wire *heard;  /* what the client took it for; either, at first */
  enum tkt_phase sends, gets;
  size_t room; /* bytes the kernel takes */
  char nonce[TKT_WIRE2_LINE_MAX];
  size_t nonce_len;
  uint8_t slot, mode; /* wire 3, as greeted */
  struct request requests[REQUESTS];
  size_t request_count;
  bool connected, greeted, ours, proved, welcomed, confirmed, tls, blocked, shut_wanted, shut, eof;
  bool faulted;  /* the client was given what breaks the protocol */
  bool doubtful; /* ... perhaps */
  bool begun;    /* the acquire `begun_asked` left in part */
  uint8_t begun_asked;
};

struct call_slot {
  struct tkt_call *call; /* its own allocation, so that use after a forget is seen; NULL: free */
  int64_t bound;         /* it must have ended by then */
  uint64_t token;        /* release */
  uint8_t name, asked;
  bool reported, cancelled, taken;
};

struct asked {
  int64_t called_at, budget_ns;
  uint8_t name, wait_s, lease_s;
  bool outstanding; /* a request of it is at a server, without an answer */
  bool seen, told_timed_out, told_busy, told_refused;
  enum tkt_outcome ended;
};

struct lent {
  struct tkt_ticket *ticket; /* NULL: free */
  uint64_t token;
  uint8_t name;
  bool detached;
};

/* A token and name of which something is known. */
struct fact {
  uint64_t token;
  uint8_t name, asked;
  bool used;
};
struct facts {
  struct fact at[FACTS];
  size_t count;
};

struct world {
  struct tkt_client *client;
  int64_t now;
  struct tkt_span token;
  size_t addresses;
  uint32_t max_in_flight, max_unsent;
  struct peer *peers[PEERS];
  size_t peer_count;
  struct call_slot calls[CALLS];
  struct asked asked[ACQUIRES];
  size_t asked_count;
  struct lent lent[TICKETS];
  struct facts grants;   /* A fed, in order, of an acquire that was waiting for it */
  struct facts tokens;   /* every token that was fed, or that the caller named */
  struct facts released; /* R fed */
  struct facts gone;     /* N fed */
  struct facts may_go;   /* release asked by the caller */
  struct facts detached; /* and given back */
  uint64_t owners[FACTS];
  size_t owner_count;
  uint64_t next_token;
  bool vague;   /* a byte of a request left without showing whose it is */
  bool at_once; /* connections come up at once */
  bool welcomes;
  bool framed;          /* servers speak wire 3 */
  bool release_refused; /* some release was told an error */
  bool blind;           /* a server answered by a guessed id what it had only in part: who asked
                           what is not known here any more */
  bool tls;
  bool closing;
};

/* What depends on knowing which request an answer was for. */
#define FUZZ_JUDGE(condition) FUZZ_REQUIRE(w->blind || (condition))

static const char long_key[] =
    "a-key-of-128-bytes-0123456789012345678901234567890123456789012345678901234567890123456789"
    "01234567890123456789012345678901234567";
static const char *const key_texts[KEYS] = {"k", "key-1", "\xc3\xa9\xe2\x82\xac", "k2", long_key};
static const char *const address_texts[] = {"127.0.0.1:1", "127.0.0.1:2", "[::1]:3"};

static const uint8_t identity[TKT_WIRE3_IDENTITY_LEN] = "an identity of a deployment";

static inline struct tkt_span key_span(uint8_t key) {
  return tkt_span_str(key_texts[key]);
}

/* The keys of a name, sorted: how many. */
static inline uint8_t name_keys(uint8_t name, struct tkt_span keys[TKT_KEY_SET_MAX]) {
  keys[0] = key_span(name < KEYS ? name : 0);
  keys[1] = key_span(KEYS - 2);
  return name < KEYS ? 1 : 2;
}

/* NAMES: none of ours. */
static inline uint8_t name_of(const struct tkt_span *keys, size_t count) {
  struct tkt_span own[TKT_KEY_SET_MAX];
  for (uint8_t name = 0; name < NAMES; name++) {
    if (name_keys(name, own) != count) continue;
    size_t same = 0;
    while (same < count && tkt_span_equal(keys[same], own[same]))
      same++;
    if (same == count) return name;
  }
  return NAMES;
}

static inline void append(struct tkt_buf *buf, const void *data, size_t len) {
  if (len == 0) return;
  uint8_t *room = tkt_buf_reserve(buf, len, 1u << 26);
  FUZZ_REQUIRE(room);
  memcpy(room, data, len);
  tkt_buf_commit(buf, len);
}

static inline void note(struct facts *facts, uint64_t token, uint8_t name, uint8_t asked) {
  if (facts->count < FACTS)
    facts->at[facts->count++] = (struct fact){.token = token, .name = name, .asked = asked};
}

static inline size_t known(const struct facts *facts, uint64_t token, uint8_t name) {
  size_t n = facts->count == FACTS; /* full: anything may be known */
  for (size_t i = 0; i < facts->count; i++)
    n += facts->at[i].token == token && facts->at[i].name == name;
  return n;
}

#endif
