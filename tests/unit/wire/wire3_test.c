#include "unit/wire/record.h"
#include "wire/parser.h"
#include "wire/wire.h"
#include "wire/wire3.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define BYTES(text) tkt_span(text, sizeof(text) - 1)

static enum tkt_decode decode(enum tkt_phase phase, struct tkt_span bytes, struct tkt_msg *msg,
                              size_t *used) {
  /* Exactly as many bytes as given, on the heap, so that a sanitizer sees a read beyond them. */
  static uint8_t *copy;
  free(copy);
  copy = malloc(bytes.len + !bytes.len);
  assert_non_null(copy);
  if (bytes.len) memcpy(copy, bytes.data, bytes.len);
  return tkt_wire3.decode(phase, tkt_span(copy, bytes.len), msg, used);
}

static void assert_encodes(const struct tkt_msg *msg, struct tkt_span expected) {
  struct tkt_buf out = {0};
  assert_int_equal(tkt_wire3.encoded_size(msg), expected.len);
  assert_true(tkt_wire_append(&tkt_wire3, msg, &out, 4096));
  assert_int_equal(tkt_buf_len(&out), expected.len);
  assert_memory_equal(tkt_buf_span(&out).data, expected.data, expected.len);
  static uint8_t bare[4096];
  assert_int_equal(tkt_wire3.encode(msg, bare), expected.len);
  tkt_buf_release(&out);
}

static void assert_refuses(const struct tkt_msg *msg) {
  struct tkt_buf out = {0};
  assert_int_equal(tkt_wire3.encoded_size(msg), 0);
  assert_false(tkt_wire_append(&tkt_wire3, msg, &out, 4096));
  assert_int_equal(tkt_buf_len(&out), 0);
}

static void assert_same(const struct tkt_msg *expected, const struct tkt_msg *actual) {
  struct tkt_buf a = {0}, b = {0};
  record_framed(&a, expected);
  record_framed(&b, actual);
  assert_true(tkt_span_equal(tkt_buf_span(&a), tkt_buf_span(&b)));
  tkt_buf_release(&a);
  tkt_buf_release(&b);
}

/* The frame in two pieces, cut at every place, and byte by byte. */
static void assert_every_cut(enum tkt_phase phase, const struct tkt_msg *msg,
                             struct tkt_span frame) {
  for (size_t cut = 0; cut <= frame.len; cut++) {
    struct tkt_parser parser;
    struct tkt_msg got;
    size_t step = cut == 0 ? 1 : cut, messages = 0;
    tkt_parser_init(&parser, &tkt_wire3, phase);
    for (size_t at = 0; at < frame.len; at += step) {
      size_t n = frame.len - at < step ? frame.len - at : step;
      uint8_t *piece = malloc(n);
      assert_non_null(piece);
      memcpy(piece, frame.data + at, n);
      tkt_parser_push(&parser, tkt_span(piece, n));
      enum tkt_decode r = tkt_parser_next(&parser, &got);
      if (r == TKT_DECODE_OK) {
        messages++;
        assert_true(at + n == frame.len);
        assert_same(msg, &got);
        r = tkt_parser_next(&parser, &got);
      }
      assert_int_equal(r, TKT_DECODE_MORE);
      free(piece);
    }
    assert_int_equal(messages, 1);
    assert_false(tkt_parser_mid_frame(&parser));
    tkt_parser_release(&parser);
  }
}

/* `frame` and the message are each other's image; no shorter prefix is a message, and what follows
 * the frame is left alone. */
