/* The client engine: every rule of the client, as a state machine without sockets, threads or
 * clocks.
 *
 * The driver owns streams and time. It hands in what happened (connected, bytes, end of stream, the
 * clock) and carries out what the engine wants: the sessions with something to do come out of
 * tkt_client_next_dirty, the calls that ended out of tkt_client_next_done. No function blocks or
 * calls back. One turn of a driver:
 *
 *   1. what the poller reported:  tkt_session_connected / _input / _eof / _failed
 *   2. new calls of the callers:  tkt_client_acquire / _release / _cancel ...
 *   3. tkt_client_tick(now)       timers, always after the I/O (S4)
 *   4. while ((s = tkt_client_next_dirty(c)))  connect, write, shut, close as it wants
 *   5. while ((call = tkt_client_next_done(c)))  report it
 *   6. sleep until tkt_client_next_deadline
 *
 * Not thread-safe: the driver holds one lock around it. `now` never goes back. */
#ifndef TKT_CLIENT_CLIENT_H
#define TKT_CLIENT_CLIENT_H

#include "base/bytes.h"
#include "client/arguments.h"
#include "client/call.h"
#include "client/log.h"

#include <stdbool.h>
#include <stdint.h>

enum {
  TKT_IN_FLIGHT_DEFAULT = 1024, /* B6 */
  TKT_IN_FLIGHT_MAX = 16384,
  TKT_UNSENT_DEFAULT = 65536,
  TKT_TOMBSTONES_MAX = 1024,     /* a session (S5) */
  TKT_CHUNK = 16384,             /* most bytes encoded ahead of the kernel, per session */
  TKT_READ_BEFORE_CLOSE = 65536, /* most bytes the driver reads from an ending session (S4) */
};

struct tkt_client_config {
  const char *const *addresses; /* checked by tkt_addresses_check; copied */
  size_t address_count;
  struct tkt_span token; /* copied, wiped when freed; len 0: none */
  uint32_t max_in_flight;
  uint32_t max_unsent;
  bool cancel_keeps_session; /* S3 */
  uint8_t wire;              /* 2 or 3: only this one; 0: whichever a server's first bytes tell */
  const uint8_t *identity;   /* TKT_WIRE3_IDENTITY_LEN bytes that a cluster on wire 3 is known by;
                                copied; NULL: none */
  uint64_t seed[4];          /* owners and jitter; from the system, or from a simulation's seed */
};

struct tkt_client;
struct tkt_session;

/* NULL: out of memory. Nothing is connected yet: the first tick wants connections. */
struct tkt_client *tkt_client_new(const struct tkt_client_config *config, int64_t now);

/* Frees everything. Every session must have been closed or abandoned by the driver (their `stream`
 * is not touched); pending calls are not completed and must not be looked at by the engine again,
 * tickets die with it. */
void tkt_client_free(struct tkt_client *client);

/* --- calls -------------------------------------------------------------------------------------
 * `call` is zeroed by the caller; the engine sets its kind. Each may end at once: it then stands on
 * the done list like any other. */

/* Starts an acquire of a checked plan; keys are copied. Ends as TKT_NO_MEMORY, TKT_CLIENT_CAPACITY,
 * TKT_CLOSED, TKT_AUTH at once, or later as the rules say. */
void tkt_client_acquire(struct tkt_client *client, struct tkt_call *call,
                        const struct tkt_acquire_plan *plan, int64_t now);

/* After an acquire ended in TKT_OK: hands the ticket out if it still covers its budget at `now`
 * (G1), once. TKT_OK with *ticket_out; TKT_INSUFFICIENT_LEASE (the grant is released in the
 * background, call->outcome and detail follow); the call's outcome where it was not granted;
 * TKT_INVALID_ARGUMENT where it was taken before. */
enum tkt_outcome tkt_client_take(struct tkt_client *client, struct tkt_call *call, int64_t now,
                                 struct tkt_ticket **ticket_out);

/* Releases the ticket's exact token (R1..R3); joins a release of it that is running. Ends as TKT_OK
 * (R), TKT_NOT_CURRENT (N), TKT_NOT_CONNECTED, TKT_INDETERMINATE, TKT_CLOSED. A ticket already
 * released ends as it ended then. */
void tkt_client_release(struct tkt_client *client, struct tkt_call *call, struct tkt_ticket *ticket,
                        int64_t now);

/* Release by checked keys and token, without a ticket; keys are copied. */
void tkt_client_release_exact(struct tkt_client *client, struct tkt_call *call,
                              const struct tkt_span *keys, size_t key_count, uint64_t token,
                              int64_t now);

/* Ends as TKT_OK once a session is usable, TKT_TIMEOUT after `timeout_ns`, TKT_AUTH early when
 * every address refused (B1), TKT_CLOSED. */
void tkt_client_wait_ready(struct tkt_client *client, struct tkt_call *call, int64_t timeout_ns,
                           int64_t now);

/* G2: ends as TKT_OK at `lead_ns` (not negative) before the ticket's validity ends, at once where
 * that is over; as TKT_NOT_CURRENT where the ticket was released or dropped first; as TKT_CLOSED.
 * It neither keeps the ticket nor releases it. */
void tkt_client_watch(struct tkt_client *client, struct tkt_call *call, struct tkt_ticket *ticket,
                      int64_t lead_ns, int64_t now);

/* B7. A second close joins the first. Ends as TKT_OK. */
void tkt_client_close(struct tkt_client *client, struct tkt_call *call, int64_t now);

