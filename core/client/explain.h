/* The sentence that tells a person how a call ended, with the values that explain it. */
#ifndef TKT_CLIENT_EXPLAIN_H
#define TKT_CLIENT_EXPLAIN_H

#include "client/call.h"

#include <stddef.h>

/* Writes a NUL-terminated sentence of at most `size` bytes (cut if need be) and returns the length
 * it would have had, as snprintf does. Never shows the token of the configuration. */
size_t tkt_call_explain(const struct tkt_call *call, char *out, size_t size);

#endif
