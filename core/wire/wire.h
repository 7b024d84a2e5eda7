/* The operations of one wire protocol: a table a protocol, so that engines and parser hold no byte
 * layout. `tkt_wire2` is the line protocol, `tkt_wire3` the framed one.
 *
 * Decoders are pure: they look at `bytes` from its start and never keep a pointer beyond the
 * message. Encoders append to a buffer and either write the whole message or nothing. */
#ifndef TKT_WIRE_WIRE_H
#define TKT_WIRE_WIRE_H

#include "base/bytes.h"
#include "wire/message.h"

enum tkt_decode {
  TKT_DECODE_MORE = 0,  /* no whole message yet: call again with more bytes behind these */
  TKT_DECODE_OK,        /* *msg_out and *used_out are set */
  TKT_DECODE_TOO_LONG,  /* the frame passes the bound of this wire, whatever follows */
  TKT_DECODE_MALFORMED, /* opcode known, content impossible */
  TKT_DECODE_UNKNOWN,   /* opcode not of this wire and direction */
};

/* Which messages a decoder expects next. */
enum tkt_phase {
  TKT_PHASE_GREETING, /* client side, first bytes of a session */
  TKT_PHASE_REPLIES,  /* client side, after it */
  TKT_PHASE_PROOF,    /* server side, first bytes of a session */
  TKT_PHASE_REQUESTS, /* server side, after it */
  TKT_PHASE_VERDICT,  /* client side on wire 3, between greeting and replies */
};

struct tkt_wire {
  unsigned version;
  /* Most bytes of one frame in any phase, the bound of what a parser keeps. */
  size_t frame_max;
  /* Most bytes of one message that a server writes, its greeting among them. */
  size_t reply_max;
  enum tkt_decode (*decode)(enum tkt_phase phase, struct tkt_span bytes, struct tkt_msg *msg_out,
                            size_t *used_out);
  /* Bytes the encoded message takes, 0 where this wire cannot carry it (several keys on wire 2,
   * a field out of its range, a kind it does not have). */
  size_t (*encoded_size)(const struct tkt_msg *msg);
  /* Writes exactly encoded_size bytes and returns how many. The message must be one that
   * encoded_size accepts; who knows that, and has room enough, need not ask first. */
  size_t (*encode)(const struct tkt_msg *msg, uint8_t *out);
};

extern const struct tkt_wire tkt_wire2;
extern const struct tkt_wire tkt_wire3;

/* For a client's parser until the server has greeted: decodes the greeting of either wire and
 * nothing else; encodes nothing. Then parser.wire becomes tkt_wire_of(msg.version). */
extern const struct tkt_wire tkt_wire_either;

/* The table of a version, NULL where there is none. */
const struct tkt_wire *tkt_wire_of(unsigned version);

/* Appends `msg` to `out`, whose content never passes `bound` bytes. False, with nothing written:
 * out of memory, bound reached, or this wire cannot carry it. */
bool tkt_wire_append(const struct tkt_wire *wire, const struct tkt_msg *msg, struct tkt_buf *out,
                     size_t bound);

/* Name of an error reason as it stands on wire 2 ("no_leader"), NULL for UNKNOWN. */
const char *tkt_wire_error_reason(enum tkt_wire_error error);

/* The reverse; UNKNOWN for any other text. */
enum tkt_wire_error tkt_wire_error_named(struct tkt_span reason);

#endif
