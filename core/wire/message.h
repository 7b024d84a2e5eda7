/* One message type for every wire: what client and server engines speak, whatever the bytes are.
 *
 * A decoded message borrows: its spans point into the bytes handed to the parser, or into the
 * parser, and are valid until the next call on that parser. Only the fields its kind names are set.
 *
 * Codecs hold framing, engines hold rules. What a decoder guarantees is lengths: a key has 0..128
 * bytes (a longer one is TKT_DECODE_TOO_LONG in either direction, found without keeping more than
 * that: a server answers it with Etoo_long and closes), a text fits its line. What a frame says is
 * passed on as it stands, for the engine to judge:
 *   - a key that breaks A5 (empty, space, CR, not UTF-8): the server engine asks tkt_key_check and
 *     answers Ebad_key; in a reply such a key matches no waiter;
 *   - owner 0 and token 0, any wait, any lease;
 *   - addresses and slots of M and L: compared with the configured ones, never parsed;
 *   - the keys of a set, their order too; a set whose count is not 1..16 comes with key_count 0.
 * Encoders refuse what would break the framing (a LF in a key or text, too long), nothing else. */
#ifndef TKT_WIRE_MESSAGE_H
#define TKT_WIRE_MESSAGE_H

#include "base/bytes.h"
#include "base/key.h"

#include <stdbool.h>
#include <stdint.h>

enum tkt_msg_kind {
  /* handshake */
  TKT_MSG_GREETING = 1, /* server: version, nonce; wire 2: text = word; wire 3: mode, slot */
  TKT_MSG_PROOF,        /* client: text = the digest as it stands on the wire */

  /* requests, client to server */
  TKT_MSG_ACQUIRE, /* id, wait_s, lease_s, keys */
  TKT_MSG_RELEASE, /* token, keys (wire 3: id too) */

  /* replies and notices, server to client */
  TKT_MSG_GRANTED,     /* id, token (wire 2: keys; wire 3: set) */
  TKT_MSG_TIMED_OUT,   /* id (wire 2: keys) */
  TKT_MSG_BUSY,        /* id (wire 2: keys) */
  TKT_MSG_RELEASED,    /* wire 2: token, keys; wire 3: id, set */
  TKT_MSG_NOT_CURRENT, /* wire 2: token, keys; wire 3: id */
  TKT_MSG_MOVED,       /* wire 2: text = address; wire 3: id, slot */
  TKT_MSG_LEADER,      /* wire 2: text = address; wire 3: slot */
  TKT_MSG_ERROR,       /* error; wire 2: text = reason as sent (encoding: text, or with an empty
                          text the name of error); wire 3: id */
  TKT_MSG_KEEPALIVE,   /* wire 2: LF alone; wire 3 says LEADER */
  TKT_MSG_UNCERTAIN,   /* wire 3: id. The server itself cannot say */

  TKT_MSG_VERDICT, /* handshake, server (wire 3): accepted */
};

/* How a server stands to the other configured addresses, as a wire 3 greeting says it. */
enum tkt_wire_mode { TKT_WIRE_SINGLE = 0, TKT_WIRE_CLUSTER = 1 };

/* Wire 3 names servers by their place in the address list; this is none of them. */
enum { TKT_SLOT_NONE = 255 };

/* Reasons an E frame gives. UNKNOWN: a reason this version does not know; see text. */
enum tkt_wire_error {
  TKT_WIRE_ERROR_UNKNOWN = 0,
  TKT_WIRE_ERROR_BAD_KEY,
  TKT_WIRE_ERROR_BAD_LEASE,
  TKT_WIRE_ERROR_NOT_ACTIVE,
  TKT_WIRE_ERROR_NO_LEADER,
  TKT_WIRE_ERROR_AUTH_FAILED,
  TKT_WIRE_ERROR_BAD_OP,
  TKT_WIRE_ERROR_TOO_LONG,
  /* wire 3 */
  TKT_WIRE_ERROR_BAD_KEY_SET,
  TKT_WIRE_ERROR_GROUP_MISMATCH,
  TKT_WIRE_ERROR_BAD_TOKEN,
};

struct tkt_msg {
  enum tkt_msg_kind kind;
  enum tkt_wire_error error;
  uint16_t wait_s;
  uint16_t lease_s;
  uint8_t key_count; /* 1 on wire 2 wherever keys are carried */
  bool set;          /* a set frame (wire 3); never on wire 2 */
  bool accepted;
  uint8_t slot;    /* wire 3: 0..4, or TKT_SLOT_NONE */
  uint8_t mode;    /* enum tkt_wire_mode */
  uint8_t version; /* of the wire that greets */
  uint64_t id;     /* wire 2: the owner; wire 3: the request id */
  uint64_t token;
  struct tkt_span text;
  struct tkt_span nonce;
  struct tkt_span keys[TKT_KEY_SET_MAX]; /* only the first key_count are set */
};

#endif
