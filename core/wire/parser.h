/* Push parser: takes bytes at any cut, gives whole messages.
 *
 *   tkt_parser_push(&p, bytes);
 *   while ((r = tkt_parser_next(&p, &msg)) == TKT_DECODE_OK) handle(&msg);
 *   // r == TKT_DECODE_MORE: every pushed byte was used or kept; push again when more arrive.
 *   // any other r: the stream is beyond repair, and next says the same again.
 *
 * Pushed bytes are read in place; only the tail of an unfinished frame is copied, at most
 * frame_max bytes, inline while it is short. The phase may be changed between messages. */
#ifndef TKT_WIRE_PARSER_H
#define TKT_WIRE_PARSER_H

#include "wire/wire.h"

/* Holds any request or reply of a single key on either wire. */
enum { TKT_PARSER_INLINE = 160 };

struct tkt_parser {
  const struct tkt_wire *wire;
  enum tkt_phase phase;
  enum tkt_decode fault; /* sticky */
  struct tkt_span input; /* pushed, not yet used */
  uint16_t kept;         /* bytes of an unfinished frame */
  bool given;            /* the kept bytes are a whole frame: the message given last points there */
  uint8_t *long_frame;   /* heap, frame_max bytes, only while `kept` passes the inline part */
  uint8_t inline_frame[TKT_PARSER_INLINE];
};

void tkt_parser_init(struct tkt_parser *parser, const struct tkt_wire *wire, enum tkt_phase phase);
void tkt_parser_release(struct tkt_parser *parser);

/* Hands in the bytes that follow those pushed before. They must stay until next returned something
 * other than OK. Only when the previous push was used up (next returned MORE). */
void tkt_parser_push(struct tkt_parser *parser, struct tkt_span bytes);

/* The next whole message, decoded in place. MORE: nothing whole is left and every pushed byte was
 * used or kept. Any other result is the end of the stream for this parser: what was kept and pushed
 * is dropped and every later call says the same. Where memory to keep a frame beyond the inline
 * part is not to be had the result is TOO_LONG: the session ends, as it would for want of any
 * memory. */
enum tkt_decode tkt_parser_next(struct tkt_parser *parser, struct tkt_msg *msg_out);

/* True while the start of a frame has arrived but not its end (the mid-frame progress limit). */
bool tkt_parser_mid_frame(const struct tkt_parser *parser);

#endif
