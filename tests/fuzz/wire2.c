/* Wire 2 codec and push parser on any bytes, from either side.
 *
 * Input: a byte that chooses the phase, two that choose the cuts, then the stream. Held:
 *   - decoding frame by frame, through the parser in one piece, and through the parser in pieces
 * gives the same messages and the same end;
 *   - a message encodes to the bytes it was decoded from, except texts longer than we write;
 *   - the parser keeps no more than a frame. */
#include "wire/wire2.h"
#include "fuzz/target.h"
#include "unit/wire/record.h"
#include "wire/parser.h"

struct outcome {
  struct tkt_buf messages;
  enum tkt_decode end;
};

/* As engines do: the handshake is one message. */
static enum tkt_phase phase_after(enum tkt_phase phase) {
  if (phase == TKT_PHASE_GREETING) return TKT_PHASE_REPLIES;
  if (phase == TKT_PHASE_PROOF) return TKT_PHASE_REQUESTS;
  return phase;
}

static void check_encoding(const struct tkt_msg *msg, struct tkt_span frame) {
  size_t size = tkt_wire2.encoded_size(msg);
  if (size == 0) {
    FUZZ_REQUIRE(msg->kind == TKT_MSG_MOVED || msg->kind == TKT_MSG_LEADER ||
                 msg->kind == TKT_MSG_ERROR);
    FUZZ_REQUIRE(frame.len > TKT_WIRE2_LINE_SENT_MAX);
    return;
  }
  FUZZ_REQUIRE(size == frame.len);
  uint8_t *bytes = malloc(size);
  FUZZ_REQUIRE(bytes);
  tkt_wire2.encode(msg, bytes);
  FUZZ_REQUIRE(memcmp(bytes, frame.data, size) == 0);
  free(bytes);
}

static struct outcome decode_frames(enum tkt_phase phase, struct tkt_span bytes) {
  struct outcome o = {.end = TKT_DECODE_OK};
  struct tkt_msg msg;
  size_t used = 0;
  while ((o.end = tkt_wire2.decode(phase, bytes, &msg, &used)) == TKT_DECODE_OK) {
    FUZZ_REQUIRE(used > 0 && used <= bytes.len && used <= tkt_wire2.frame_max);
    check_encoding(&msg, tkt_span(bytes.data, used));
    record_message(&o.messages, &msg);
    bytes = tkt_span(bytes.data + used, bytes.len - used);
    phase = phase_after(phase);
  }
  if (o.end == TKT_DECODE_MORE) FUZZ_REQUIRE(bytes.len < tkt_wire2.frame_max);
  return o;
}

/* Pieces of 1..longest bytes, chosen by `seed`; `longest` 0: one piece. */
static struct outcome parse_pieces(enum tkt_phase phase, struct tkt_span bytes, uint32_t seed,
                                   size_t longest) {
  struct outcome o = {.end = TKT_DECODE_MORE};
  struct tkt_parser parser;
  tkt_parser_init(&parser, &tkt_wire2, phase);
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
      record_message(&o.messages, &msg);
      parser.phase = phase_after(parser.phase);
    }
    free(piece);
    FUZZ_REQUIRE(parser.kept < tkt_wire2.frame_max);
  }
  tkt_parser_release(&parser);
  return o;
}

static void require_equal(const struct outcome *a, const struct outcome *b) {
  FUZZ_REQUIRE(a->end == b->end);
  FUZZ_REQUIRE(tkt_span_equal(tkt_buf_span(&a->messages), tkt_buf_span(&b->messages)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 4) return 0;
  static const enum tkt_phase phases[] = {TKT_PHASE_GREETING, TKT_PHASE_REPLIES, TKT_PHASE_PROOF,
                                          TKT_PHASE_REQUESTS};
  enum tkt_phase phase = phases[data[0] % 4];
  struct tkt_span bytes = tkt_span(data + 3, size - 3);
  struct outcome frames = decode_frames(phase, bytes);
  struct outcome whole = parse_pieces(phase, bytes, 0, 0);
  require_equal(&frames, &whole);
  tkt_buf_release(&whole.messages);
  struct outcome pieces = parse_pieces(phase, bytes, data[1], (size_t)data[2] * 4 + 1);
  require_equal(&frames, &pieces);
  tkt_buf_release(&pieces.messages);
  tkt_buf_release(&frames.messages);
  return 0;
}
