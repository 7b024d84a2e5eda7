#include "wire/parser.h"

#include <stdlib.h>

void tkt_parser_init(struct tkt_parser *parser, const struct tkt_wire *wire, enum tkt_phase phase) {
  memset(parser, 0, sizeof *parser);
  parser->wire = wire;
  parser->phase = phase;
  parser->fault = TKT_DECODE_OK;
}

static void forget_kept(struct tkt_parser *parser) {
  free(parser->long_frame);
  parser->long_frame = NULL;
  parser->kept = 0;
  parser->given = false;
}

void tkt_parser_release(struct tkt_parser *parser) {
  forget_kept(parser);
  parser->input = tkt_span(NULL, 0);
}

void tkt_parser_push(struct tkt_parser *parser, struct tkt_span bytes) {
  parser->input = bytes;
}

bool tkt_parser_mid_frame(const struct tkt_parser *parser) {
  return parser->kept > 0 && !parser->given;
}

static enum tkt_decode fail(struct tkt_parser *parser, enum tkt_decode fault) {
  tkt_parser_release(parser);
  return parser->fault = fault;
}

static void take_input(struct tkt_parser *parser, size_t n) {
  parser->input.data += n;
  parser->input.len -= n;
}

/* Copies input behind the kept bytes as far as `room` bytes in all and decodes them. Only what the
 * frame needed is used up: kept bytes alone were not a whole frame, so the end lies in the copy. */
static enum tkt_decode decode_kept(struct tkt_parser *parser, uint8_t *frame, size_t room,
                                   struct tkt_msg *msg_out) {
  size_t n = room - parser->kept;
  if (n > parser->input.len) n = parser->input.len;
  if (n) memcpy(frame + parser->kept, parser->input.data, n);
  size_t used = 0;
  enum tkt_decode r =
      parser->wire->decode(parser->phase, tkt_span(frame, parser->kept + n), msg_out, &used);
  if (r == TKT_DECODE_OK) {
    take_input(parser, used - parser->kept);
    parser->kept = (uint16_t)used;
    parser->given = true;
  } else if (r == TKT_DECODE_MORE) {
    take_input(parser, n);
    parser->kept = (uint16_t)(parser->kept + n);
  }
  return r;
}

/* A frame that came in pieces: inline while it fits there, else in a frame's worth of heap. */
static enum tkt_decode next_kept(struct tkt_parser *parser, struct tkt_msg *msg_out) {
  size_t frame_max = parser->wire->frame_max;
  if (!parser->long_frame) {
    enum tkt_decode r = decode_kept(parser, parser->inline_frame, TKT_PARSER_INLINE, msg_out);
    if (r != TKT_DECODE_MORE || parser->input.len == 0) return r;
    if (parser->kept >= frame_max) return TKT_DECODE_TOO_LONG;
    parser->long_frame = malloc(frame_max);
    if (!parser->long_frame) return TKT_DECODE_TOO_LONG;
    memcpy(parser->long_frame, parser->inline_frame, parser->kept);
  }
  enum tkt_decode r = decode_kept(parser, parser->long_frame, frame_max, msg_out);
  return r == TKT_DECODE_MORE && parser->input.len > 0 ? TKT_DECODE_TOO_LONG : r;
}

enum tkt_decode tkt_parser_next(struct tkt_parser *parser, struct tkt_msg *msg_out) {
  if (parser->fault != TKT_DECODE_OK) return parser->fault;
  if (parser->given) forget_kept(parser);
  enum tkt_decode r;
  if (parser->kept == 0) {
    if (parser->input.len == 0) return TKT_DECODE_MORE;
    size_t used = 0;
    r = parser->wire->decode(parser->phase, parser->input, msg_out, &used);
    if (r == TKT_DECODE_OK) {
      take_input(parser, used);
      return r;
    }
  } else {
    if (parser->input.len == 0) return TKT_DECODE_MORE;
    r = next_kept(parser, msg_out);
    if (r == TKT_DECODE_OK) return r;
  }
  if (r == TKT_DECODE_MORE && parser->input.len > 0) r = next_kept(parser, msg_out);
  return r == TKT_DECODE_MORE ? r : fail(parser, r);
}
