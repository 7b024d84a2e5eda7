/* Keys of the public header as spans. */
#ifndef TKT_ABI_SPANS_H
#define TKT_ABI_SPANS_H

#include "base/key.h"

#include <ticketing.h>

/* `count` keys in `out`; more than TKT_KEY_SET_MAX are not looked at, for the checks refuse them by
 * their number. NULL where `keys` is NULL. */
static inline const struct tkt_span *tkt_spans(const ticketing_key *keys, size_t count,
                                               struct tkt_span out[TKT_KEY_SET_MAX]) {
  if (!keys) return NULL;
  for (size_t i = 0; count <= TKT_KEY_SET_MAX && i < count; i++)
    out[i] = tkt_span(keys[i].data, keys[i].data ? keys[i].len : 0);
  return out;
}

#endif