static void assert_frame(enum tkt_phase phase, const struct tkt_msg *msg, struct tkt_span frame) {
  assert_encodes(msg, frame);
  static uint8_t padded[TKT_WIRE3_FRAME_MAX + 40];
  assert_in_range(frame.len, 1, TKT_WIRE3_FRAME_MAX);
  memcpy(padded, frame.data, frame.len);
  memset(padded + frame.len, 'A', 40);
  struct tkt_msg got;
  size_t used = 0;
  for (size_t len = 0; len < frame.len; len++)
    assert_int_equal(decode(phase, tkt_span(padded, len), &got, &used), TKT_DECODE_MORE);
  for (size_t extra = 0; extra <= 40; extra += 40) {
    memset(&got, 0xa5, sizeof got);
    assert_int_equal(decode(phase, tkt_span(padded, frame.len + extra), &got, &used),
                     TKT_DECODE_OK);
    assert_int_equal(used, frame.len);
    assert_same(msg, &got);
  }
  assert_every_cut(phase, msg, frame);
}

static struct tkt_msg request(enum tkt_msg_kind kind, struct tkt_span key) {
  struct tkt_msg msg = {.kind = kind, .key_count = 1, .keys = {key}};
  msg.id = UINT64_C(0x0102030405060708);
  msg.token = UINT64_C(0xfffefdfcfbfaf9f8);
  msg.wait_s = 255;
  msg.lease_s = 250;
  return msg;
}

static void every_request(void **state) {
  (void)state;
  struct tkt_msg msg = request(TKT_MSG_ACQUIRE, BYTES("orders/7"));
  assert_frame(TKT_PHASE_REQUESTS, &msg,
               BYTES("A\x00\x12\x01\x02\x03\x04\x05\x06\x07\x08\xff\xfaorders/7"));
  msg = request(TKT_MSG_RELEASE, BYTES("k"));
  assert_frame(TKT_PHASE_REQUESTS, &msg,
               BYTES("R\x00\x11\x01\x02\x03\x04\x05\x06\x07\x08\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8k"));
  msg = request(TKT_MSG_ACQUIRE, BYTES("a"));
  msg.set = true;
  msg.key_count = 2;
  msg.keys[1] = BYTES("bcd");
  assert_frame(TKT_PHASE_REQUESTS, &msg,
               BYTES("S\x00\x11\x01\x02\x03\x04\x05\x06\x07\x08\xff\xfa\x02\x01"
                     "a\x03"
                     "bcd"));
  msg.kind = TKT_MSG_RELEASE;
  assert_frame(TKT_PHASE_REQUESTS, &msg,
               BYTES("G\x00\x17\x01\x02\x03\x04\x05\x06\x07\x08\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8"
                     "\x02\x01"
                     "a\x03"
                     "bcd"));
}

static void every_reply(void **state) {
  (void)state;
  struct tkt_msg msg = {.kind = TKT_MSG_GRANTED,
                        .id = UINT64_C(0x2122232425262728),
                        .token = UINT64_C(0x1112131415161718)};
  assert_frame(TKT_PHASE_REPLIES, &msg,
               BYTES("A\x00\x10\x21\x22\x23\x24\x25\x26\x27\x28\x11\x12\x13\x14\x15\x16\x17\x18"));
  msg.set = true;
  assert_frame(TKT_PHASE_REPLIES, &msg,
               BYTES("S\x00\x10\x21\x22\x23\x24\x25\x26\x27\x28\x11\x12\x13\x14\x15\x16\x17\x18"));
  msg = (struct tkt_msg){.kind = TKT_MSG_RELEASED, .id = 0x0a};
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("R\0\x08\0\0\0\0\0\0\0\x0a"));
  msg.set = true;
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("G\0\x08\0\0\0\0\0\0\0\x0a"));
  msg.set = false;
  msg.kind = TKT_MSG_TIMED_OUT;
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("T\0\x08\0\0\0\0\0\0\0\x0a"));
  msg.kind = TKT_MSG_BUSY;
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("B\0\x08\0\0\0\0\0\0\0\x0a"));
  msg.kind = TKT_MSG_NOT_CURRENT;
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("N\0\x08\0\0\0\0\0\0\0\x0a"));
  msg.kind = TKT_MSG_UNCERTAIN;
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("I\0\x08\0\0\0\0\0\0\0\x0a"));
  msg.kind = TKT_MSG_MOVED;
  msg.slot = 4;
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("M\0\x09\0\0\0\0\0\0\0\x0a\x04"));
  msg.slot = TKT_SLOT_NONE;
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("M\0\x09\0\0\0\0\0\0\0\x0a\xff"));
  msg.kind = TKT_MSG_LEADER;
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("L\0\x01\xff"));
  msg.slot = 0;
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("L\0\x01\0"));
}

