/* Wire 3, the framed protocol: its bounds.
 *
 * A frame is an opcode byte, the length of its body as u16, and the body. Opcode and length are
 * judged as soon as they are there, before a byte of the body is kept. The handshake has no frames:
 * a hello of the server, an answer, a verdict, each of a fixed length. */
#ifndef TKT_WIRE_WIRE3_H
#define TKT_WIRE_WIRE3_H

#include "base/key.h"

enum {
  TKT_WIRE3_VERSION = 3,
  TKT_WIRE3_HELLO_LEN = 8 + 2 + 1 + 1 + 16, /* magic, version, mode, slot, nonce */
  TKT_WIRE3_HEADER = 1 + 2,

  /* Bodies of requests: id, wait and lease or token, then a key, or a count and keys with their
   * lengths. */
  TKT_WIRE3_ACQUIRE_FIXED = 8 + 1 + 1,
  TKT_WIRE3_RELEASE_FIXED = 8 + 8,
  TKT_WIRE3_SET_KEYS_MAX = TKT_KEY_SET_MAX * (1 + TKT_KEY_MAX),
  TKT_WIRE3_ACQUIRE_MAX = TKT_WIRE3_ACQUIRE_FIXED + TKT_KEY_MAX,
  TKT_WIRE3_RELEASE_MAX = TKT_WIRE3_RELEASE_FIXED + TKT_KEY_MAX,
  TKT_WIRE3_ACQUIRE_SET_MAX = TKT_WIRE3_ACQUIRE_FIXED + 1 + TKT_WIRE3_SET_KEYS_MAX,
  TKT_WIRE3_RELEASE_SET_MAX = TKT_WIRE3_RELEASE_FIXED + 1 + TKT_WIRE3_SET_KEYS_MAX,

  TKT_WIRE3_FRAME_MAX = TKT_WIRE3_HEADER + TKT_WIRE3_RELEASE_SET_MAX,
};

/* What a hello begins with; no greeting of wire 2 holds a NUL there. */
#define TKT_WIRE3_MAGIC "TCKCLI3"
enum { TKT_WIRE3_MAGIC_LEN = sizeof TKT_WIRE3_MAGIC }; /* with the NUL */

#endif
