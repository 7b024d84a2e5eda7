/* Keys of the public header as spans. */
#ifndef TKT_ABI_SPANS_H
#define TKT_ABI_SPANS_H

#include "base/key.h"

#include <ticketing.h>

/* The first TKT_KEY_SET_MAX of `count` keys; more are refused by the checks without a look at them.
 * NULL where `keys` is NULL. */
static inline const struct tkt_span *tkt_spans(const ticketing_key *keys, size_t count,
                                               struct tkt_span out[TKT_KEY_SET_MAX]) {
  if (!keys) return NULL;
  for (size_t i = 0; i < count && i < TKT_KEY_SET_MAX; i++)
    out[i] = tkt_span(keys[i].data, keys[i].data ? keys[i].len : 0);
  return out;
}

#endif
