/* What a key may be (rule A5): 1..128 bytes of valid UTF-8 without space, CR or LF. */
#ifndef TKT_BASE_KEY_H
#define TKT_BASE_KEY_H

#include "base/bytes.h"

enum { TKT_KEY_MAX = 128, TKT_KEY_SET_MAX = 16 };

enum tkt_key_fault {
  TKT_KEY_OK = 0,
  TKT_KEY_EMPTY,
  TKT_KEY_TOO_LONG,
  TKT_KEY_FORBIDDEN_BYTE, /* space, CR or LF */
  TKT_KEY_NOT_UTF8,       /* also overlong forms, surrogates, above U+10FFFF */
};

enum tkt_key_fault tkt_key_check(struct tkt_span key);

/* Sorts `keys` bytewise, drops repeated ones, returns how many are left. Spans move, bytes stay. */
size_t tkt_key_set_normalize(struct tkt_span *keys, size_t count);

#endif