static void errors_are_numbers(void **state) {
  (void)state;
  static const enum tkt_wire_error errors[] = {
      TKT_WIRE_ERROR_UNKNOWN,        TKT_WIRE_ERROR_BAD_KEY,   TKT_WIRE_ERROR_BAD_LEASE,
      TKT_WIRE_ERROR_NOT_ACTIVE,     TKT_WIRE_ERROR_NO_LEADER, TKT_WIRE_ERROR_BAD_KEY_SET,
      TKT_WIRE_ERROR_GROUP_MISMATCH, TKT_WIRE_ERROR_BAD_TOKEN};
  for (unsigned code = 0; code < 256; code++) {
    const uint8_t frame[] = {'E', 0, 9, 0, 0, 0, 0, 0, 0, 1, 0, (uint8_t)code};
    struct tkt_msg msg = {.kind = TKT_MSG_ERROR, .id = 256}, got;
    size_t used = 0;
    if (code >= 1 && code <= 7) {
      msg.error = errors[code];
      assert_frame(TKT_PHASE_REPLIES, &msg, tkt_span(frame, sizeof frame));
    } else { /* read as unknown, never written */
      assert_int_equal(decode(TKT_PHASE_REPLIES, tkt_span(frame, sizeof frame), &got, &used),
                       TKT_DECODE_OK);
      assert_same(&msg, &got);
      assert_refuses(&msg);
    }
  }
  struct tkt_msg other = {.kind = TKT_MSG_ERROR, .error = TKT_WIRE_ERROR_AUTH_FAILED};
  assert_refuses(&other);
  other.error = TKT_WIRE_ERROR_TOO_LONG;
  assert_refuses(&other);
}

static void the_handshake(void **state) {
  (void)state;
  struct tkt_msg msg = {.kind = TKT_MSG_GREETING,
                        .version = 3,
                        .mode = TKT_WIRE_SINGLE,
                        .slot = TKT_SLOT_NONE,
                        .nonce = BYTES("0123456789\0bcdef")};
  assert_frame(TKT_PHASE_GREETING, &msg,
               BYTES("TCKCLI3\0\0\x03\0\xff"
                     "0123456789\0bcdef"));
  msg.mode = TKT_WIRE_CLUSTER;
  msg.slot = 2;
  assert_frame(TKT_PHASE_GREETING, &msg,
               BYTES("TCKCLI3\0\0\x03\x01\x02"
                     "0123456789\0bcdef"));
  msg.nonce.len = 15;
  assert_refuses(&msg);
  msg = (struct tkt_msg){.kind = TKT_MSG_PROOF, .text = BYTES("0123456789abcdef0123456789\0bcdef")};
  assert_frame(TKT_PHASE_PROOF, &msg, msg.text);
  msg.text.len = 31;
  assert_refuses(&msg);
  msg = (struct tkt_msg){.kind = TKT_MSG_VERDICT, .accepted = true};
  assert_frame(TKT_PHASE_VERDICT, &msg, BYTES("\x01"));
  msg.accepted = false;
  assert_frame(TKT_PHASE_VERDICT, &msg, BYTES("\0"));
  msg = (struct tkt_msg){.kind = TKT_MSG_KEEPALIVE};
  assert_refuses(&msg);
  struct tkt_msg got;
  size_t used;
  for (unsigned byte = 2; byte < 256; byte++) {
    const uint8_t verdict = (uint8_t)byte;
    assert_int_equal(decode(TKT_PHASE_VERDICT, tkt_span(&verdict, 1), &got, &used),
                     TKT_DECODE_MALFORMED);
  }
}

