/* A session: one connection to a server, from the dial to the driver's close.
 *
 *   DIALLING -> GREETING -> PROVING -> USABLE -> FINISHING -> HALF -> ENDED -> (freed)
 *                                          \________________-> LAST -----^
 *
 * FINISHING and HALF are the soft close of S3; LAST is the hard close, with what is readable taken
 * first (S4); in ENDED nothing is left but the driver's close. A session leaves its place when it
 * leaves USABLE. */
#ifndef TKT_CLIENT_SESSION_H
#define TKT_CLIENT_SESSION_H

#include "base/table.h"
#include "base/wheel.h"
#include "client/client.h"
#include "client/place.h"
#include "wire/parser.h"

#define TKT_HANDSHAKE_LIMIT (10 * TKT_S)
#define TKT_PROGRESS_LIMIT (3 * TKT_S)    /* write, mid-frame read, finishing a frame (B4, S3) */
#define TKT_HALF_CLOSED_LIMIT (2 * TKT_S) /* reading until EOF (S3) */
/* After the digest, with servers whose greeting word is not ours: usable without a frame. */
#define TKT_SILENT_ACCEPTANCE (100 * TKT_MS)

enum tkt_session_state {
  TKT_SESSION_DIALLING,
  TKT_SESSION_GREETING,
  TKT_SESSION_PROVING,
  TKT_SESSION_USABLE,
  TKT_SESSION_FINISHING,
  TKT_SESSION_HALF,
  TKT_SESSION_LAST,
  TKT_SESSION_ENDED,
};

struct tkt_session {
  struct tkt_client *client;
  struct tkt_list all;
  struct tkt_list dirty;
  struct tkt_list closing; /* of its address, while FINISHING or HALF */
  struct tkt_place *place; /* NULL once left */
  void *stream;
  uint8_t address;
  enum tkt_session_state state;
  bool framed;   /* it speaks wire 3 */
  uint8_t mode;  /* wire 3: enum tkt_wire_mode */
  bool poisoned; /* broke the protocol: nothing it says settles anything (M8, M9) */
  bool greets_like_ours;
  bool requested;   /* a byte of a request was handed over */
  bool stalled;     /* the kernel did not take all that was offered */
  bool names_other; /* its server last named another leader (B2) */
  unsigned pending; /* TKT_WANT_* not told yet */
  unsigned told;
  const char *reason; /* why it ended; static */
  int64_t dialled_at;
  int64_t usable_since;

  struct tkt_parser parser;
  uint32_t serial;  /* tells sessions apart in the table of ids */
  uint64_t next_id; /* wire 3 */

  /* Output: positions count bytes of the stream since its start. */
  struct tkt_buf out;
  uint64_t out_start; /* position of the first byte in `out` */
  uint64_t handed;    /* position up to which bytes may have left (S1) */
  uint64_t proof_end;
  struct tkt_list queue;    /* waiters assigned, not encoded */
  struct tkt_list releases; /* attempts assigned, not encoded */
  struct tkt_list encoded;  /* frames in `out` of which no byte was handed */
  struct tkt_list sent;     /* waiters, tombstones among them */
  struct tkt_list flying;   /* attempts */
  uint32_t tombstones;

  struct tkt_timer timer; /* of the state */
  struct tkt_timer write_timer;
  struct tkt_timer read_timer;
};

/* A request among the bytes of a session: part of a waiter or of a release attempt. */
struct tkt_frame {
  struct tkt_list node;
  struct tkt_table_node by_id;
  uint64_t id; /* encoded or sent; 0: it has none. Wire 2: the owner of an acquire, drawn; wire 3:
                  counted from 1 in a session */
  uint64_t start; /* position of its first byte, once encoded */
  bool release;
};

/* A fresh one in DIALLING, or NULL: out of memory. */
struct tkt_session *tkt_session_new(struct tkt_client *c, struct tkt_place *place);

/* Frees it; nothing may point at it any more. */
void tkt_session_free(struct tkt_session *s);

/* It wants something: the driver will be told. */
void tkt_session_touch(struct tkt_session *s, unsigned wants);

/* The timers of a session. */
void tkt_session_timer(struct tkt_session *s);
void tkt_session_write_timer(struct tkt_session *s);
void tkt_session_read_timer(struct tkt_session *s);

/* --- ending (ending.c) ---------------------------------------------------------------------------
 */

/* Closes as S3 does; costs nothing on a session that is already closing. */
void tkt_session_close_soft(struct tkt_session *s, enum tkt_leave why, const char *reason);

/* Closes at once, after what is readable (S4). */
void tkt_session_close_hard(struct tkt_session *s, enum tkt_leave why, const char *reason);

/* The stream is over: everything sent and unanswered settles now. */
void tkt_session_end(struct tkt_session *s, enum tkt_leave why, const char *reason);

/* The server broke the protocol (M8, M9). `readable`: the rest of its bytes can still be parsed. */
void tkt_session_poison(struct tkt_session *s, const char *reason, bool readable);

/* Settles whatever is still attached; before the session is freed. */
void tkt_session_settle(struct tkt_session *s);

/* The bytes of a soft-closing session are written: shuts its write side. */
void tkt_session_finished_writing(struct tkt_session *s);

/* A sent request lost its caller: one more tombstone, the bound of S5 kept. */
void tkt_session_bury(struct tkt_session *s);

/* --- output (output.c) ---------------------------------------------------------------------------
 */

/* Makes frames of which no byte was handed over unsent again. */
void tkt_output_pull_back(struct tkt_session *s);

/* True while bytes offered to the driver were not taken: it gets no further requests. */
static inline bool tkt_output_blocked(const struct tkt_session *s) {
  return tkt_buf_len(&s->out) > 0;
}

/* --- ids (ids.c) ---------------------------------------------------------------------------------
 */

/* The id the next request of this session may have. */
uint64_t tkt_id_next(struct tkt_session *s);

/* The frame gets it, and is found by it. */
void tkt_id_give(struct tkt_session *s, struct tkt_frame *f, uint64_t id);

/* Harmless where it has none. */
void tkt_id_take(struct tkt_client *c, struct tkt_frame *f);

/* The same for the frame encoded last, of which no byte left: its id goes to the next one. */
void tkt_id_take_back(struct tkt_session *s, struct tkt_frame *f);

/* NULL where no frame of this session has the id. */
struct tkt_frame *tkt_id_find(const struct tkt_session *s, uint64_t id);

/* --- matching (matching.c, matching_framed.c)
 * -----------------------------------------------------------------------
 */

/* One decoded message of a session behind its handshake. */
void tkt_match(struct tkt_session *s, const struct tkt_msg *msg);
void tkt_match_framed(struct tkt_session *s, const struct tkt_msg *msg);

/* The reply answers nothing that was asked (M9). */
void tkt_match_nothing(struct tkt_session *s);

#endif
