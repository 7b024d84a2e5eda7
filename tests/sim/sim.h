/* The simulator's world: client engines and a server engine in one process, under one seeded clock
 * and network. Nothing here reads a real clock, opens a socket or starts a thread, so a seed always
 * tells the same story.
 *
 * Layout: world.c moves time and runs hosts; network.c carries bytes; client_host.c and
 * server_host.c drive an engine each, as a real driver would; actor.c is the workload, legacy.c are
 * clients that ask again; cluster.c are several addresses; storage.c decides the server's commits;
 * wire_tap.c and ledger.c record what the server and the wire really did; invariants.c compares
 * that with what the clients believe. profile.c says what may go wrong in a run; lies.c is a server
 * that lies, heap.c memory that runs out; plant.c breaks the simulation on purpose, to see that the
 * invariants notice; peek.c looks into a client engine. */
#ifndef TKT_SIM_SIM_H
#define TKT_SIM_SIM_H

#include "base/random.h"
#include "base/time.h"
#include "client/client.h"
#include "server/server.h"
#include "wire/parser.h"

#include <stdio.h>

enum {
  SIM_CLIENTS = 4,
  SIM_NODES = 5,
  SIM_LEGACIES = 2,
  SIM_ACTORS = 6, /* of one client */
  SIM_KEYS = 4,
  SIM_KEY_SETS = 1 << SIM_KEYS, /* sets of keys are bit masks */
  SIM_CONNS = 192,
  SIM_PIPE_BYTES = 4096,
  SIM_PIPE_SEGMENTS = 64,
  SIM_RATE_KEPT = 64,
  SIM_CLOSING = 8,    /* sessions of an address (B4) */
  SIM_BACKED_OFF = 6, /* most dials of one place in a second with growing pauses */
  SIM_HISTORY = 64,
  SIM_HISTORY_TEXT = 176,
  SIM_GRANTS = 16384,
  SIM_REQUESTS = 32768,
  SIM_TICKETS = 16384,
  SIM_BATCHES = 128,
  SIM_CHANGES_A_BATCH = 512,
};

enum sim_side { SIM_CLIENT_SIDE = 0, SIM_SERVER_SIDE = 1 };

/* Faults planted in the simulator itself, to see that its invariants notice. */
enum sim_plant {
  SIM_PLANT_NONE = 0,
  SIM_PLANT_SLOW_CLOCK,        /* clients' clocks run 10% slow: they believe too long */
  SIM_PLANT_FAST_SERVER,       /* the server's clock runs 10% fast: it forgets too early */
  SIM_PLANT_DOUBLE_GRANT,      /* the network turns a T into a grant of the held token */
  SIM_PLANT_FALSE_RELEASED,    /* the network turns an N into an R */
  SIM_PLANT_SWALLOWED_RELEASE, /* the network answers R and keeps the release from the server */
  SIM_PLANT_LOST_GRANT,        /* the network swallows grants */
  SIM_PLANT_TOKEN_REUSE,       /* a restarted server begins at token 1 again */
  SIM_PLANT_UNFAIR,            /* the server host feeds what arrived in reverse order */
  SIM_PLANT_STUCK_TIMERS,      /* clients' timers never run */
  SIM_PLANT_LATE_WAKE,         /* the driver is told to sleep 3 s too long */
  SIM_PLANT_EARLY_REPLY,       /* the storage tells DONE for what it then reports failed */
  SIM_PLANT_LEAK,              /* a client engine is not freed */
  SIM_PLANT_HASTY_DIALS,       /* a client's backoff is 1 ms */
  SIM_PLANT_CLOSINGS,          /* a client loses count of its closing sessions */
  SIM_PLANT_COUNT
};

struct sim_options {
  uint64_t seed;
  uint64_t steps;
  bool verbose;
  enum sim_plant plant;
};

/* What kind of run a seed is. Rates are per 10,000 steps. */
struct sim_profile {
  const char *name;
  bool quiet; /* no faults at all: nothing may get lost */
  unsigned clients, actors, keys, legacies;
  unsigned nodes;     /* of a cluster; 0: a server that works alone */
  unsigned elect;     /* a 10,000 steps */
  unsigned lease_max; /* s; 0: 20 */
  bool framed;        /* some clients find servers of wire 3 */
  int64_t latency_min, latency_max;
  unsigned reset, stall, sleep, restart; /* a 10,000 steps */
  unsigned connect_fail, connect_hang;   /* a 1,000 connects */
  unsigned pause;                        /* stops inside a turn, a 10,000 chances */
  int64_t commit_delay_max;              /* 0: decided in the same turn */
  unsigned commit_later;                 /* a 1,000 batches */
  unsigned commit_fail, commit_unknown;  /* a 1,000 batches */
  bool restart_waits;                    /* a new server waits for the leases of the previous run */
  bool small_limits;
  bool lies;       /* the server's replies cannot be trusted until the calm */
  unsigned memory; /* one allocation in so many fails; 0: none */
  bool narrow;     /* pipes of a few bytes */
  bool impostor;   /* the last client has a token the server does not know */
  bool cancels, closes;
  bool hurry; /* cancels at once and often, and ends of stream that come late */
  int drift_ppm;
};