static void a_strange_hello_is_told_at_its_first_odd_byte(void **state) {
  (void)state;
  static const char hello[] = "TCKCLI3\0\0\x03\0\xff"
                              "0123456789abcdef";
  struct tkt_msg msg;
  size_t used;
  for (size_t at = 0; at < 10; at++) {
    char odd[28];
    memcpy(odd, hello, sizeof odd);
    odd[at] = (char)(odd[at] + 1);
    /* the version's two bytes are judged together */
    size_t told = at < 8 ? at + 1 : 10;
    for (size_t len = 1; len <= sizeof odd; len++)
      assert_int_equal(decode(TKT_PHASE_GREETING, tkt_span(odd, len), &msg, &used),
                       len < told ? TKT_DECODE_MORE : TKT_DECODE_UNKNOWN);
  }
  char odd[28];
  memcpy(odd, hello, sizeof odd);
  odd[10] = 2;
  assert_int_equal(decode(TKT_PHASE_GREETING, tkt_span(odd, sizeof odd), &msg, &used),
                   TKT_DECODE_MALFORMED);
}

static const struct {
  enum tkt_phase phase;
  char opcode;
  size_t min, max;
} frames[] = {
    {TKT_PHASE_REQUESTS, 'A', 11, 138},  {TKT_PHASE_REQUESTS, 'R', 17, 144},
    {TKT_PHASE_REQUESTS, 'S', 11, 2075}, {TKT_PHASE_REQUESTS, 'G', 17, 2081},
    {TKT_PHASE_REPLIES, 'A', 16, 16},    {TKT_PHASE_REPLIES, 'S', 16, 16},
    {TKT_PHASE_REPLIES, 'R', 8, 8},      {TKT_PHASE_REPLIES, 'G', 8, 8},
    {TKT_PHASE_REPLIES, 'T', 8, 8},      {TKT_PHASE_REPLIES, 'B', 8, 8},
    {TKT_PHASE_REPLIES, 'N', 8, 8},      {TKT_PHASE_REPLIES, 'I', 8, 8},
    {TKT_PHASE_REPLIES, 'M', 9, 9},      {TKT_PHASE_REPLIES, 'E', 9, 9},
    {TKT_PHASE_REPLIES, 'L', 1, 1},
};
enum { FRAMES = sizeof frames / sizeof *frames };

static void lengths_are_judged_before_the_body_comes(void **state) {
  (void)state;
  struct tkt_msg msg;
  size_t used;
  for (size_t f = 0; f < FRAMES; f++)
    for (size_t len = 0; len <= UINT16_MAX; len++) {
      const uint8_t header[] = {(uint8_t)frames[f].opcode, (uint8_t)(len >> 8), (uint8_t)len};
      enum tkt_decode expected = len > frames[f].max   ? TKT_DECODE_TOO_LONG
                                 : len < frames[f].min ? TKT_DECODE_MALFORMED
                                                       : TKT_DECODE_MORE;
      assert_int_equal(tkt_wire3.decode(frames[f].phase, tkt_span(header, 3), &msg, &used),
                       expected);
      assert_int_equal(tkt_wire3.decode(frames[f].phase, tkt_span(header, 2), &msg, &used),
                       TKT_DECODE_MORE);
    }
}

static void opcodes_of_the_other_direction_are_unknown(void **state) {
  (void)state;
  struct tkt_msg msg;
  size_t used;
  for (int byte = 0; byte < 256; byte++) {
    const uint8_t opcode = (uint8_t)byte;
    bool is_request = byte && strchr("ARSG", byte), is_reply = byte && strchr("ASRGTBNMILE", byte);
    assert_int_equal(decode(TKT_PHASE_REQUESTS, tkt_span(&opcode, 1), &msg, &used),
                     is_request ? TKT_DECODE_MORE : TKT_DECODE_UNKNOWN);
    assert_int_equal(decode(TKT_PHASE_REPLIES, tkt_span(&opcode, 1), &msg, &used),
                     is_reply ? TKT_DECODE_MORE : TKT_DECODE_UNKNOWN);
  }
}

