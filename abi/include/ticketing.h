/* libticketing — a distributed lock client.
 *
 * Two programs that must never work on the same thing at once ask a lock server for a ticket on a
 * key. The server grants it for a lease, with a fencing token that only grows. The winner works,
 * writes with the token in the same database transaction, and releases exactly that token.
 *
 * LIFE-CYCLE
 *
 *   ticketing_options  built with one setter a setting, read by ticketing_broker_open, then free it
 *   ticketing_broker   one a process: owns the sessions to the server
 *   ticketing_op       one thing under way: an acquire, a release, a watch, a close ...
 *   ticketing_ticket   what a granted acquire hands out
 *   ticketing_queue    optional: where ended ops are reported, with a descriptor to poll
 *
 * The shortest correct program (blocking):
 *
 *   ticketing_broker *broker;
 *   ticketing_ticket *ticket;
 *   if (ticketing_connect("127.0.0.1:5225", &broker) != TICKETING_OK) ...
 *   ticketing_acquire_params params = TICKETING_ACQUIRE_PARAMS_INIT;
 *   ticketing_key key = {"order-42", 8};
 *   params.keys = &key;
 *   params.key_count = 1;
 *   params.wait_ns = 5 * TICKETING_SECOND;
 *   params.lease_ns = 30 * TICKETING_SECOND;
 *   params.budget_ns = 2 * TICKETING_SECOND;
 *   int rc = ticketing_acquire(broker, &params, &ticket, NULL);
 *   if (rc == TICKETING_OK) {
 *     uint64_t token = ticketing_ticket_token(ticket);
 *     ... one database transaction: refuse token <= high-water, store it, write, commit ...
 *     rc = ticketing_ticket_release(ticket, NULL);
 *     ticketing_ticket_free(ticket);
 *   }
 *   ticketing_broker_close(broker);
 *   ticketing_broker_free(broker);
 *
 * RESULTS. Every function that can fail returns an int: TICKETING_OK (0), a small positive value
 * that is an answer and no failure (TICKETING_PENDING, TICKETING_NOT_CURRENT), or a negative
 * TICKETING_E_*. How an operation ended is its status, one of the same numbers.
 * ticketing_error_text and ticketing_error_advice say in words what each means and what to do.
 *
 * THREADS. Every function may be called from any thread at any time, on the same handle too, with
 * one exception: ticketing_broker_dispatch, and ticketing_op_wait / ticketing_queue_wait of a
 * CALLER broker (which dispatch), run one at a time; a second one gets TICKETING_E_STATE at once.
 *
 * BLOCKING. Only functions that say "blocks" wait for anything but a short internal lock.
 *
 * ARGUMENTS. A NULL handle or `*_out` answers TICKETING_E_INVALID_ARGUMENT, a negative timeout too;
 * nothing is clamped.
 *
 * OWNERSHIP. Handles come out of `*_out` parameters and are given back with their *_free function,
 * in any order, from any thread; NULL is ignored there. Each holds a counted reference on what it
 * needs. Strings and bytes given in are copied before the call returns. Using a handle after its
 * own free is an error of the program that the library cannot catch.
 *
 * FORK. After fork() the child's handles are dead: every call answers TICKETING_E_FORKED, those
 * that return something else 0, NULL or -1; frees only close the descriptors the child inherited,
 * and nothing is sent (rule B9). Open a new broker in the child.
 *
 * TIME. Durations are int64 nanoseconds (`_ns`); instants are on the clock of ticketing_now_ns,
 * which counts suspend and never goes back.
 *
 * The library never ends the process, installs no signal handler, needs no init call and keeps no
 * global state. Written for C99 and later and C++17 and later.
 * Everything here is there since 0.1.0, unless its comment says otherwise. A letter with a number
 * in parentheses, as in (S3), names the rule behind a behaviour; RULES.md, installed with the
 * documentation, lists them. */
#ifndef TICKETING_H
#define TICKETING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TICKETING_API __attribute__((visibility("default")))
#else
#define TICKETING_API
#endif

/* --- version --------------------------------------------------------------------------------- */

#define TICKETING_VERSION_MAJOR 0
#define TICKETING_VERSION_MINOR 1
#define TICKETING_VERSION_PATCH 0
#define TICKETING_VERSION "0.1.0"

