/* The engine's state, shared by the files of this folder; nobody else includes it.
 *
 * The way of one acquire: tkt_client_acquire makes a waiter and puts it into the line (line.c); the
 * line hands it to a session (hint.c chooses); the session encodes it when the driver asks for
 * output (output.c); a reply finds it again (matching.c) and turns its ticket into a grant
 * (ticket.c), or a timer ends it (waiter.c). A release goes through its lane (release.c) in the
 * same way. Sessions live in session.c, end in ending.c, and are replaced by place.c. */
#ifndef TKT_CLIENT_ENGINE_H
#define TKT_CLIENT_ENGINE_H

#include "base/hash.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/table.h"
#include "client/client.h"
#include "client/log.h"
#include "client/place.h"
#include "client/session.h"
#include "client/ticket.h"
#include "client/waiter.h"
#include "wire/proof.h"

/* What a timer of the wheel belongs to. */
enum tkt_timer_kind {
  TKT_TIMER_WAITER = 1,
  TKT_TIMER_TICKET,
  TKT_TIMER_SESSION,
  TKT_TIMER_WRITE,
  TKT_TIMER_READ,
  TKT_TIMER_READY,
  TKT_TIMER_WATCH,
  TKT_TIMER_CLOSE,
};

/* B7: a close ends after this at the latest. */
#define TKT_CLOSE_LIMIT (5 * TKT_S)

/* Releases that no granted ticket has reserved: by token alone, or of grants nobody asked for. */
enum { TKT_LANE_UNRESERVED = 1024 };

/* Counters, in the order of their names in counters.c. */
enum tkt_count {
  TKT_COUNT_ACQUIRES,
  TKT_COUNT_GRANTED,
  TKT_COUNT_TIMEOUT,
  TKT_COUNT_BUSY,
  TKT_COUNT_CANCELLED,
  TKT_COUNT_INDETERMINATE,
  TKT_COUNT_INSUFFICIENT_LEASE,
  TKT_COUNT_NOT_CONNECTED,
  TKT_COUNT_CAPACITY,
  TKT_COUNT_AUTH,
  TKT_COUNT_CLOSED,
  TKT_COUNT_UNSUPPORTED,
  TKT_COUNT_REFUSED,
  TKT_COUNT_WITHDRAWN,
  TKT_COUNT_REQUESTS_MOVED,
  TKT_COUNT_RELEASES,
  TKT_COUNT_RELEASED,
  TKT_COUNT_NOT_CURRENT,
  TKT_COUNT_RELEASES_REFUSED,
  TKT_COUNT_RELEASES_UNANSWERED,
  TKT_COUNT_RELEASE_ATTEMPTS,
  TKT_COUNT_GRANTS_GIVEN_BACK,
  TKT_COUNT_GRANTS_LOST,
  TKT_COUNT_DIALS,
  TKT_COUNT_SESSIONS_USABLE,
  TKT_COUNT_SESSIONS_CLOSED_BY_US,
  TKT_COUNT_AUTH_REFUSALS,
  TKT_COUNT_PROTOCOL_FAULTS,
  TKT_COUNT_MOVED,
  TKT_COUNT_LEADER,
  TKT_COUNT_FOREIGN_LEADER,
  TKT_COUNT_MAX
};

struct tkt_client {
  int64_t now; /* of the turn: the latest instant the driver gave */
  struct tkt_random random;
  uint64_t token_secret; /* mixed into the hash of tokens, which servers choose */
  struct tkt_wheel wheel;

  uint8_t *token; /* of the configuration */
  size_t token_len;
  uint32_t max_in_flight;
  uint32_t max_unsent;
  bool cancel_keeps_session;
  uint8_t wire; /* 0: any */
  bool has_identity;
  uint8_t identity[TKT_WIRE3_IDENTITY_LEN];

  struct tkt_address_state addresses[TKT_ADDRESS_COUNT_MAX];
  uint8_t address_count;
  struct tkt_place places[TKT_PLACES_MAX];
  uint8_t place_count;
  uint8_t turn;                       /* round robin over places */
  int8_t hint;                        /* address of the leader, -1: not known */
  uint32_t usable;                    /* sessions */
  uint32_t ups;                       /* how often a session became usable */
  uint32_t usable_framed, ups_framed; /* the same, of wire 3 */
  int8_t failed;                      /* address of the attempt that failed last, -1: none did */