static void keys_of_every_length(void **state) {
  (void)state;
  char key[129];
  memset(key, 'k', sizeof key);
  for (enum tkt_msg_kind kind = TKT_MSG_ACQUIRE; kind <= TKT_MSG_RELEASE; kind++) {
    for (size_t len = 1; len <= 128; len++) {
      struct tkt_msg msg = request(kind, tkt_span(key, len));
      uint8_t frame[200];
      assert_in_range(tkt_wire3.encoded_size(&msg), 1, sizeof frame);
      tkt_wire3.encode(&msg, frame);
      assert_frame(TKT_PHASE_REQUESTS, &msg, tkt_span(frame, tkt_wire3.encoded_size(&msg)));
    }
    struct tkt_msg msg = request(kind, tkt_span(key, 129));
    assert_refuses(&msg);
    msg.keys[0].len = 0;
    assert_refuses(&msg);
    msg.keys[0].len = 1;
    msg.key_count = 2;
    msg.keys[1] = BYTES("b");
    assert_refuses(&msg);
    msg.set = true;
    assert_int_not_equal(tkt_wire3.encoded_size(&msg), 0);
    msg.keys[1] = tkt_span(key, 129);
    assert_refuses(&msg);
    msg.key_count = 17;
    assert_refuses(&msg);
  }
  struct tkt_msg msg = request(TKT_MSG_ACQUIRE, BYTES("k"));
  msg.wait_s = 256;
  assert_refuses(&msg);
  msg.wait_s = 0;
  msg.lease_s = 256;
  assert_refuses(&msg);
}

/* The widest set there is: the bounds of the protocol page, and of the parser. */
static void the_longest_sets(void **state) {
  (void)state;
  static char keys[16][128];
  for (enum tkt_msg_kind kind = TKT_MSG_ACQUIRE; kind <= TKT_MSG_RELEASE; kind++) {
    struct tkt_msg msg = request(kind, BYTES(""));
    msg.set = true;
    msg.key_count = 16;
    for (size_t i = 0; i < 16; i++) {
      memset(keys[i], 'a' + (int)i, sizeof keys[i]);
      msg.keys[i] = tkt_span(keys[i], sizeof keys[i]);
    }
    static uint8_t frame[TKT_WIRE3_FRAME_MAX];
    size_t size = tkt_wire3.encoded_size(&msg);
    assert_int_equal(size, 3 + (kind == TKT_MSG_ACQUIRE ? 2075 : 2081));
    tkt_wire3.encode(&msg, frame);
    assert_frame(TKT_PHASE_REQUESTS, &msg, tkt_span(frame, size));
  }
}

/* `tail` behind id, wait and lease of an S, or behind id and token of a G. */
static enum tkt_decode decode_set(char opcode, struct tkt_span tail, struct tkt_msg *msg) {
  uint8_t frame[600] = {(uint8_t)opcode};
  size_t fixed = opcode == 'S' ? 10 : 16, used = 0;
  tkt_store16(frame + 1, (uint16_t)(fixed + tail.len));
  memcpy(frame + 3 + fixed, tail.data, tail.len);
  enum tkt_decode r = decode(TKT_PHASE_REQUESTS, tkt_span(frame, 3 + fixed + tail.len), msg, &used);
  if (r == TKT_DECODE_OK) assert_int_equal(used, 3 + fixed + tail.len);
  return r;
}

