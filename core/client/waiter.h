/* A waiter: the engine's record of one acquire, from the call to its end. The call is the caller's
 * half; a sent waiter without a call is a tombstone (S5).
 *
 *   BEYOND -> LINE -> ASSIGNED -> ENCODED -> SENT -> (freed)
 *              ^--------'----------'          |
 *              '------ PAUSED <---------------'  (withdrawn, M3; or its session was lost, M11) */
#ifndef TKT_CLIENT_WAITER_H
#define TKT_CLIENT_WAITER_H

#include "base/wheel.h"
#include "client/call.h"
#include "client/session.h"

#define TKT_TRANSPORT_ALLOWANCE (5 * TKT_S) /* S6 */
#define TKT_RETRY_FIRST (10 * TKT_MS)       /* M11 */
#define TKT_RETRY_LONGEST (100 * TKT_MS)
/* A T that comes earlier than this before its wait ends means withdrawn (M3). */
#define TKT_WITHDRAWN_MARGIN (1 * TKT_S)

struct tkt_ticket;

enum tkt_waiter_state {
  TKT_WAITER_BEYOND,
  TKT_WAITER_LINE,
  TKT_WAITER_PAUSED,
  TKT_WAITER_ASSIGNED,
  TKT_WAITER_ENCODED,
  TKT_WAITER_SENT,
};

struct tkt_waiter {
  struct tkt_frame frame; /* its node: the line, or a list of its session */
  struct tkt_timer timer;
  struct tkt_ticket *ticket; /* keys, and the record a grant will need */
  struct tkt_call *call;
  struct tkt_session *session; /* from ASSIGNED on */
  int64_t called_at;
  int64_t budget_ns;
  int64_t sent_at; /* SENT and ENCODED: when its bytes were offered */
  uint32_t
      ups; /* the client's count of its kind at the call, one less where a session was usable */
  uint32_t attempts;
  uint8_t state;
  uint8_t wait_s;
  uint8_t lease_s;
  uint8_t sent_wait_s; /* as it stands on the wire */
  uint8_t retries;
  bool slot;
  bool tombstone; /* counted in its session */
};

/* When an unsent acquire ends (S6). */
int64_t tkt_waiter_unsent_deadline(const struct tkt_waiter *w);

/* Ends the call (if there still is one) and frees the slot; the waiter stays. */
void tkt_waiter_settle(struct tkt_client *c, struct tkt_waiter *w, enum tkt_outcome outcome,
                       const char *reason);

/* Takes the waiter out of everything and frees it, with its ticket if that is still its own. */
void tkt_waiter_free(struct tkt_client *c, struct tkt_waiter *w);

/* Unsent: settle and free. */
void tkt_waiter_expire_unsent(struct tkt_client *c, struct tkt_waiter *w);

/* Sent: its caller gives up; the waiter becomes a tombstone of its session. */
void tkt_waiter_abandon(struct tkt_client *c, struct tkt_waiter *w, enum tkt_outcome outcome,
                        const char *reason);

/* The caller cancels (S3). */
void tkt_waiter_cancel(struct tkt_client *c, struct tkt_waiter *w);

/* Its request ended without a verdict (M3, M5, M7): a new one, with a new owner or id, after a
 * pause. */
void tkt_waiter_restart(struct tkt_client *c, struct tkt_waiter *w);

void tkt_waiter_timer(struct tkt_client *c, struct tkt_waiter *w);

/* What an answer does to a sent acquire (answers.c). */
void tkt_answer_granted(struct tkt_session *s, struct tkt_waiter *w, uint64_t token);
void tkt_answer_timed_out(struct tkt_session *s, struct tkt_waiter *w);
void tkt_answer_final(struct tkt_session *s, struct tkt_waiter *w, enum tkt_outcome outcome,
                      const char *reason);
/* It was not processed, and may be asked elsewhere. */
void tkt_answer_not_processed(struct tkt_session *s, struct tkt_waiter *w);
/* A grant that settles nothing: it goes back (M9). */
void tkt_answer_give_back(struct tkt_session *s, struct tkt_waiter *w, uint64_t token);

/* --- the line (line.c) ---------------------------------------------------------------------------
 */

/* Lets a new waiter in; false where every bound is reached (B6), *limit_out: which. */
bool tkt_line_admit(struct tkt_client *c, struct tkt_waiter *w, uint64_t *limit_out);

/* Frees the waiter's slot, for the next without one. */
void tkt_line_free_slot(struct tkt_client *c, struct tkt_waiter *w);

/* An unsent waiter comes back from its session: to the front, or after a pause. */
void tkt_line_return(struct tkt_client *c, struct tkt_waiter *w, bool pause);

/* Everything unsent of a session comes back, in order. */
void tkt_line_return_all(struct tkt_client *c, struct tkt_session *s, bool pause);

/* Its pause is over. */
void tkt_line_resume(struct tkt_client *c, struct tkt_waiter *w);

/* Takes an unsent waiter out of the line, its pause or its session's queue. */
void tkt_line_leave(struct tkt_client *c, struct tkt_waiter *w);

/* Gives sessions what they can take. */
void tkt_line_dispatch(struct tkt_client *c);

/* Ends every acquire of a set that waits for a session. */
void tkt_line_end_sets(struct tkt_client *c, enum tkt_outcome outcome, const char *reason);

/* Ends every unsent acquire. */
void tkt_line_end_all(struct tkt_client *c, enum tkt_outcome outcome, const char *reason);

#endif