/* Cancels: an acquire as S3 says (a granted, untaken one is released); a wait for readiness ends as
 * TKT_CANCELLED; a release or close ends as TKT_CANCELLED for this caller and itself goes on. A
 * call that has ended, other than a granted untaken acquire, stays as it is. */
void tkt_client_cancel(struct tkt_client *client, struct tkt_call *call, int64_t now);

/* The caller's half goes away: cancels what is pending, releases an untaken grant, and leaves no
 * pointer to `call` in the engine; it does not appear on the done list afterwards. */
void tkt_client_forget(struct tkt_client *client, struct tkt_call *call, int64_t now);

/* Next ended call, each once; NULL when there is none. */
struct tkt_call *tkt_client_next_done(struct tkt_client *client);

/* --- tickets -----------------------------------------------------------------------------------
 * Owned by the engine, lent to the caller from take until drop. */

uint64_t tkt_ticket_token(const struct tkt_ticket *ticket);
size_t tkt_ticket_key_count(const struct tkt_ticket *ticket);
struct tkt_span tkt_ticket_key(const struct tkt_ticket *ticket, size_t index);
/* The conservative instant until which it is valid (G2). */
int64_t tkt_ticket_valid_until(const struct tkt_ticket *ticket);

/* G4: from here on the engine never releases it by itself; an explicit release still may. */
void tkt_client_detach(struct tkt_client *client, struct tkt_ticket *ticket);

/* Ends the loan: one bounded background release, unless detached or released (R3). */
void tkt_client_drop(struct tkt_client *client, struct tkt_ticket *ticket, int64_t now);

/* --- sessions, as the driver sees them ---------------------------------------------------------
 */

/* What the driver keeps with a session (its stream); NULL at first. */
void tkt_session_set_stream(struct tkt_session *session, void *stream);
void *tkt_session_stream(const struct tkt_session *session);
/* Which configured address it belongs to, and its text. */
size_t tkt_session_address(const struct tkt_session *session);
const char *tkt_session_address_text(const struct tkt_session *session);

/* Next session that wants something, NULL when none does. A session comes again when it wants
 * something new, or after the driver reported progress. */
struct tkt_session *tkt_client_next_dirty(struct tkt_client *client);

enum tkt_session_want {
  TKT_WANT_CONNECT = 1, /* open a stream to its address; once */
  TKT_WANT_WRITE = 2,   /* tkt_session_output has bytes */
  TKT_WANT_SHUT = 4,    /* shut the write side (after WRITE, if both), once */
  TKT_WANT_CLOSE = 8,   /* close the stream, if one was opened, and call tkt_session_closed; nothing
                           else after */
  TKT_WANT_LAST_READ = 16, /* with CLOSE: hand in what is readable at once first (S4), at most
                              TKT_READ_BEFORE_CLOSE bytes */
};
unsigned tkt_session_wants(const struct tkt_session *session);

/* Bytes to hand to the kernel, encoded now and at most TKT_CHUNK ahead; `now` becomes the sent_at
 * of requests not offered before (G1). Valid until the next call on this session. */
struct tkt_span tkt_session_output(struct tkt_session *session, int64_t now);

/* The first `n` bytes of the output may have left the process (S1): for a socket, what send took,
 * reported before _written; for TLS the whole chunk, reported before SSL_write. Idempotent. Between
 * _output and this no other function of the client may be called (the driver keeps its lock). */
void tkt_session_handed(struct tkt_session *session, size_t n);

/* The first `n` bytes of the output are gone from the buffer. `n` below what was offered (0 too,
 * where the kernel took nothing) says that the stream is full: requests of which no byte left may
 * move to another session, and the driver calls _output again once it can write; _wants says WRITE
 * until then. */
void tkt_session_written(struct tkt_session *session, size_t n, int64_t now);

/* The stream can carry bytes (connected, and under TLS its handshake done). */
void tkt_session_connected(struct tkt_session *session, int64_t now);

/* Bytes arrived; consumed or kept before this returns. */
void tkt_session_input(struct tkt_session *session, struct tkt_span bytes, int64_t now);

/* The peer will send nothing more. */
void tkt_session_eof(struct tkt_session *session, int64_t now);

/* The stream failed (connect refused, reset, write error); the driver has read what was readable.
 * `reason` is static text. Afterwards the session wants CLOSE. */
void tkt_session_failed(struct tkt_session *session, const char *reason, int64_t now);

/* The driver closed the stream as wanted; the session is gone. */
void tkt_session_closed(struct tkt_session *session, int64_t now);

/* --- time and observation -----------------------------------------------------------------------
 */

/* Fires what is due at `now`. */
void tkt_client_tick(struct tkt_client *client, int64_t now);

/* When to tick again, TKT_NEVER: only on an event. */
int64_t tkt_client_next_deadline(const struct tkt_client *client);

/* True once a close has ended: no session is left or wanted. */
bool tkt_client_finished(const struct tkt_client *client);

/* True while a session can take requests. */
bool tkt_client_usable(const struct tkt_client *client);

/* Takes the oldest entry of the log; false: there is none. */
bool tkt_client_log_next(struct tkt_client *client, struct tkt_log_entry *entry_out);

/* For the driver: notes something of its own. `text` is static. */
void tkt_client_note(struct tkt_client *client, enum tkt_log_level level, const char *text);

struct tkt_counter {
  const char *name; /* static, snake_case */
  uint64_t value;
};
/* Fills at most `room` counters, returns how many there are. */
size_t tkt_client_counters(const struct tkt_client *client, struct tkt_counter *out, size_t room);

#endif