/* Version of the library that runs, which may be newer than the header: "0.1.0". Static. */
TICKETING_API const char *ticketing_version(void);

/* The same as a number to compare: major * 1000000 + minor * 1000 + patch. */
TICKETING_API uint32_t ticketing_version_number(void);

/* --- time ------------------------------------------------------------------------------------ */

#define TICKETING_MILLISECOND INT64_C(1000000)
#define TICKETING_SECOND INT64_C(1000000000)
/* As a timeout: wait without limit. */
#define TICKETING_FOREVER INT64_MAX

/* The clock all instants of this library are on (CLOCK_BOOTTIME), in ns. Async-signal-safe. */
TICKETING_API int64_t ticketing_now_ns(void);

/* --- results --------------------------------------------------------------------------------- */

/* Answers that are no failures. */
#define TICKETING_OK 0          /* done: granted, released, ready, closed */
#define TICKETING_PENDING 1     /* not ended yet */
#define TICKETING_NOT_CURRENT 2 /* release: the token is not, or no longer, current (M3, R2) */

/* How an operation can end without success. */
#define TICKETING_E_TIMEOUT (-1)            /* acquire: not granted within its wait (S6) */
#define TICKETING_E_BUSY (-2)               /* acquire: refused, the server lacks capacity (M4) */
#define TICKETING_E_CANCELLED (-3)          /* cancelled before anything was sent (S3) */
#define TICKETING_E_INDETERMINATE (-4)      /* sent, no final reply: nobody knows (S2) */
#define TICKETING_E_INSUFFICIENT_LEASE (-5) /* granted, too little left; given back (G1) */
#define TICKETING_E_INVALID_ARGUMENT (-6)   /* refused before anything was sent (A1..A8) */
#define TICKETING_E_NOT_CONNECTED (-7)      /* no usable session in time, nothing sent (S6, R2) */
#define TICKETING_E_AUTH (-8)               /* every server refuses our token (B5) */
#define TICKETING_E_CLIENT_CAPACITY (-9)    /* a bound of this client is reached (B6, R4) */
#define TICKETING_E_CLOSED (-10)            /* the broker is closing or closed (B7) */
#define TICKETING_E_PROTOCOL (-11)          /* the server broke the protocol (M8, M9) */
#define TICKETING_E_UNSUPPORTED (-12)       /* beyond what locks here can do (A2, A8, B3) */
#define TICKETING_E_FORKED (-13)            /* this handle belongs to the parent process (B9) */

/* How a call itself can fail. */
#define TICKETING_E_NO_MEMORY (-14)   /* nothing was started */
#define TICKETING_E_STATE (-15)       /* not allowed now; the function says when */
#define TICKETING_E_INTERRUPTED (-16) /* a wait was woken by a signal or ticketing_op_wake */
#define TICKETING_E_SYSTEM (-17)      /* the system refused a descriptor or a thread */

/* "TICKETING_E_BUSY"; "?" for a number that is none. Static. */
TICKETING_API const char *ticketing_error_name(int code);
/* What it means, one sentence without a full stop. Static. */
TICKETING_API const char *ticketing_error_text(int code);
/* What the caller may do now, one sentence. Static. */
TICKETING_API const char *ticketing_error_advice(int code);

/* Room for any sentence of this library, NUL included. */
#define TICKETING_MESSAGE_SIZE 512

/* --- options --------------------------------------------------------------------------------- */

typedef struct ticketing_options ticketing_options;

/* E_NO_MEMORY. An options object is not safe to change from two threads at once. */
TICKETING_API int ticketing_options_new(ticketing_options **options_out);
TICKETING_API void ticketing_options_free(ticketing_options *options);

/* Why the last setter on this object refused: argument, value, range. "" where none did. Valid
 * until the next setter or free. */
TICKETING_API const char *ticketing_options_message(const ticketing_options *options);

/* Adds `host:port` or `[v6]:port`, port 1..65535; at least one, at most 6, none twice (A6). Several
 * mean one cluster (B3). E_INVALID_ARGUMENT, E_NO_MEMORY. */
TICKETING_API int ticketing_options_add_address(ticketing_options *options, const char *address);

/* The secret the server knows this client by, `len` bytes of any value; len 0 removes it (T2).
 * Wiped from memory on free. Default: none. E_NO_MEMORY. */
