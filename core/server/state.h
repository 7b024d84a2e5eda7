/* What the server engine keeps in memory: keys, grants, waiters, releases, sessions.
 *
 * The way of an acquire: a waiter is made for it; it either takes its keys at once or sits down in
 * the queue of each (a seat a key). Once it heads every queue it sits in and all its keys are free,
 * a grant is made that occupies the keys, a change goes into the open batch, and the waiter stays
 * with the grant until the storage has decided. Then the reply goes into the session's output, and
 * the waiter stays until the first byte of that reply was handed over: only so can a grant be taken
 * back of which nobody can know.
 *
 * Everything is linked through its own fields, so that leaving any queue costs the same for one
 * waiter as for ten thousand. A waiter and a grant end in an array of 1..TKT_KEY_SET_MAX places;
 * single keys come from pools of their own size. */
#ifndef TKT_SERVER_STATE_H
#define TKT_SERVER_STATE_H

#include "base/list.h"
#include "base/pool.h"
#include "base/table.h"
#include "base/time.h"
#include "base/wheel.h"
#include "server/server.h"
#include "wire/parser.h"

struct tkt_tokens;
struct tkt_batch;

/* Key records come in sizes that differ by the pool's alignment. */
enum { TKT_KEY_CLASS_STEP = 16, TKT_KEY_CLASSES = TKT_KEY_MAX / TKT_KEY_CLASS_STEP + 1 };

/* A nonce of 128 bits, as base64url without padding. */
enum { TKT_NONCE_BYTES = 16, TKT_NONCE_TEXT = 22 };

enum tkt_timer_kind { TKT_TIMER_WAIT = 1, TKT_TIMER_LEASE, TKT_TIMER_PEER };

/* A key that is held or queued for; others have no record. */
struct tkt_lock {
  struct tkt_table_node node;
  struct tkt_seat *first;  /* head of the queue (circular through the seats); NULL: nobody waits */
  struct tkt_grant *holds; /* grants that occupy the key: one, save around commits (key_free) */
  struct tkt_lock *next_ready;
  uint32_t waiting;
  uint8_t len;
  bool ready;         /* stands in the list of keys to look at before the turn ends */
  bool owners_listed; /* the owners in its queue stand in the table, see waiter.c */
  uint8_t text[];
};

/* A place in the queue of one key. */
struct tkt_seat {
  struct tkt_list node;
  struct tkt_lock *lock;
  struct tkt_waiter *waiter;
};

enum tkt_waiter_state {
  TKT_WAITER_NEW = 0,
  TKT_WAITER_QUEUED,
  TKT_WAITER_COMMITTING, /* with grant->waiter, until the storage decided */
  TKT_WAITER_ANSWERED,   /* its A stands in the output, no byte of it handed over */
};

struct tkt_waiter {
  struct tkt_table_node by_name; /* its owner (wire 2) or its id (wire 3), where those are listed */
  struct tkt_timer timer;        /* end of the wait, while queued */
  struct tkt_list of_peer;       /* peer->queued, ->committing or ->answered, after the state */
  struct tkt_peer *peer;         /* NULL: the session ended while in commit */
  struct tkt_grant *grant;       /* committing, answered */
  uint64_t id;                   /* wire 2: the owner; wire 3: the request's id */
  union {
    struct tkt_peer *came_from; /* queued: the session it moved here from, or NULL */
    uint64_t reply_at;          /* answered: offset of the reply in all the session's output */
    size_t entry;               /* committing and staged: its change in the open batch */
  };
  uint8_t lease_s;
  uint8_t came_lease_s; /* with came_from: what it asked for there */
  uint8_t key_count;
  uint8_t state;
  bool staged;       /* committing: the newest change of its grant is still in the open batch */
  bool owned;        /* `id` is an owner that later requests may name again */
  bool owner_listed; /* it stands among the owners */
  bool listed;       /* among the ids in flight */
  bool set;          /* asked for in a set frame, to be answered in one */
  struct tkt_seat seats[];
};

enum tkt_grant_state {
  TKT_GRANT_COMMITTING, /* not stored yet */
  TKT_GRANT_HELD,
  TKT_GRANT_VOID, /* off its keys; memory kept until the last change that names it is decided */
};

enum tkt_removal {
  TKT_REMOVAL_NONE,
  TKT_REMOVAL_STAGED,    /* in the open batch: the key counts as free for grants of that batch */
  TKT_REMOVAL_IN_COMMIT, /* with the storage: the key is occupied until it has decided */
};

struct tkt_hold {
  struct tkt_lock *lock;
  struct tkt_grant *next; /* next grant on the same key */
};