struct sim_clock {
  int64_t offset;
  int64_t ppm;
};

struct sim_segment {
  int64_t at;
  uint32_t len;
};

/* Who answers for a node of a cluster. */
enum sim_front {
  SIM_FRONT_NONE = 0, /* no node: the engine alone */
  SIM_FRONT_PROOF,    /* it greeted */
  SIM_FRONT_FOLLOWER, /* it answers as one */
  SIM_FRONT_ENDING,   /* it says the last, then the end of stream */
  SIM_FRONT_ENGINE,   /* it leads: the engine */
};

/* One direction of a connection. */
struct sim_pipe {
  uint8_t bytes[SIM_PIPE_BYTES];
  uint32_t head, len, cap;
  struct sim_segment segments[SIM_PIPE_SEGMENTS];
  uint32_t first_segment, segment_count;
  int64_t last_at;     /* no later byte arrives before this */
  int64_t stall_until; /* nothing arrives before this */
  int64_t fin_at;      /* TKT_NEVER: not shut */
  int64_t reset_at;    /* the reader sees a reset then */
  bool cut;            /* bytes on their way were lost: later ones are, too */
  bool reset_drops;    /* arrived, unread bytes are lost with it */
};

struct sim_conn {
  bool used;
  unsigned id;
  unsigned client;
  unsigned wire;            /* 2 or 3 */
  unsigned node;            /* of a cluster */
  struct sim_pipe pipes[2]; /* [side]: what that side writes */
  bool closed[2];
  bool faulted; /* the network did something to it: what it carried may be lost */
  int64_t dialled_at;
  int64_t connected_at, refused_at; /* client side; TKT_NEVER */
  int64_t accept_at;                /* server side */
  bool accepted;

  /* client host */
  struct tkt_session *session;
  bool connected, failed, eof_told[2], whole, shut_wanted, shut_done, write_blocked[2];
  size_t handed;
  bool fresh; /* the bytes being written were encoded in this very call */
  uint8_t handed_copy[TKT_CHUNK];
  int64_t sent_local; /* the client's clock at the latest output call */

  /* server host */
  struct tkt_peer *peer;
  bool peer_shut, peer_failed;
  int64_t written_at;   /* world: the server's latest bytes */
  enum sim_front front; /* of a node in a cluster */
  struct tkt_parser front_in;
  uint8_t front_out[1024], nonce[22];
  size_t front_len;
  int64_t linger_until;
  bool asked;    /* a request left on it */
  bool demoted;  /* its node is no leader any more */
  bool must_end; /* its waiters were withdrawn: the server has to end it */
  int64_t must_end_at;

  /* what the wire showed: requests as written, requests as received, replies as written, replies
   * as received */
  struct tkt_parser taps[4];
  struct {
    uint64_t token, id;
    unsigned keys;
    bool set;
  } releases[64]; /* sent and unanswered */
  unsigned release_count;
  bool releases_lost; /* there were more */
  uint64_t last_id;   /* wire 3: of the requests sent */
};

enum sim_tap { SIM_TAP_SENT = 0, SIM_TAP_RECEIVED, SIM_TAP_REPLIED, SIM_TAP_DELIVERED };

enum sim_fate { SIM_UNDECIDED = 0, SIM_DONE, SIM_FAILED, SIM_UNKNOWN };

/* A grant as the server's storage saw it. */
struct sim_grant {
  uint64_t token;
  unsigned keys, run;
  uint64_t batch;
  enum sim_fate fate;
  int64_t lease_ns;
  int64_t decided_at; /* world */
  int64_t until;      /* world: earliest instant the server may think the lease over */
  enum sim_fate release_fate;
  bool release_emitted, released, expired;
  bool told;      /* some session was written its reply */
  bool delivered; /* the client engine was given the whole reply */
  bool handed_out;
  bool excused;      /* its client was closed around it */
  bool release_sent; /* an R naming it left the client */
  uint64_t owner;
  uint64_t expected_owner; /* by arrival, known at the end of the turn that emitted it */
  int client;
  int64_t duty_at; /* its client has to release it from here on; TKT_NEVER */
};