TICKETING_API int ticketing_options_set_token(ticketing_options *options, const void *token,
                                              size_t len);

#define TICKETING_HAS_TLS 1
#define TICKETING_TLS_OFF 0          /* plain text (default) */
#define TICKETING_TLS_SYSTEM_ROOTS 1 /* TLS; the authorities this machine trusts */
#define TICKETING_TLS_CA_FILE 2      /* TLS; the certificates of one PEM file and no others */
#define TICKETING_TLS_SKIP_VERIFY 3  /* TLS with whoever answers: for tests only */

/* How to connect (T1). TLS is 1.2 or newer; the host of each configured address must stand in the
 * server's certificate, a name (also sent as SNI) or an IP address, in its subjectAltName.
 *
 * `ca_file`: path for TICKETING_TLS_CA_FILE, else NULL. It is read now: one that cannot be used is
 * refused with E_INVALID_ARGUMENT, and ticketing_options_message names it and what is wrong. An
 * open broker looks at it before each connection; a file that was replaced holds from then on, one
 * that cannot be used leaves the former in force; the log says either, and the counters
 * tls_ca_files_taken and tls_ca_files_refused. TICKETING_TLS_SKIP_VERIFY is warned of in the log
 * and counted in tls_unverified_sessions.
 * Blocks as reading files does. E_INVALID_ARGUMENT. Since 0.1.0. */
TICKETING_API int ticketing_options_set_tls(ticketing_options *options, int tls_mode,
                                            const char *ca_file);

#define TICKETING_IO_THREAD 0 /* one I/O thread for the broker does everything */
#define TICKETING_IO_CALLER 1 /* no thread: you call ticketing_broker_dispatch */

/* Default TICKETING_IO_THREAD. E_INVALID_ARGUMENT. */
TICKETING_API int ticketing_options_set_io_mode(ticketing_options *options, int io_mode);

/* Requests sent and not answered, in all: 1..16384, default 1024 (B6). E_INVALID_ARGUMENT. */
TICKETING_API int ticketing_options_set_max_in_flight(ticketing_options *options, uint32_t count);

/* Acquires that wait unsent for a session or a slot: 0..1000000, default 65536; above it an acquire
 * ends at once in E_CLIENT_CAPACITY (B6). E_INVALID_ARGUMENT. */
TICKETING_API int ticketing_options_set_max_unsent(ticketing_options *options, uint32_t count);

/* 0 (default): cancelling a sent acquire closes its session, so that the server withdraws it; its
 * neighbours on that session may end as E_INDETERMINATE. 1: the session stays and the late reply is
 * swallowed, a late grant released; right for programs that cancel often (S3). */
TICKETING_API int ticketing_options_set_cancel_keeps_session(ticketing_options *options, int on);

#define TICKETING_WIRE_ANY 0 /* what a server's first bytes tell (default) */
#define TICKETING_WIRE_2 2   /* the line protocol: one key a lock */
#define TICKETING_WIRE_3 3   /* the framed protocol: key sets; 1, 3 or 5 addresses */

/* Which wire protocol to speak. Servers of the other one then count as not reachable.
 * E_INVALID_ARGUMENT. */
TICKETING_API int ticketing_options_set_wire(ticketing_options *options, int wire);

/* Length of a cluster's identity. */
#define TICKETING_IDENTITY_SIZE 32

/* What a cluster on wire 3 is known by: the TICKETING_IDENTITY_SIZE bytes that its deployment
 * chose; len 0 removes it. Servers that say they are of a cluster are refused without it
 * (E_UNSUPPORTED, B3). Default: none. E_INVALID_ARGUMENT. */
TICKETING_API int ticketing_options_set_cluster_identity(ticketing_options *options,
                                                         const void *identity, size_t len);

/* --- broker ---------------------------------------------------------------------------------- */

typedef struct ticketing_broker ticketing_broker;
typedef struct ticketing_queue ticketing_queue;
typedef struct ticketing_op ticketing_op;
typedef struct ticketing_ticket ticketing_ticket;

/* Opens a broker. Does not block and does not fail for lack of a server: sessions come up in the
 * background and are renewed with backoff for as long as the broker lives (B1, B4). `options` is
 * read, not kept. E_INVALID_ARGUMENT (no address), E_UNSUPPORTED (TICKETING_WIRE_3 with a number of
 * addresses that is not 1, 3 or 5, B3), E_NO_MEMORY, E_SYSTEM (descriptors, thread). */