struct tkt_grant {
  union {
    struct tkt_timer lease;   /* while there is no removal */
    struct tkt_list releases; /* during a removal: who asked for it (struct tkt_release) */
  };
  uint64_t token;
  uint64_t owner;            /* 0: matches none */
  int64_t until;             /* end of the lease as kept, once stored */
  struct tkt_waiter *waiter; /* the request to answer once `changes` is 0 */
  uint32_t replies;          /* waiters that point here, committing or answered */
  unsigned key_count : 5;
  unsigned state : 2;
  unsigned removal : 2;
  unsigned lapsed : 1;    /* the removal is an expiry */
  unsigned told : 1;      /* a byte of a reply naming the token was handed to a session */
  unsigned uncertain : 1; /* nobody can say whether it is stored: occupies, matches no owner */
  unsigned lease_s : 8;   /* of the newest change */
  unsigned changes : 12;  /* grant and extend changes not decided: at most one a lease length */
  struct tkt_hold holds[];
};

/* A grant of several keys, found by its token. */
struct tkt_set {
  struct tkt_table_node by_token;
  struct tkt_grant *grant;
};

/* A release whose change is in commit. */
struct tkt_release {
  struct tkt_table_node by_id; /* wire 3 */
  struct tkt_list of_peer;
  struct tkt_list of_grant;
  struct tkt_peer *peer;
  uint64_t id; /* wire 3 */
  bool listed; /* among the ids in flight */
  bool set;    /* asked for in a set frame, to be answered in one */
};

enum tkt_peer_state {
  TKT_PEER_HANDSHAKE,
  TKT_PEER_REFUSED, /* the verdict is delayed; input is ignored from here on */
  TKT_PEER_OPEN,
  TKT_PEER_ENDING, /* its waiters are withdrawn; replies in commit, then the error, then the end */
  TKT_PEER_LINGERING, /* all is written, write side shut; what still comes is discarded */
  TKT_PEER_CLOSED,    /* wants the close */
};

struct tkt_peer {
  struct tkt_list of_server;
  struct tkt_list dirty;
  struct tkt_list broken; /* output overflowed or no memory for it: ends at the next safe point */
  struct tkt_list queued, committing, answered; /* struct tkt_waiter by state */
  struct tkt_list releasing;                    /* struct tkt_release */
  struct tkt_timer timer;                       /* what for, tells the state */
  void *connection;
  struct tkt_buf out;
  uint64_t sent;       /* bytes handed over so far */
  int64_t last_output; /* when something was last put into the output */
  uint32_t requests;   /* queued + committing */
  uint32_t moved_away; /* queued waiters that came from here: while there are some, the memory stays
                        */
  uint32_t releases;
  uint64_t last_id; /* wire 3: the greatest so far */
  bool ids_listed;  /* wire 3: they did not always grow, see in_flight.h */
  enum tkt_peer_state state;
  enum tkt_wire_error error; /* to be said last; UNKNOWN: none */
  bool authenticated;
  bool gone; /* closed; nothing but moved_away keeps it */
  bool eof;
  uint8_t nonce[TKT_NONCE_TEXT]; /* as it stands in the greeting */
  uint8_t nonce_len;
  struct tkt_parser parser;
};

/* Output memory given back by sessions that went idle: a list inside the blocks themselves. */
struct tkt_spare_output {
  struct tkt_spare_output *next;
  size_t cap;
};

struct tkt_server {
  int64_t now;
  struct tkt_server_limits limits;
  struct tkt_hash_secret secret;
  struct tkt_storage *storage;
  bool (*nonce)(void *context, uint8_t *out, size_t len);
  void *nonce_context;
  struct tkt_tokens *tokens;
  uint64_t next_token;
  bool draining;

  struct tkt_table locks;
  struct tkt_table owners;      /* waiters of long queues by owner and key */
  struct tkt_table ids;         /* waiters by session and id, where in_flight.h lists them */
  struct tkt_table release_ids; /* releases likewise */
  struct tkt_table sets;        /* struct tkt_set by token */
  struct tkt_lock *ready_first, *ready_last;
  struct tkt_wheel wheel;

  struct tkt_pool lock_pools[TKT_KEY_CLASSES];
  struct tkt_pool waiter_pool, waiter_set_pool;
  struct tkt_pool grant_pool, grant_set_pool;
  struct tkt_pool set_pool;
  struct tkt_pool release_pool;
  struct tkt_pool peer_pool;

  struct tkt_batch *open;  /* collects the changes of this turn */
  struct tkt_batch *spare; /* decided batches, to be used again */
  struct tkt_list pending; /* with the storage, oldest first */
  uint64_t batches;
  struct tkt_change *changes; /* room to hand a batch to the storage */
  struct tkt_span *spans;
  size_t changes_cap, spans_cap;

  struct tkt_spare_output *spare_output;
  size_t spare_output_bytes;

  struct tkt_list peers;
  struct tkt_list dirty;
  struct tkt_list broken;
  struct tkt_server_stats stats;
};

/* The wires differ in what ends a session and in what a reply names. */
static inline bool tkt_peer_is_framed(const struct tkt_peer *peer) {
  return peer->parser.wire->version == 3;
}

/* Time never goes back inside the engine, whatever is handed in. */
static inline void tkt_server_clock(struct tkt_server *server, int64_t now) {
  if (now > server->now) server->now = now;
}

#endif
