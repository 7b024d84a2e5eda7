/* A call: the caller's half of one thing asked of the client engine.
 *
 * The caller owns the memory (the driver embeds it in a public operation) and zeroes it before the
 * start (then it may set asked_at). From the start until the outcome is no longer TKT_PENDING and
 * the call was taken off the done list, or until tkt_client_forget, the engine holds pointers to
 * it. */
#ifndef TKT_CLIENT_CALL_H
#define TKT_CLIENT_CALL_H

#include "base/list.h"
#include "base/wheel.h"
#include "client/outcome.h"

#include <stdbool.h>
#include <stdint.h>

struct tkt_ticket;

enum tkt_call_kind {
  TKT_CALL_ACQUIRE = 1,
  TKT_CALL_RELEASE,
  TKT_CALL_WAIT_READY,
  TKT_CALL_CLOSE,
  TKT_CALL_WATCH,
};

/* The numbers that explain an outcome; those that do not apply are 0. */
struct tkt_call_detail {
  int64_t wait_ns;      /* acquire: rounded wait */
  int64_t lease_ns;     /* acquire: rounded lease */
  int64_t budget_ns;    /* acquire: as given */
  int64_t queued_ns;    /* acquire: from the sending of the request to the outcome */
  int64_t remaining_ns; /* InsufficientLease: what was left of the lease */
  uint64_t limit;       /* ClientCapacity: the bound that was reached */
  uint32_t
      attempts; /* requests sent; a release with more than one may see its own echo as N (R2) */
};

struct tkt_call {
  enum tkt_call_kind kind;
  enum tkt_outcome outcome;
  struct tkt_ticket *ticket; /* acquire: granted and not taken yet; release: the ticket, or NULL */
  struct tkt_call_detail detail;
  const char *reason; /* static text that narrows the outcome down, or NULL */
  const char *where;  /* the address the reason is about, lives as long as the client; or NULL */
  bool given_back;    /* acquire: granted, then cancelled before it was taken; the outcome stays */
  int64_t asked_at; /* set by the caller where the start comes later than the asking (deadlines run
                       from it, S6); 0: it does not */

  /* The engine's. */
  struct tkt_list node;   /* done list, or the calls that wait for the same thing */
  struct tkt_timer timer; /* WAIT_READY, CLOSE, WATCH */
  void *half;             /* its waiter or release record while pending */
};

#endif
