/* A ticket: the record of a grant and of its release. It is made with the acquire, so that a grant
 * never fails for memory, and it *is* the reserved place in the release lane (R4). Releases without
 * a ticket use records of the same kind, counted as unreserved.
 *
 *   WAITED -> HELD -> RELEASING -> RELEASED
 *               ^--------'  (gave up without an answer, R2) */
#ifndef TKT_CLIENT_TICKET_H
#define TKT_CLIENT_TICKET_H

#include "base/key.h"
#include "base/table.h"
#include "base/wheel.h"
#include "client/call.h"
#include "client/session.h"

#define TKT_RELEASE_LIMIT (5 * TKT_S)   /* R1, from the call */
#define TKT_RELEASE_ATTEMPT (2 * TKT_S) /* R1, an attempt without reply moves on */
#define TKT_RELEASE_PAUSE_FIRST (10 * TKT_MS)
#define TKT_RELEASE_PAUSE_LONGEST (200 * TKT_MS)
#define TKT_RELEASE_TOMBSTONE (10 * TKT_S) /* S5, after it gave up */

/* Attempts of one release in flight, each on a session of its own: three fit into 5 s, and a later
 * call may find some of an earlier one. */
enum { TKT_ATTEMPTS_MAX = 4 };

enum tkt_ticket_state {
  TKT_TICKET_WAITED,
  TKT_TICKET_HELD,
  TKT_TICKET_RELEASING,
  TKT_TICKET_RELEASED,
};

enum tkt_attempt_state {
  TKT_ATTEMPT_NONE,
  TKT_ATTEMPT_QUEUED,
  TKT_ATTEMPT_ENCODED,
  TKT_ATTEMPT_FLYING,
};

/* What a RELEASING ticket is waiting for. */
enum tkt_release_phase {
  TKT_RELEASE_WANTS_SESSION, /* in the lane */
  TKT_RELEASE_TRYING,        /* its newest attempt is queued or flying */
  TKT_RELEASE_PAUSED,
};

struct tkt_attempt {
  struct tkt_frame frame;
  struct tkt_ticket *ticket;
  struct tkt_session *session;
  int64_t sent_at;
  uint8_t state;
  bool tombstone; /* counted in its session */
};

/* The keys of a set behind its first one. */
struct tkt_more_key {
  struct tkt_more_key *next;
  uint8_t len;
  uint8_t bytes[TKT_KEY_MAX];
};

struct tkt_ticket {
  struct tkt_list all;
  struct tkt_table_node by_token;
  struct tkt_list lane;
  struct tkt_timer timer; /* of the release, then of its tombstones */
  struct tkt_list calls;  /* that wait for the release */
  struct tkt_list watches;
  uint64_t token;
  int64_t valid_until;
  int64_t budget_ns;
  int64_t deadline; /* of the release under way */
  int64_t pause_until;
  int64_t check_at;  /* what the timer is armed for */
  uint32_t attempts; /* sent, in all */
  uint8_t state;
  uint8_t phase;
  uint8_t pauses;
  uint8_t newest; /* index of the attempt begun last */
  uint8_t key_count;
  uint8_t key_len;  /* of the first */
  bool sent_in_run; /* an attempt of the release under way was sent, or adopted in flight */
  bool loaned;      /* the caller has it, or may still take it */
  bool detached;
  bool unreserved;          /* counted in lane_unreserved */
  enum tkt_outcome outcome; /* RELEASED */
  const char *reason;       /* with it; static, or NULL */
  struct tkt_more_key *more;
  struct tkt_attempt tries[TKT_ATTEMPTS_MAX];
  uint8_t key[TKT_KEY_MAX];
};

static inline struct tkt_span tkt_ticket_first_key(const struct tkt_ticket *t) {
  return tkt_span(t->key, t->key_len);
}

static inline bool tkt_ticket_is_set(const struct tkt_ticket *t) {
  return t->key_count > 1;
}

/* Its keys, sorted, into `keys_out` (room for TKT_KEY_SET_MAX); how many. */
uint8_t tkt_ticket_keys(const struct tkt_ticket *t, struct tkt_span *keys_out);

/* A record for `count` sorted keys (1..16), which are copied; state WAITED; NULL: out of memory. */
struct tkt_ticket *tkt_ticket_new(struct tkt_client *c, const struct tkt_span *keys, size_t count);
void tkt_ticket_free_keys(struct tkt_client *c, struct tkt_ticket *t);
void tkt_ticket_free(struct tkt_client *c, struct tkt_ticket *t);

/* The ticket with this token and these sorted keys, granted or in release; NULL for none. */
struct tkt_ticket *tkt_ticket_find(const struct tkt_client *c, uint64_t token,
                                   const struct tkt_span *keys, size_t count);

/* WAITED -> HELD. */
void tkt_ticket_grant(struct tkt_client *c, struct tkt_ticket *t, uint64_t token);

/* Nobody will take it, or the loan is over (G3, R3): released in the background. */
void tkt_ticket_give_back(struct tkt_client *c, struct tkt_ticket *t);

/* Nothing will give a grant back before its lease ends. */
void tkt_grant_lost(struct tkt_client *c);

/* Frees the record once nothing needs it. */
void tkt_ticket_reap(struct tkt_client *c, struct tkt_ticket *t);

/* --- watches (watch.c) ---------------------------------------------------------------------------
 */

/* Released, or nobody's any more: its watches end. */
void tkt_watch_over(struct tkt_client *c, struct tkt_ticket *t);

/* The client closes: every watch ends. */
void tkt_watch_close_all(struct tkt_client *c);

void tkt_watch_timer(struct tkt_client *c, struct tkt_call *call);

/* --- the release lane (release.c) ----------------------------------------------------------------
 */

/* HELD -> RELEASING, with a new limit of 5 s from `asked_at`. */
void tkt_release_start(struct tkt_client *c, struct tkt_ticket *t, int64_t asked_at);

/* A grant that belongs to no waiter of ours goes back (M9), where the unreserved part has room. */
void tkt_release_unknown(struct tkt_client *c, uint64_t token, struct tkt_span key);

/* R, N or a definitive error for it came from `s`. False: no attempt of it is in flight there
 * (M9). */
bool tkt_release_answered(struct tkt_session *s, struct tkt_ticket *t, enum tkt_outcome outcome,
                          const char *reason);

/* No answer will come any more: ends the run, the attempts in flight become tombstones (R6). */
void tkt_release_give_up(struct tkt_client *c, struct tkt_ticket *t);

/* The first byte of the attempt was handed over. */
void tkt_release_sent(struct tkt_attempt *attempt);

/* The attempt's session takes no more requests and it was not sent: another session, at once. */
void tkt_release_unsent(struct tkt_attempt *attempt);

/* The attempt's session ended without an answer, or its server did not process it, or cannot say.
 */
void tkt_release_lost(struct tkt_attempt *attempt);

/* Gives sessions the releases they can take. */
void tkt_release_dispatch(struct tkt_client *c);

/* A further session is usable. */
void tkt_release_new_session(struct tkt_client *c);

void tkt_release_timer(struct tkt_client *c, struct tkt_ticket *t);

/* True while an attempt of it is queued or in flight on `s`. */
bool tkt_release_on(const struct tkt_ticket *t, const struct tkt_session *s);

#endif
