/* Timeouts of callers, turned into instants so that a wait can be taken up again. */
#ifndef TKT_DRIVE_TIME_LIMIT_H
#define TKT_DRIVE_TIME_LIMIT_H

#include "base/time.h"
#include "net/clock.h"

static inline int64_t tkt_deadline_of(int64_t timeout_ns) {
  if (timeout_ns == TKT_NEVER) return TKT_NEVER;
  int64_t now = tkt_clock_now();
  return timeout_ns < TKT_NEVER - now ? now + timeout_ns : TKT_NEVER;
}

/* 0 once it is over. */
static inline int64_t tkt_left_until(int64_t deadline) {
  if (deadline == TKT_NEVER) return TKT_NEVER;
  int64_t left = deadline - tkt_clock_now();
  return left > 0 ? left : 0;
}

#endif
