#include "client/explain.h"

#include "base/time.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

struct sentence {
  char *out;
  size_t size;
  size_t len; /* it would have */
};

__attribute__((format(printf, 2, 3))) static void say(struct sentence *s, const char *format, ...) {
  va_list args;
  va_start(args, format);
  size_t room = s->len < s->size ? s->size - s->len : 0;
  int n = vsnprintf(room ? s->out + s->len : NULL, room, format, args);
  va_end(args);
  if (n > 0) s->len += (size_t)n;
}

static double seconds(int64_t ns) {
  return (double)ns / (double)TKT_S;
}

static void acquire_sentence(struct sentence *s, const struct tkt_call *call) {
  const struct tkt_call_detail *d = &call->detail;
  switch (call->outcome) {
  case TKT_OK:
    say(s, call->given_back ? "granted, then cancelled before the ticket was taken: it was released"
                            : "granted");
    break;
  case TKT_TIMEOUT:
    say(s, "not granted within the wait of %.0f s", seconds(d->wait_ns));
    break;
  case TKT_BUSY:
    say(s, "the server refused the acquire for lack of capacity");
    break;
  case TKT_CANCELLED:
    say(s, "cancelled before anything was sent");
    break;
  case TKT_INDETERMINATE:
    say(s,
        "the acquire was sent %.3f s ago and got no final reply: whether it was granted is not "
        "known; do not enter the critical section (a grant would end with its lease of %.0f s)",
        seconds(d->queued_ns), seconds(d->lease_ns));
    break;
  case TKT_INSUFFICIENT_LEASE:
    say(s,
        "granted with %.3f s of the lease left, less than the budget of %.3f s: it was given back "
        "(lease %.0f s, queued for %.3f s; choose lease >= wait + budget)",
        seconds(d->remaining_ns), seconds(d->budget_ns), seconds(d->lease_ns),
        seconds(d->queued_ns));
    break;
  case TKT_NOT_CONNECTED:
    say(s, "no server session could take the acquire in time; nothing was sent");
    break;
  case TKT_CLIENT_CAPACITY:
    say(s, "this client has reached its bound of %" PRIu64 " requests; nothing was sent", d->limit);
    break;
  default:
    break;
  }
}

static void release_sentence(struct sentence *s, const struct tkt_call *call) {
  const struct tkt_call_detail *d = &call->detail;
  switch (call->outcome) {
  case TKT_OK:
    say(s, "released");
    break;
  case TKT_NOT_CURRENT:
    say(s,
        d->attempts > 1 ? "not current: the grant was not there (after %" PRIu32
                          " attempts this may be the echo of our own success)"
                        : "not current: the grant was not there any more (%" PRIu32 " attempt)",
        d->attempts);
    break;
  case TKT_NOT_CONNECTED:
    say(s, "no server session could take the release within 5 s; the ticket is still held");
    break;
  case TKT_INDETERMINATE:
    say(s,
        "no answer to the release within 5 s (%" PRIu32
        " attempts): whether it was released is not known; release may be called again",
        d->attempts);
    break;
  case TKT_CANCELLED:
    say(s, "nobody waits for it any more; it goes on by itself");
    break;
  case TKT_CLIENT_CAPACITY:
    say(s, "the release lane has reached its bound of %" PRIu64 " releases without a ticket",
        d->limit);
    break;
  default:
    break;
  }
}

static void watch_sentence(struct sentence *s, const struct tkt_call *call) {
  if (call->outcome == TKT_OK) say(s, "the ticket ends soon: the chosen lead before it has come");
  if (call->outcome == TKT_NOT_CURRENT) say(s, "the ticket was released or given back first");
}

static const char *general(enum tkt_outcome outcome) {
  switch (outcome) {
  case TKT_OK:
    return "done";
  case TKT_PENDING:
    return "not ended yet";
  case TKT_NOT_CURRENT:
    return "not current";
  case TKT_TIMEOUT:
    return "no session became usable in time";
  case TKT_BUSY:
    return "busy";
  case TKT_CANCELLED:
    return "cancelled";
  case TKT_INDETERMINATE:
    return "the outcome is not known";
  case TKT_INSUFFICIENT_LEASE:
    return "too little of the lease is left";
  case TKT_INVALID_ARGUMENT:
    return "invalid argument";
  case TKT_NOT_CONNECTED:
    return "not connected";
  case TKT_AUTH:
    return "every server that answered refused the token";
  case TKT_CLIENT_CAPACITY:
    return "a bound of this client is reached";
  case TKT_CLOSED:
    return "the broker is closing or closed";
  case TKT_PROTOCOL:
    return "the server broke the protocol";
  case TKT_UNSUPPORTED:
    return "not supported";
  case TKT_FORKED:
    return "this handle belongs to the parent process";
  case TKT_NO_MEMORY:
    return "out of memory";
  }
  return "unknown outcome";
}

size_t tkt_call_explain(const struct tkt_call *call, char *out, size_t size) {
  struct sentence s = {out, size, 0};
  if (size) out[0] = 0;
  if (call->kind == TKT_CALL_ACQUIRE) acquire_sentence(&s, call);
  if (call->kind == TKT_CALL_RELEASE) release_sentence(&s, call);
  if (call->kind == TKT_CALL_WATCH) watch_sentence(&s, call);
  if (s.len == 0) say(&s, "%s", general(call->outcome));
  if (call->where) say(&s, ": %s", call->where);
  if (call->reason) say(&s, ": %s", call->reason);
  return s.len;
}