TICKETING_API int ticketing_broker_open(const ticketing_options *options,
                                        ticketing_broker **broker_out);

/* Shorthand: one address, defaults for the rest. */
TICKETING_API int ticketing_connect(const char *address, ticketing_broker **broker_out);

/* Gives the handle back; never blocks. What is pending ends as ticketing_broker_close says, in the
 * background: a THREAD broker finishes releases for at most 5 s while the process lives; a CALLER
 * broker sends at once what the socket takes and drops the rest, so close it first where that
 * matters. Ops and tickets still in your hands answer E_CLOSED afterwards. */
TICKETING_API void ticketing_broker_free(ticketing_broker *broker);

/* Closes: new acquires are refused, unsent ones end as E_CLOSED, sent ones as E_INDETERMINATE,
 * releases under way finish; at most 5 s (B7). Held tickets are not released by it. Blocks; in
 * CALLER mode it dispatches. Closing twice is fine. E_FORKED, E_STATE (another
 * thread dispatches). */
TICKETING_API int ticketing_broker_close(ticketing_broker *broker);

/* The same as an operation that ends as TICKETING_OK; see ticketing_acquire_start. */
TICKETING_API int ticketing_broker_close_start(ticketing_broker *broker, ticketing_queue *queue,
                                               void *user, ticketing_op **op_out);

/* Waits until a session is usable: TICKETING_OK, or E_TIMEOUT after `timeout_ns` (0..FOREVER),
 * E_AUTH early when every address has refused the token, E_CLOSED (B1). Blocks; goes on waiting
 * when a signal arrives. */
TICKETING_API int ticketing_broker_wait_ready(ticketing_broker *broker, int64_t timeout_ns);

/* The same as an operation, which ends with one of those results; see ticketing_acquire_start for
 * `queue`, `user`, `op_out`, and for what a start itself returns. */
TICKETING_API int ticketing_broker_wait_ready_start(ticketing_broker *broker, int64_t timeout_ns,
                                                    ticketing_queue *queue, void *user,
                                                    ticketing_op **op_out);

/* CALLER mode: the one descriptor to poll for reading; readable while dispatch has work: replies,
 * timers, calls not sent yet; quiet once the broker has closed. It stays the same for the broker's
 * life and is closed by the library; take it out of your poll set before you free the broker. In
 * THREAD mode -1. */
TICKETING_API int ticketing_broker_fd(const ticketing_broker *broker);

/* CALLER mode: does what is due — reads, timers, writes — and returns the number of operations that
 * ended, or an error. Blocks at most `timeout_ns` (0: not at all; FOREVER) while nothing is due;
 * one turn, which may well end no operation. E_STATE: THREAD mode, or another thread is
 * dispatching. E_INTERRUPTED: a signal came first. E_CLOSED: the broker has closed, and there will
 * be no more. */
TICKETING_API int ticketing_broker_dispatch(ticketing_broker *broker, int64_t timeout_ns);

/* CALLER mode: sends what was started since the last dispatch, without reading. Saves a turn of the
 * event loop where latency matters. Does not block. E_STATE as for dispatch. */
TICKETING_API int ticketing_broker_flush(ticketing_broker *broker);

typedef struct ticketing_counter {
  const char *name; /* static, e.g. "acquires_granted" */
  uint64_t value;
} ticketing_counter;

/* Copies at most `room` counters and returns how many there are (more may come in later versions).
 * Names are never reused for another meaning. `counters` may be NULL with room 0. */
TICKETING_API size_t ticketing_broker_counters(const ticketing_broker *broker,
                                               ticketing_counter *counters, size_t room);

#define TICKETING_LOG_DEBUG 1
#define TICKETING_LOG_INFO 2
#define TICKETING_LOG_WARNING 3
#define TICKETING_LOG_ERROR 4

/* Room for any sentence of the log, NUL included. */
#define TICKETING_LOG_TEXT_SIZE 512

/* Starts with its size so that it can grow: initialise with TICKETING_LOG_ENTRY_INIT. */
typedef struct ticketing_log_entry {
  size_t size;   /* sizeof(ticketing_log_entry), of the header you compiled with */
  int64_t at_ns; /* when it happened, on ticketing_now_ns's clock */
  uint64_t lost; /* entries overwritten, undrained, right before this one */
  int32_t level; /* TICKETING_LOG_* */
  char text[TICKETING_LOG_TEXT_SIZE]; /* a sentence that names the address, never a secret (T3) */
} ticketing_log_entry;