/* What the server answers is a message; what has no end of its own is a fault. */
static void sets_are_framing_first(void **state) {
  (void)state;
  static const char opcodes[] = "SG";
  for (const char *op = opcodes; *op; op++) {
    struct tkt_msg msg;
    assert_int_equal(decode_set(*op, BYTES("\0"), &msg), TKT_DECODE_OK);
    assert_true(msg.set && msg.key_count == 0);
    assert_int_equal(decode_set(*op,
                                BYTES("\x01\x01"
                                      "a"),
                                &msg),
                     TKT_DECODE_OK);
    assert_true(msg.set && msg.key_count == 1);
    assert_int_equal(decode_set(*op, BYTES("\x01\0"), &msg), TKT_DECODE_OK);
    assert_true(msg.key_count == 1 && msg.keys[0].len == 0);
    assert_int_equal(decode_set(*op,
                                BYTES("\x02\x01"
                                      "b\x01"
                                      "a"),
                                &msg),
                     TKT_DECODE_OK);
    assert_true(msg.key_count == 2 && *msg.keys[0].data == 'b' && *msg.keys[1].data == 'a');
    /* 17 keys, and a key of 129 bytes */
    uint8_t tail[300] = {17};
    for (size_t i = 0; i < 17; i++) {
      tail[1 + 2 * i] = 1;
      tail[2 + 2 * i] = (uint8_t)('a' + i);
    }
    assert_int_equal(decode_set(*op, tkt_span(tail, 35), &msg), TKT_DECODE_OK);
    assert_true(msg.set && msg.key_count == 0);
    memset(tail, 'k', sizeof tail);
    tail[0] = 1;
    tail[1] = 129;
    assert_int_equal(decode_set(*op, tkt_span(tail, 131), &msg), TKT_DECODE_OK);
    assert_int_equal(msg.keys[0].len, 129);
    /* a key short, a byte short, a byte too many, bytes behind no key */
    assert_int_equal(decode_set(*op,
                                BYTES("\x02\x01"
                                      "a"),
                                &msg),
                     TKT_DECODE_MALFORMED);
    assert_int_equal(decode_set(*op,
                                BYTES("\x01\x02"
                                      "a"),
                                &msg),
                     TKT_DECODE_MALFORMED);
    assert_int_equal(decode_set(*op,
                                BYTES("\x01\x01"
                                      "ab"),
                                &msg),
                     TKT_DECODE_MALFORMED);
    assert_int_equal(decode_set(*op, BYTES("\0a"), &msg), TKT_DECODE_MALFORMED);
    assert_int_equal(decode_set(*op,
                                BYTES("\xff\x01"
                                      "a"),
                                &msg),
                     TKT_DECODE_MALFORMED);
  }
}

/* A frame that is too long costs no memory, however it comes. */
static void nothing_is_kept_of_a_frame_that_is_too_long(void **state) {
  (void)state;
  for (size_t step = 1; step <= 4; step++) {
    struct tkt_parser parser;
    struct tkt_msg msg;
    static const uint8_t bytes[] = {'S', 0xff, 0xff, 'x', 'x', 'x', 'x', 'x'};
    enum tkt_decode r = TKT_DECODE_MORE;
    tkt_parser_init(&parser, &tkt_wire3, TKT_PHASE_REQUESTS);
    size_t at = 0;
    for (; at < sizeof bytes && r == TKT_DECODE_MORE; at += step) {
      tkt_parser_push(&parser, tkt_span(bytes + at, step));
      r = tkt_parser_next(&parser, &msg);
    }
    assert_int_equal(r, TKT_DECODE_TOO_LONG);
    assert_in_range(at, 3, 4);
    assert_null(parser.long_frame);
    assert_int_equal(tkt_parser_next(&parser, &msg), TKT_DECODE_TOO_LONG);
    tkt_parser_release(&parser);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_request),
      cmocka_unit_test(every_reply),
      cmocka_unit_test(errors_are_numbers),
      cmocka_unit_test(the_handshake),
      cmocka_unit_test(a_strange_hello_is_told_at_its_first_odd_byte),
      cmocka_unit_test(lengths_are_judged_before_the_body_comes),
      cmocka_unit_test(opcodes_of_the_other_direction_are_unknown),
      cmocka_unit_test(keys_of_every_length),
      cmocka_unit_test(the_longest_sets),
      cmocka_unit_test(sets_are_framing_first),
      cmocka_unit_test(nothing_is_kept_of_a_frame_that_is_too_long),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