/* An acquire as the wire saw it. */
struct sim_request {
  uint64_t owner; /* on wire 3 what stands for it, see ledger_name */
  unsigned keys, client, conn, run;
  bool set;
  uint16_t wait_s, lease_s;
  int64_t sent_local;  /* client's clock */
  int64_t received_at; /* world; 0: not yet */
  uint64_t arrival;
  bool over; /* answered or its session ended */
  bool granted;
  bool answered; /* the client has its reply */
  bool hurt;     /* something went wrong while its session lived */
  bool left;     /* the client closed the connection */
};

struct sim_ticket {
  struct tkt_ticket *ticket; /* NULL once dropped */
  unsigned client;
  const struct sim_clock *clock; /* of its holder */
  unsigned run;
  unsigned keys;
  uint64_t token;
  int64_t valid_until; /* client's clock */
  bool believed, detached;
};

enum sim_legacy_state {
  SIM_LEGACY_IDLE = 0,
  SIM_LEGACY_ASKING,
  SIM_LEGACY_HOLDING,
  SIM_LEGACY_RELEASING,
};

struct sim_legacy {
  unsigned index;
  struct sim_clock clock;
  enum sim_legacy_state state;
  int64_t due;        /* world: its next act */
  int64_t dial_at;    /* world, while it has no connection */
  int64_t give_up_at; /* world: no greeting by then */
  struct sim_conn *conn;
  struct tkt_parser parser;
  bool greeted, asked_here;
  uint8_t out[1024];
  size_t out_len;
  uint64_t owner, token;
  unsigned key;
  uint16_t wait_s;
  int64_t surely_until; /* its clock: a grant told on this connection lives so long */
  struct sim_ticket *ticket;
};

enum sim_actor_state {
  SIM_IDLE = 0,
  SIM_ACQUIRING,
  SIM_GRANTED, /* ended OK, ticket not taken */
  SIM_HOLDING,
  SIM_RELEASING,
  SIM_OTHER, /* wait_ready, release_exact */
};

struct sim_actor {
  unsigned client, index;
  enum sim_actor_state state;
  int64_t due; /* world: next act of its own; TKT_NEVER: waits for a call */
  struct tkt_call call;
  bool pending;      /* call is with the engine */
  int64_t bound;     /* client's clock: by then it must have ended */
  int64_t started;   /* client's clock */
  int64_t began;     /* world */
  int64_t cancel_at; /* world */
  bool cancelled;
  bool expect_wrong; /* release_exact that must not succeed */
  bool expect_ok;    /* an acquire that nothing hinders */
  unsigned keys;
  struct sim_ticket *ticket;
  uint64_t release_token;
  struct tkt_acquire_plan plan;
  struct tkt_call second; /* a release that joins */
  bool second_pending;
  int64_t second_bound;
};

enum sim_naming { SIM_NAMED_NOTHING = 0, SIM_NAMED_NODE, SIM_NAMED_NOBODY };

/* The instants (world) of the latest events of a kind. */
struct sim_rate {
  int64_t at[SIM_RATE_KEPT];
  unsigned count;
};

struct sim_client {
  unsigned index;
  struct tkt_client *engine;
  struct sim_clock clock;
  int64_t asleep_until; /* world */
  int64_t kick_at;      /* world: somebody started a call from outside a turn */
  int64_t ticked_at;    /* client's clock at the last tick */
  bool cancel_keeps;
  unsigned ever_named;    /* nodes, a mask */
  enum sim_naming naming; /* what the bytes just delivered said of a leader, last */
  unsigned named;
  unsigned wire; /* that its servers speak */
  bool closing;
  struct tkt_call close_call;
  int64_t close_bound;
  int64_t reopen_at;
  uint64_t opened;
  struct sim_rate dials[SIM_NODES];    /* by address */
  struct sim_rate closings[SIM_NODES]; /* sessions that the client closed by itself */
  struct sim_actor actors[SIM_ACTORS];
  /* Ended so or forgotten, by key and lease: what may still be in flight with nobody behind it. */
  uint32_t unknown[SIM_KEY_SETS][TKT_LEASE_MAX_S + 1];
  uint32_t unanswered[SIM_KEY_SETS][TKT_LEASE_MAX_S + 1]; /* requests without a reply */
  unsigned indeterminate;                                 /* acquires that ended so */
  unsigned cancels; /* of sent or unsent acquires, in its life */
};