#define TICKETING_LOG_ENTRY_INIT                                                                   \
  {                                                                                                \
    sizeof(ticketing_log_entry), 0, 0, 0, {                                                        \
      0                                                                                            \
    }                                                                                              \
  }

/* Takes the oldest entry of the broker's log: sessions that came up or ended, and why; refusals;
 * faults of servers; who leads; what was left to its lease. TICKETING_OK and *entry, or
 * TICKETING_PENDING: there is none. The log keeps the last 256 entries and calls nobody: drain it
 * when you like, or never. E_INVALID_ARGUMENT (`size`), E_FORKED. */
TICKETING_API int ticketing_broker_log_next(ticketing_broker *broker, ticketing_log_entry *entry);

/* --- completion queue ------------------------------------------------------------------------ */

/* A queue collects ops that ended. A broker may have many, for instance one per event loop.
 * E_NO_MEMORY, E_SYSTEM, E_FORKED. */
TICKETING_API int ticketing_queue_new(ticketing_broker *broker, ticketing_queue **queue_out);

/* Detaches the ops still reporting here: they go on and can be waited for. */
TICKETING_API void ticketing_queue_free(ticketing_queue *queue);

/* Readable while the queue holds anything (level-triggered; no need to read it). Valid until the
 * queue is freed. */
TICKETING_API int ticketing_queue_fd(const ticketing_queue *queue);

/* Takes the op that ended first: TICKETING_OK and *op_out, TICKETING_PENDING where the queue is
 * empty, E_FORKED. The op is the handle its start gave out; you still free it. */
TICKETING_API int ticketing_queue_next(ticketing_queue *queue, ticketing_op **op_out);

/* The same, waiting up to `timeout_ns` for one. Blocks; in CALLER mode it dispatches.
 * TICKETING_PENDING when the time is over, E_INTERRUPTED. */
TICKETING_API int ticketing_queue_wait(ticketing_queue *queue, int64_t timeout_ns,
                                       ticketing_op **op_out);

/* --- acquire --------------------------------------------------------------------------------- */

typedef struct ticketing_key {
  const char *data; /* 1..128 bytes of UTF-8 without space, CR, LF (A5); no NUL needed */
  size_t len;
} ticketing_key;

/* Starts with its size so that it can grow: initialise with TICKETING_ACQUIRE_PARAMS_INIT. */
typedef struct ticketing_acquire_params {
  size_t size;               /* sizeof(ticketing_acquire_params), of the header you compiled with: a
                                newer library reads no further; an older one refuses what it does
                                not know (E_UNSUPPORTED) unless it is zero */
  const ticketing_key *keys; /* 1..16; several are granted together or not at all, where the server
                                speaks wire 3; repeated keys count once (A5) */
  size_t key_count;
  int64_t wait_ns;   /* 0..255 s: how long it may queue; 0: one try that never queues (A1) */
  int64_t lease_ns;  /* >0..250 s: how long the grant lives, rounded up to seconds (A2, A4) */
  int64_t budget_ns; /* 0..lease: the time your work needs; a grant with less left is given back and
                        ends as E_INSUFFICIENT_LEASE. Queueing comes off the lease, so choose
                        lease >= wait + budget (A3, G1) */
} ticketing_acquire_params;

#define TICKETING_ACQUIRE_PARAMS_INIT                                                              \
  { sizeof(ticketing_acquire_params), NULL, 0, 0, 0, 0 }

/* Acquires, blocking: waits at most wait_ns rounded up to seconds, plus 1 s of rounding on the wire
 * and 5 s of transport allowance (S6, S7). Goes on waiting when a signal arrives; in CALLER mode it
 * dispatches. On TICKETING_OK *ticket_out is yours; otherwise NULL.
 * `message`: NULL, or TICKETING_MESSAGE_SIZE bytes that receive a sentence on any other result.
 *
 *   E_TIMEOUT             held by others all the time; nothing is left behind
 *   E_BUSY                refused for capacity; start a new acquire after a pause of your own
 *   E_INDETERMINATE       do not enter the critical section; a grant may exist until its lease ends
 *   E_INSUFFICIENT_LEASE  it came too late for the budget and was given back
 *   E_NOT_CONNECTED, E_AUTH, E_CLIENT_CAPACITY, E_CLOSED   nothing was sent
 *   E_INVALID_ARGUMENT, E_UNSUPPORTED                      refused; the message names value and
 * range E_PROTOCOL, E_FORKED, E_NO_MEMORY, E_STATE */