  struct tkt_list sessions; /* all, until the driver closed them */
  struct tkt_list dirty;
  struct tkt_list done; /* ended calls */

  struct tkt_pool waiters;
  struct tkt_table by_id;      /* frames encoded or sent */
  uint32_t serials;            /* of sessions */
  struct tkt_list line;        /* unsent, with a slot, waiting for a session */
  struct tkt_list line_sets;   /* the same, waiting for one of wire 3 */
  struct tkt_list line_beyond; /* unsent, waiting for a slot */
  struct tkt_list line_paused; /* unsent, waiting for a pause to end */
  uint32_t slots_used;
  uint32_t beyond; /* length of line_beyond */

  struct tkt_pool tickets;
  struct tkt_pool more_keys; /* of sets */
  struct tkt_list all_tickets;
  struct tkt_table by_token;  /* granted tickets, and releases under way */
  struct tkt_list lane;       /* releases waiting for a session */
  struct tkt_list lane_stuck; /* those with an attempt in flight on every usable session */
  uint32_t lane_unreserved;
  uint32_t releasing; /* releases under way */

  struct tkt_list ready_calls;
  struct tkt_list close_calls;
  struct tkt_timer close_timer;
  bool closing;
  bool lane_shut; /* nothing goes back any more */
  bool finished;

  uint64_t counts[TKT_COUNT_MAX];
  struct tkt_log log;
};

/* Takes over the driver's clock. */
static inline void tkt_set_now(struct tkt_client *c, int64_t now) {
  if (now > c->now) c->now = now;
}

static inline void tkt_count(struct tkt_client *c, enum tkt_count which) {
  c->counts[which]++;
}

/* --- calls (calls.c) -----------------------------------------------------------------------------
 */

/* Readies the engine's part of a zeroed call. */
void tkt_call_begin(struct tkt_call *call, enum tkt_call_kind kind);

/* When the caller asked for it; deadlines run from there. */
static inline int64_t tkt_call_asked_at(const struct tkt_client *c, const struct tkt_call *call) {
  return call->asked_at && call->asked_at < c->now ? call->asked_at : c->now;
}

/* Ends a call: it leaves whatever list it stands in and joins the done list. Where it ends for want
 * of a session and without a reason, the reason is why there was none. */
void tkt_call_finish(struct tkt_client *c, struct tkt_call *call, enum tkt_outcome outcome,
                     const char *reason);

/* --- readiness (ready.c) -------------------------------------------------------------------------
 */

/* How new acquires are refused at once: TKT_AUTH (B5), TKT_UNSUPPORTED (B3), or TKT_OK. */
enum tkt_outcome tkt_ready_refusal(const struct tkt_client *c);

/* Why there is no session to use, and the address that is about; NULL and NULL: not known. */
const char *tkt_ready_why_not(const struct tkt_client *c, const char **where_out);

/* Sessions that can carry such a request, and how often one became usable. */
static inline uint32_t tkt_usable(const struct tkt_client *c, bool set) {
  return set ? c->usable_framed : c->usable;
}
static inline uint32_t tkt_ups(const struct tkt_client *c, bool set) {
  return set ? c->ups_framed : c->ups;
}

/* Several keys are refused at once: no server is known to be able, and each to be unable. */
bool tkt_ready_no_sets(const struct tkt_client *c);
extern const char tkt_no_sets_text[];

/* A session became usable. */
void tkt_ready_announce(struct tkt_client *c);

/* An address reached a verdict: ends what cannot succeed any more. */
void tkt_ready_reconsider(struct tkt_client *c);

void tkt_ready_timer(struct tkt_client *c, struct tkt_call *call);

/* --- close (close.c) -----------------------------------------------------------------------------
 */

/* Carries a close on: closes sessions no longer needed, ends it when all is done. Does nothing
 * where no close is under way. */
void tkt_close_review(struct tkt_client *c);

/* The limit of B7 is over. */
void tkt_close_timer(struct tkt_client *c);

#endif
