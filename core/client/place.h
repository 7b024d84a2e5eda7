/* Addresses and places. A configured address has one place, or two where it is the only one (B2);
 * a place holds one session that lives or comes up, or the instant of the next dial (B4). */
#ifndef TKT_CLIENT_PLACE_H
#define TKT_CLIENT_PLACE_H

#include "base/list.h"
#include "client/arguments.h"

#include <stdbool.h>
#include <stdint.h>

struct tkt_client;
struct tkt_session;

#define TKT_BACKOFF_FIRST (100 * TKT_MS)
#define TKT_BACKOFF_LONGEST (3200 * TKT_MS)
/* A session that was usable for less counts as a failure. */
#define TKT_LIVED_WELL (1 * TKT_S)
/* Undelayed redials keep this distance, per address. */
#define TKT_REDIAL_DISTANCE (100 * TKT_MS)

enum {
  TKT_PLACES_MAX = TKT_ADDRESS_COUNT_MAX,
  TKT_PLACES_OF_ONLY_ADDRESS = 2,
  TKT_CLOSING_MAX = 8, /* closing sessions of an address; beyond, the oldest closes hard */
};

/* What the last attempt on an address that ended or came up said. */
enum tkt_verdict {
  TKT_VERDICT_NONE = 0, /* nothing: not reached, or not told */
  TKT_VERDICT_ACCEPTED,
  TKT_VERDICT_AUTH, /* it refused our token (B5) */
  TKT_VERDICT_MODE, /* it is not what the list of addresses says of it (B3) */
};

struct tkt_address_state {
  char *text;
  enum tkt_verdict verdict;
  uint8_t wire;           /* of its last greeting, 0: none yet */
  const char *fault;      /* why its last attempt failed, static; NULL: it did not, or none ended */
  bool foreign_logged;    /* that it named a leader who is not configured */
  int64_t next_undelayed; /* earliest undelayed redial */
  struct tkt_list closing; /* closing sessions, oldest first */
  unsigned closing_count;
};

struct tkt_place {
  struct tkt_session *session;
  uint8_t address;
  uint8_t failures; /* in a row */
  int64_t dial_at;
};

/* Why a session left its place, for the delay of the next dial. */
enum tkt_leave {
  TKT_LEAVE_ENDED,       /* it failed or ended: backoff, from the start where it lived well */
  TKT_LEAVE_BY_US,       /* closed as S3 does: undelayed */
  TKT_LEAVE_REDIRECTED,  /* moved, with requests sent: undelayed */
  TKT_LEAVE_NOT_SERVING, /* no_leader, not_active: backoff, however long it lived */
  TKT_LEAVE_REFUSED,     /* auth_failed, wrong mode: longest backoff */
  TKT_LEAVE_CLOSING,     /* the client is closing: only the release lane may want another */
};

/* Makes the places of the configured addresses; the first dials are due at once. */
void tkt_places_init(struct tkt_client *c);

/* Dials what is due. */
void tkt_places_tick(struct tkt_client *c);

/* Earliest dial, TKT_NEVER for none. */
int64_t tkt_places_next(const struct tkt_client *c);

/* The session leaves its place (if it still has one) and the next dial is planned. */
void tkt_place_leave(struct tkt_session *s, enum tkt_leave why);

/* A session is usable or coming up. */
bool tkt_places_alive(const struct tkt_client *c);

/* --- leader hint and choice (hint.c) -------------------------------------------------------------
 */

/* The server of `s` named a leader (M5, M6): remembered only if it is configured. True where that
 * changes which sessions may take requests. */
bool tkt_hint_named(struct tkt_session *s, const uint8_t *text, size_t len);

/* The same by a slot of wire 3; TKT_SLOT_NONE drops the hint. False: a server of its mode cannot
 * name that one. *changed_out as above. */
bool tkt_hint_named_slot(struct tkt_session *s, uint8_t slot, bool *changed_out);

/* Another leader was named, or a session came up: what was given to sessions that take no requests
 * now, and did not leave yet, goes elsewhere, and so does what waits. */
void tkt_hint_choose_again(struct tkt_client *c);

/* The session is no longer usable: drops the hint if it was the hinted one. Not for sessions that
 * we closed for a cancel: their server leads on (B2). */
void tkt_hint_lost(struct tkt_client *c, unsigned address);

/* Its server left a request unanswered: no leader to wait for. */
void tkt_hint_silent(struct tkt_session *s);

/* A server said no_leader (M7). */
void tkt_hint_no_leader(struct tkt_session *s);

struct tkt_ticket;

/* The session for the next acquire (B2), NULL: none can take one now. A set needs one of wire 3. */
struct tkt_session *tkt_hint_pick(struct tkt_client *c, bool set);

/* The same for an attempt of this release. Sessions that have one in flight, or cannot carry it,
 * are passed over; *passed_out tells whether there were any. */
struct tkt_session *tkt_hint_pick_for(struct tkt_client *c, const struct tkt_ticket *ticket,
                                      bool *passed_out);

#endif
