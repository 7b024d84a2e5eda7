/* How a call ended. The numbers are those of the public header; abi/src asserts it. */
#ifndef TKT_CLIENT_OUTCOME_H
#define TKT_CLIENT_OUTCOME_H

enum tkt_outcome {
  TKT_OK = 0,          /* granted, released (R), ready, closed */
  TKT_PENDING = 1,     /* still going on */
  TKT_NOT_CURRENT = 2, /* a release answered N: a value, not a failure (M3) */
  TKT_TIMEOUT = -1,
  TKT_BUSY = -2,
  TKT_CANCELLED = -3,
  TKT_INDETERMINATE = -4,
  TKT_INSUFFICIENT_LEASE = -5,
  TKT_INVALID_ARGUMENT = -6,
  TKT_NOT_CONNECTED = -7,
  TKT_AUTH = -8,
  TKT_CLIENT_CAPACITY = -9,
  TKT_CLOSED = -10,
  TKT_PROTOCOL = -11,
  TKT_UNSUPPORTED = -12,
  TKT_FORKED = -13,
  TKT_NO_MEMORY = -14,
};

#endif