struct sim_batch {
  uint64_t number;
  int64_t due;
  enum tkt_commit result;
  size_t count;
  struct sim_change {
    enum tkt_change_kind kind;
    uint64_t token;
    int64_t lease_ns;
  } changes[SIM_CHANGES_A_BATCH];
};

struct sim_storage {
  struct tkt_storage base;
  struct sim *sim;
  struct sim_batch batches[SIM_BATCHES]; /* pending, in order */
  size_t pending;
};

struct sim_server {
  struct tkt_server *engine;
  struct sim_clock clock;
  int64_t asleep_until;
  int64_t up_at; /* while engine is NULL */
  bool draining;
  int64_t drain_bound;
  unsigned run;
  int64_t wait_margin; /* of wire 3 */
  uint64_t commits_this_turn;
  struct sim_storage storage;
  struct tkt_random nonces;
};

struct sim_cluster {
  unsigned leader;      /* elected */
  unsigned engine_node; /* where the engine runs */
  int views[SIM_NODES]; /* whom a node believes to lead, -1: nobody */
  int64_t view_due[SIM_NODES];
  int64_t down_until[SIM_NODES];
  const char *word; /* of the greeting on wire 2 */
};

struct sim {
  struct sim_options options;
  struct sim_profile profile;
  struct tkt_random random;
  int64_t now;
  uint64_t step;
  bool calm;           /* no more faults, no new work */
  int64_t last_pause;  /* world: the latest standstill inside a turn */
  int64_t last_fault;  /* world: the latest instant a fault was at work */
  uint64_t idle_turns; /* turns since time last moved */

  struct sim_client clients[SIM_CLIENTS];
  struct sim_legacy legacies[SIM_LEGACIES];
  struct sim_server server;
  struct sim_cluster cluster;
  struct sim_conn conns[SIM_CONNS];
  unsigned next_conn;
  unsigned conn_high; /* no record in use from this one on */

  uint8_t key_bytes[SIM_KEYS][TKT_KEY_MAX];
  struct tkt_span keys[SIM_KEYS];

  struct sim_grant grants[SIM_GRANTS];
  size_t grant_count;
  size_t grants_of_run;  /* index of the first grant of this run */
  size_t settled_grants; /* grants before this one are over for good */
  struct sim_request requests[SIM_REQUESTS];
  size_t request_count;
  size_t settled_requests;
  uint64_t arrivals;
  bool partly_told; /* a session ended amid a reply: some grant may be told in part */
  struct sim_ticket tickets[SIM_TICKETS];
  size_t ticket_count;
  size_t settled_tickets;

  /* Planted unfairness: bytes that arrived and are fed late. */
  struct {
    struct sim_conn *conn;
    int64_t until;
    size_t len;
    uint8_t bytes[SIM_PIPE_BYTES];
  } held;

  size_t heap_before; /* bytes in use when the run began */
  char history[SIM_HISTORY][SIM_HISTORY_TEXT];
  uint64_t history_count;
  uint64_t fingerprint; /* of the whole history */
  bool failed;
  char failure[512];
  uint64_t ended[2 - TKT_NO_MEMORY + 1];    /* acquires by outcome, from TKT_NO_MEMORY on */
  uint64_t released[2 - TKT_NO_MEMORY + 1]; /* releases */
};

/* --- history.c ----------------------------------------------------------------------------------
 */

/* Adds an event to the history (printed at once with --verbose). */
void sim_note(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reports a violation; the first one of a run counts. */
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The failure, the last events and the command that repeats it. */
void sim_print_failure(const struct sim *sim, FILE *to);

/* --- world.c ------------------------------------------------------------------------------------
 */

/* Runs one seed; true where nothing was violated. `sim` is zeroed first. */
bool sim_run(struct sim *sim, const struct sim_options *options);

/* A host's clock. */
int64_t sim_local(const struct sim *sim, const struct sim_clock *clock);
/* The earliest world instant at which the clock shows at least `local`. */
int64_t sim_world(const struct sim_clock *clock, int64_t local);
/* Time that passes inside a turn: mostly none, sometimes seconds. */
void sim_pause(struct sim *sim);

uint64_t sim_below(struct sim *sim, uint64_t bound);
int64_t sim_between(struct sim *sim, int64_t low, int64_t high);
/* True in `in` of `of` cases. */
bool sim_chance(struct sim *sim, unsigned in, unsigned of);

/* A fault is at work until the instant `until` (world). */
void sim_fault_until(struct sim *sim, int64_t until);

/* --- profile.c ----------------------------------------------------------------------------------
 */
void sim_choose_profile(struct sim *sim);
const char *sim_plant_name(enum sim_plant plant);

#endif