TICKETING_API int ticketing_acquire(ticketing_broker *broker,
                                    const ticketing_acquire_params *params,
                                    ticketing_ticket **ticket_out, char *message);

/* Starts an acquire and returns at once. TICKETING_OK: *op_out is a handle to wait on, cancel and
 * free; it ends in its own time, also where it is refused for capacity or because the broker
 * closed. `queue` (of this broker, or NULL) is where it reports; `user` comes back from
 * ticketing_op_user. E_INVALID_ARGUMENT, E_UNSUPPORTED, E_NO_MEMORY, E_FORKED: nothing was started,
 * and `message` (NULL or TICKETING_MESSAGE_SIZE bytes) says why. In CALLER mode nothing is sent
 * before the next dispatch or flush. */
TICKETING_API int ticketing_acquire_start(ticketing_broker *broker,
                                          const ticketing_acquire_params *params,
                                          ticketing_queue *queue, void *user, ticketing_op **op_out,
                                          char *message);

/* --- operations ------------------------------------------------------------------------------ */

#define TICKETING_OP_ACQUIRE 1
#define TICKETING_OP_RELEASE 2
#define TICKETING_OP_WAIT_READY 3
#define TICKETING_OP_CLOSE 4
#define TICKETING_OP_WATCH 5

/* TICKETING_OP_*. */
TICKETING_API int ticketing_op_kind(const ticketing_op *op);
/* The pointer given at the start. */
TICKETING_API void *ticketing_op_user(const ticketing_op *op);
/* TICKETING_PENDING, or how it ended. Acquire: TICKETING_OK is "granted", then take the ticket. */
TICKETING_API int ticketing_op_status(const ticketing_op *op);

/* Waits until the op has ended, at most `timeout_ns`: TICKETING_OK (look at the status),
 * TICKETING_PENDING when the time is over, E_INTERRUPTED after a signal handler ran in this thread
 * or after ticketing_op_wake (the op goes on), E_STATE (CALLER mode, another thread dispatches),
 * E_FORKED. Blocks; in CALLER mode it dispatches. */
TICKETING_API int ticketing_op_wait(ticketing_op *op, int64_t timeout_ns);

/* Makes a wait on this op, running or the next one, return E_INTERRUPTED once. Any thread; may be
 * called from a signal handler. */
TICKETING_API void ticketing_op_wake(ticketing_op *op);

/* Cancels (S3). An acquire not sent yet ends as E_CANCELLED, a sent one as E_INDETERMINATE, at once
 * (in CALLER mode with the next dispatch or flush, as all that is asked there); a granted one whose
 * ticket was not taken is released and stays TICKETING_OK, but take then gives E_CANCELLED. A
 * release or close goes on by itself; its op ends as E_CANCELLED. Harmless on an op that has
 * ended. */
TICKETING_API void ticketing_op_cancel(ticketing_op *op);

/* Takes the ticket of a granted acquire, once, in the thread or task that will do the work: the
 * budget is checked against the clock now (G1). TICKETING_OK and *ticket_out; else *ticket_out is
 * NULL: E_INSUFFICIENT_LEASE (it was given back; the op's status changes to it), the op's status
 * where it was not granted (TICKETING_PENDING included), E_STATE where it was taken before or the
 * op is no acquire. */
TICKETING_API int ticketing_op_take_ticket(ticketing_op *op, ticketing_ticket **ticket_out);

/* How the op ended, or that it has not, as a sentence with its numbers: at most `size` bytes with
 * the NUL; returns the full length without it, like snprintf. */
TICKETING_API size_t ticketing_op_message(const ticketing_op *op, char *buffer, size_t size);

/* Requests that were sent for this op, 0 before it has ended. A release that ends in NOT_CURRENT
 * after more than one may have seen the echo of its own success (R2). */
TICKETING_API uint32_t ticketing_op_attempts(const ticketing_op *op);

