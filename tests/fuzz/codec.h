/* A codec and the push parser on any bytes, from either side.
 *
 * Input: a byte that chooses the phase, two that choose the cuts, then the stream. Held:
 *   - decoding frame by frame, through the parser in one piece, and through the parser in pieces
 * gives the same messages and the same end;
 *   - a message encodes to the bytes it was decoded from, save those the codec under test names;
 *   - the parser keeps no more than a frame. */
#ifndef TKT_TESTS_FUZZ_CODEC_H
#define TKT_TESTS_FUZZ_CODEC_H

#include "fuzz/target.h"
#include "unit/wire/record.h"
#include "wire/parser.h"

struct codec {
  const struct tkt_wire *wire;
  enum tkt_phase phases[5];
  size_t phase_count;
  /* As engines do: the handshake is one message a phase. */
  enum tkt_phase (*phase_after)(enum tkt_phase phase);
  void (*record)(struct tkt_buf *out, const struct tkt_msg *msg);
  /* True for a message that was read and is never written like that. */
  bool (*only_read)(const struct tkt_msg *msg, struct tkt_span frame);
};

struct outcome {
  struct tkt_buf messages;
  enum tkt_decode end;
};

static inline void check_encoding(const struct codec *codec, const struct tkt_msg *msg,
                                  struct tkt_span frame) {
  if (codec->only_read(msg, frame)) return;
  size_t size = codec->wire->encoded_size(msg);
  FUZZ_REQUIRE(size == frame.len);
  uint8_t *bytes = malloc(size);
  FUZZ_REQUIRE(bytes);
  FUZZ_REQUIRE(codec->wire->encode(msg, bytes) == size);
  FUZZ_REQUIRE(memcmp(bytes, frame.data, size) == 0);
  free(bytes);
}

static inline struct outcome decode_frames(const struct codec *codec, enum tkt_phase phase,
                                           struct tkt_span bytes) {
  struct outcome o = {.end = TKT_DECODE_OK};
  struct tkt_msg msg;
  size_t used = 0;
  while ((o.end = codec->wire->decode(phase, bytes, &msg, &used)) == TKT_DECODE_OK) {
    FUZZ_REQUIRE(used > 0 && used <= bytes.len && used <= codec->wire->frame_max);
    check_encoding(codec, &msg, tkt_span(bytes.data, used));
    codec->record(&o.messages, &msg);
    bytes = tkt_span(bytes.data + used, bytes.len - used);
    phase = codec->phase_after(phase);
  }
  if (o.end == TKT_DECODE_MORE) FUZZ_REQUIRE(bytes.len < codec->wire->frame_max);
  return o;
}

/* Pieces of 1..longest bytes, chosen by `seed`; `longest` 0: one piece. */
static inline struct outcome parse_pieces(const struct codec *codec, enum tkt_phase phase,
                                          struct tkt_span bytes, uint32_t seed, size_t longest) {
  struct outcome o = {.end = TKT_DECODE_MORE};
  struct tkt_parser parser;
  tkt_parser_init(&parser, codec->wire, phase);
  while (bytes.len > 0 && o.end == TKT_DECODE_MORE) {
    seed = seed * 1664525 + 1013904223;
    size_t n = longest ? 1 + (seed >> 16) % longest : bytes.len;
    if (n > bytes.len) n = bytes.len;
    uint8_t *piece = malloc(n);
    FUZZ_REQUIRE(piece);
    memcpy(piece, bytes.data, n);
    bytes = tkt_span(bytes.data + n, bytes.len - n);
    tkt_parser_push(&parser, tkt_span(piece, n));
    struct tkt_msg msg;
    while ((o.end = tkt_parser_next(&parser, &msg)) == TKT_DECODE_OK) {
      codec->record(&o.messages, &msg);
      parser.phase = codec->phase_after(parser.phase);
    }
    free(piece);
    FUZZ_REQUIRE(parser.kept < codec->wire->frame_max);
  }
  tkt_parser_release(&parser);
  return o;
}

static inline void require_equal(const struct outcome *a, const struct outcome *b) {
  FUZZ_REQUIRE(a->end == b->end);
  FUZZ_REQUIRE(tkt_span_equal(tkt_buf_span(&a->messages), tkt_buf_span(&b->messages)));
}

static inline void run_codec(const struct codec *codec, const uint8_t *data, size_t size) {
  if (size < 4) return;
  enum tkt_phase phase = codec->phases[data[0] % codec->phase_count];
  struct tkt_span bytes = tkt_span(data + 3, size - 3);
  struct outcome frames = decode_frames(codec, phase, bytes);
  struct outcome whole = parse_pieces(codec, phase, bytes, 0, 0);
  require_equal(&frames, &whole);
  tkt_buf_release(&whole.messages);
  struct outcome pieces = parse_pieces(codec, phase, bytes, data[1], (size_t)data[2] * 4 + 1);
  require_equal(&frames, &pieces);
  tkt_buf_release(&pieces.messages);
  tkt_buf_release(&frames.messages);
}

#endif