/* Gives the handle back: cancels what is pending, releases a grant nobody took, removes the op from
 * its queue. Never blocks. */
TICKETING_API void ticketing_op_free(ticketing_op *op);

/* --- tickets --------------------------------------------------------------------------------- */

/* The fencing token: grows with every grant of a cluster, below 2^53. Check and store it in the
 * same database transaction as the business write (F1). */
TICKETING_API uint64_t ticketing_ticket_token(const ticketing_ticket *ticket);

/* Keys of the grant, sorted bytewise, without repeats. */
TICKETING_API size_t ticketing_ticket_key_count(const ticketing_ticket *ticket);
/* Key `index`, or {NULL, 0} beyond the count. Valid until the ticket is freed. */
TICKETING_API ticketing_key ticketing_ticket_key(const ticketing_ticket *ticket, size_t index);

/* The instant until which the grant is surely ours, on ticketing_now_ns's clock (G2). */
TICKETING_API int64_t ticketing_ticket_valid_until_ns(const ticketing_ticket *ticket);
/* What is left until then, 0 when it is over. */
TICKETING_API int64_t ticketing_ticket_remaining_ns(const ticketing_ticket *ticket);

/* Releases the exact token and waits for the answer, at most 5 s (R1): TICKETING_OK released;
 * TICKETING_NOT_CURRENT it was not there any more (lease over, or an earlier try of ours
 * succeeded); E_NOT_CONNECTED never sent; E_INDETERMINATE sent, no answer: the ticket stays held,
 * release may be called again; E_CLOSED; E_INVALID_ARGUMENT a server of wire 3 refused it for good;
 * E_FORKED. A release under way is joined; a finished one
 * answers the same again. `message` as in ticketing_acquire. Blocks. */
TICKETING_API int ticketing_ticket_release(ticketing_ticket *ticket, char *message);

/* The same as an operation, which ends with one of those results; see ticketing_acquire_start for
 * `queue`, `user`, `op_out`, and for what a start itself returns. The ticket may be freed at once:
 * the release goes on. */
TICKETING_API int ticketing_ticket_release_start(ticketing_ticket *ticket, ticketing_queue *queue,
                                                 void *user, ticketing_op **op_out);

/* Starts a watch of the ticket (G2): an operation that ends as TICKETING_OK `lead_ns` before the
 * ticket's validity ends (0..FOREVER; at once where that instant is over), or as
 * TICKETING_NOT_CURRENT where the ticket was released or its handle freed before, or E_CLOSED; for
 * telling the work in time to stop. It does not keep the ticket, and changes nothing about it;
 * cancelled, it ends as E_CANCELLED. A ticket may have many. See ticketing_acquire_start for
 * `queue`, `user`, `op_out`, and for what a start itself returns. In CALLER mode it ends in a
 * dispatch; the broker's descriptor is readable when it is due. */
TICKETING_API int ticketing_ticket_watch_start(ticketing_ticket *ticket, int64_t lead_ns,
                                               ticketing_queue *queue, void *user,
                                               ticketing_op **op_out);

/* Keeps the grant alive beyond this handle: freeing it no longer releases. From here on it is yours
 * to release, for instance from another process by keys and token (G4). */
TICKETING_API void ticketing_ticket_detach(ticketing_ticket *ticket);

/* Gives the handle back. A ticket neither released nor detached is released in the background, once
 * and for at most 5 s, without telling how it ended (R3). Never blocks. */
TICKETING_API void ticketing_ticket_free(ticketing_ticket *ticket);

/* Releases a grant known only by its keys (all of them) and token (not 0). As
 * ticketing_ticket_release, and E_INVALID_ARGUMENT, E_CLIENT_CAPACITY (R4). Blocks. */
TICKETING_API int ticketing_release(ticketing_broker *broker, const ticketing_key *keys,
                                    size_t key_count, uint64_t token, char *message);

/* The same as an operation, which ends with one of those results; see ticketing_acquire_start for
 * `queue`, `user`, `op_out` and `message`, and for what a start itself returns. */
TICKETING_API int ticketing_release_start(ticketing_broker *broker, const ticketing_key *keys,
                                          size_t key_count, uint64_t token, ticketing_queue *queue,
                                          void *user, ticketing_op **op_out, char *message);

#ifdef __cplusplus
}
#endif

#endif
