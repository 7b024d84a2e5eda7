#include "unit/wire/record.h"
#include "wire/wire.h"
#include "wire/wire2.h"

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
  return tkt_wire2.decode(phase, tkt_span(copy, bytes.len), msg, used);
}

static void assert_encodes(const struct tkt_msg *msg, struct tkt_span expected) {
  struct tkt_buf out = {0};
  assert_int_equal(tkt_wire2.encoded_size(msg), expected.len);
  assert_true(tkt_wire_append(&tkt_wire2, msg, &out, 4096));
  assert_int_equal(tkt_buf_len(&out), expected.len);
  assert_memory_equal(tkt_buf_span(&out).data, expected.data, expected.len);
  static uint8_t bare[4096];
  assert_int_equal(tkt_wire2.encode(msg, bare), expected.len);
  tkt_buf_release(&out);
}

static void assert_refuses(const struct tkt_msg *msg) {
  struct tkt_buf out = {0};
  assert_int_equal(tkt_wire2.encoded_size(msg), 0);
  assert_false(tkt_wire_append(&tkt_wire2, msg, &out, 4096));
  assert_int_equal(tkt_buf_len(&out), 0);
}

/* `frame` and the message are each other's image; no shorter prefix is a message, and what follows
 * the frame is left alone. */
static void assert_frame(enum tkt_phase phase, const struct tkt_msg *msg, struct tkt_span frame) {
  assert_encodes(msg, frame);
  uint8_t padded[300];
  assert_in_range(frame.len, 1, 256);
  memcpy(padded, frame.data, frame.len);
  memset(padded + frame.len, 'A', sizeof padded - frame.len);
  struct tkt_msg got;
  size_t used = 0;
  for (size_t len = 0; len < frame.len; len++)
    assert_int_equal(decode(phase, tkt_span(padded, len), &got, &used), TKT_DECODE_MORE);
  for (size_t extra = 0; extra <= 40; extra += 40) {
    memset(&got, 0xa5, sizeof got);
    assert_int_equal(decode(phase, tkt_span(padded, frame.len + extra), &got, &used),
                     TKT_DECODE_OK);
    assert_int_equal(used, frame.len);
    struct tkt_buf expected = {0}, actual = {0};
    record_message(&expected, msg);
    record_message(&actual, &got);
    assert_true(tkt_span_equal(tkt_buf_span(&expected), tkt_buf_span(&actual)));
    tkt_buf_release(&expected);
    tkt_buf_release(&actual);
  }
}

static struct tkt_msg with_key(enum tkt_msg_kind kind, struct tkt_span key) {
  struct tkt_msg msg = {.kind = kind, .key_count = 1, .keys = {key}};
  return msg;
}

static void every_request(void **state) {
  (void)state;
  struct tkt_msg msg = with_key(TKT_MSG_ACQUIRE, BYTES("orders/7"));
  msg.wait_s = 255;
  msg.lease_s = 250;
  msg.id = UINT64_C(0x0102030405060708);
  assert_frame(TKT_PHASE_REQUESTS, &msg,
               BYTES("A\x00\xff\x00\xfa\x01\x02\x03\x04\x05\x06\x07\x08orders/7\n"));
  msg = with_key(TKT_MSG_RELEASE, BYTES("k"));
  msg.token = UINT64_C(0xfffefdfcfbfaf9f8);
  assert_frame(TKT_PHASE_REQUESTS, &msg, BYTES("R\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8k\n"));
}

static void every_reply(void **state) {
  (void)state;
  struct tkt_msg msg = with_key(TKT_MSG_GRANTED, BYTES("key"));
  msg.token = UINT64_C(0x1112131415161718);
  msg.id = UINT64_C(0x2122232425262728);
  assert_frame(TKT_PHASE_REPLIES, &msg,
               BYTES("A\x11\x12\x13\x14\x15\x16\x17\x18\x21\x22\x23\x24\x25\x26\x27\x28key\n"));
  msg = with_key(TKT_MSG_TIMED_OUT, BYTES("key"));
  msg.id = 1;
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("T\0\0\0\0\0\0\0\x01key\n"));
  msg.kind = TKT_MSG_BUSY;
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("B\0\0\0\0\0\0\0\x01key\n"));
  msg = with_key(TKT_MSG_RELEASED, BYTES("key"));
  msg.token = 2;
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("R\0\0\0\0\0\0\0\x02key\n"));
  msg.kind = TKT_MSG_NOT_CURRENT;
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("N\0\0\0\0\0\0\0\x02key\n"));
  msg = (struct tkt_msg){.kind = TKT_MSG_MOVED, .text = BYTES("10.0.0.2:5225")};
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("M10.0.0.2:5225\n"));
  msg.kind = TKT_MSG_LEADER;
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("L10.0.0.2:5225\n"));
  msg = (struct tkt_msg){.kind = TKT_MSG_KEEPALIVE};
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("\n"));
}

static void errors_carry_number_and_text(void **state) {
  (void)state;
  struct tkt_msg msg = {.kind = TKT_MSG_ERROR, .error = TKT_WIRE_ERROR_NO_LEADER};
  assert_encodes(&msg, BYTES("Eno_leader\n")); /* the name of the number */
  msg.text = BYTES("no_leader");
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("Eno_leader\n"));
  msg = (struct tkt_msg){.kind = TKT_MSG_ERROR, .text = BYTES("out of cheese")};
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("Eout of cheese\n"));
  msg.text = tkt_span(NULL, 0);
  assert_frame(TKT_PHASE_REPLIES, &msg, BYTES("E\n"));
}

static void handshake_lines(void **state) {
  (void)state;
  struct tkt_msg msg = {
      .kind = TKT_MSG_GREETING, .text = BYTES("single"), .nonce = BYTES("aB3dEf_g")};
  assert_frame(TKT_PHASE_GREETING, &msg, BYTES("single aB3dEf_g\n"));
  msg.text = tkt_span(NULL, 0);
  msg.nonce = BYTES("a b\r"); /* all that follows the first space is nonce */
  assert_frame(TKT_PHASE_GREETING, &msg, BYTES(" a b\r\n"));
  msg = (struct tkt_msg){.kind = TKT_MSG_PROOF,
                         .text = BYTES("WvDLEd0VIA9cVatiwxXYXRGMDSXw0ibHllLgAMBffdg")};
  assert_frame(TKT_PHASE_PROOF, &msg, BYTES("WvDLEd0VIA9cVatiwxXYXRGMDSXw0ibHllLgAMBffdg\n"));
  msg.text = tkt_span(NULL, 0);
  assert_frame(TKT_PHASE_PROOF, &msg, BYTES("\n"));
}

static void a_greeting_without_nonce_is_malformed(void **state) {
  (void)state;
  struct tkt_msg msg;
  size_t used;
  static const char *const lines[] = {"\n", "single\n", "single \n", " \n", "Eno_leader\n"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    assert_int_equal(decode(TKT_PHASE_GREETING, tkt_span_str(lines[i]), &msg, &used),
                     TKT_DECODE_MALFORMED);
}

static void integers_may_hold_the_byte_lf(void **state) {
  (void)state;
  const uint64_t lfs = UINT64_C(0x0a0a0a0a0a0a0a0a);
  struct tkt_msg msg = with_key(TKT_MSG_ACQUIRE, BYTES("k"));
  msg.wait_s = msg.lease_s = 0x0a0a;
  msg.id = msg.token = lfs;
  assert_frame(TKT_PHASE_REQUESTS, &msg, BYTES("A\n\n\n\n\n\n\n\n\n\n\n\nk\n"));
  for (int at = 0; at < 8; at++) { /* a single one at each place */
    const uint64_t lf = UINT64_C(0x0a) << (8 * at);
    static const struct {
      enum tkt_phase phase;
      enum tkt_msg_kind kind;
      size_t fixed;
    } kinds[] = {
        {TKT_PHASE_REQUESTS, TKT_MSG_ACQUIRE, 13},  {TKT_PHASE_REQUESTS, TKT_MSG_RELEASE, 9},
        {TKT_PHASE_REPLIES, TKT_MSG_GRANTED, 17},   {TKT_PHASE_REPLIES, TKT_MSG_TIMED_OUT, 9},
        {TKT_PHASE_REPLIES, TKT_MSG_BUSY, 9},       {TKT_PHASE_REPLIES, TKT_MSG_RELEASED, 9},
        {TKT_PHASE_REPLIES, TKT_MSG_NOT_CURRENT, 9}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
      msg = with_key(kinds[k].kind, BYTES("kk"));
      msg.id = msg.token = lf;
      msg.wait_s = msg.lease_s = (uint16_t)lf;
      uint8_t frame[64];
      assert_int_equal(tkt_wire2.encoded_size(&msg), kinds[k].fixed + 3);
      tkt_wire2.encode(&msg, frame);
      assert_frame(kinds[k].phase, &msg, tkt_span(frame, kinds[k].fixed + 3));
    }
  }
}

/* Keys of 0..128 bytes pass in either direction, whatever their bytes; the rest is rules. */
static void keys_up_to_128_bytes(void **state) {
  (void)state;
  static const struct {
    enum tkt_phase phase;
    enum tkt_msg_kind kind;
    char opcode;
    size_t fixed;
  } kinds[] = {{TKT_PHASE_REQUESTS, TKT_MSG_ACQUIRE, 'A', 13},
               {TKT_PHASE_REQUESTS, TKT_MSG_RELEASE, 'R', 9},
               {TKT_PHASE_REPLIES, TKT_MSG_GRANTED, 'A', 17},
               {TKT_PHASE_REPLIES, TKT_MSG_TIMED_OUT, 'T', 9},
               {TKT_PHASE_REPLIES, TKT_MSG_BUSY, 'B', 9},
               {TKT_PHASE_REPLIES, TKT_MSG_RELEASED, 'R', 9},
               {TKT_PHASE_REPLIES, TKT_MSG_NOT_CURRENT, 'N', 9}};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    uint8_t frame[300];
    memset(frame, 'k', sizeof frame);
    memset(frame, 0, kinds[k].fixed);
    frame[0] = (uint8_t)kinds[k].opcode;
    for (size_t len = 0; len <= 130; len++) {
      uint8_t *lf = frame + kinds[k].fixed + len;
      struct tkt_msg msg = with_key(kinds[k].kind, tkt_span(frame + kinds[k].fixed, len)), got;
      size_t used;
      *lf = '\n';
      if (len <= 128) {
        assert_frame(kinds[k].phase, &msg, tkt_span(frame, kinds[k].fixed + len + 1));
      } else {
        assert_refuses(&msg);
        assert_int_equal(
            decode(kinds[k].phase, tkt_span(frame, kinds[k].fixed + len + 1), &got, &used),
            TKT_DECODE_TOO_LONG);
      }
      *lf = 'k';
      /* Without LF: a verdict as soon as none can come in time, not a byte earlier. */
      assert_int_equal(decode(kinds[k].phase, tkt_span(frame, kinds[k].fixed + len), &got, &used),
                       len <= 128 ? TKT_DECODE_MORE : TKT_DECODE_TOO_LONG);
    }
  }
  const struct tkt_msg odd = with_key(TKT_MSG_ACQUIRE, BYTES("a b\r\xff"));
  assert_frame(TKT_PHASE_REQUESTS, &odd, BYTES("A\0\0\0\0\0\0\0\0\0\0\0\0a b\r\xff\n"));
}

/* Lines of `limit` bytes with their LF pass, longer ones do not. */
static void assert_line_limit(enum tkt_phase phase, const char *start, size_t limit) {
  char line[300];
  memset(line, 'x', sizeof line);
  memcpy(line, start, strlen(start));
  struct tkt_msg msg;
  for (size_t len = limit - 2; len <= limit + 2; len++) {
    size_t used = 0;
    assert_int_equal(decode(phase, tkt_span(line, len - 1), &msg, &used),
                     len <= limit ? TKT_DECODE_MORE : TKT_DECODE_TOO_LONG);
    line[len - 1] = '\n';
    assert_int_equal(decode(phase, tkt_span(line, len), &msg, &used),
                     len <= limit ? TKT_DECODE_OK : TKT_DECODE_TOO_LONG);
    if (len <= limit) assert_int_equal(used, len);
    line[len - 1] = 'x';
  }
}

static void line_limits_when_reading(void **state) {
  (void)state;
  assert_line_limit(TKT_PHASE_GREETING, "single ", 256);
  assert_line_limit(TKT_PHASE_REPLIES, "M", 256);
  assert_line_limit(TKT_PHASE_REPLIES, "L", 256);
  assert_line_limit(TKT_PHASE_REPLIES, "E", 256);
  assert_line_limit(TKT_PHASE_PROOF, "", 64);
}

static void line_limits_when_writing(void **state) {
  (void)state;
  char text[300];
  memset(text, 'x', sizeof text);
  static const struct {
    enum tkt_msg_kind kind;
    size_t around; /* bytes of the line that are not text */
    size_t limit;
  } kinds[] = {{TKT_MSG_MOVED, 2, 192},
               {TKT_MSG_LEADER, 2, 192},
               {TKT_MSG_ERROR, 2, 192},
               {TKT_MSG_PROOF, 1, 64}};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    size_t most = kinds[k].limit - kinds[k].around;
    struct tkt_msg msg = {.kind = kinds[k].kind, .text = tkt_span(text, most)};
    assert_int_equal(tkt_wire2.encoded_size(&msg), kinds[k].limit);
    msg.text.len = most + 1;
    assert_refuses(&msg);
  }
  struct tkt_msg greeting = {
      .kind = TKT_MSG_GREETING, .text = BYTES("single"), .nonce = tkt_span(text, 248)};
  assert_int_equal(tkt_wire2.encoded_size(&greeting), 256);
  greeting.nonce.len = 249;
  assert_refuses(&greeting);
}

static void what_would_break_the_framing_is_not_written(void **state) {
  (void)state;
  for (enum tkt_msg_kind kind = TKT_MSG_ACQUIRE; kind <= TKT_MSG_NOT_CURRENT; kind++) {
    struct tkt_msg msg = with_key(kind, BYTES("a\nb"));
    assert_refuses(&msg);
    msg.keys[0] = BYTES("a");
    msg.keys[1] = BYTES("b");
    msg.key_count = 2;
    assert_refuses(&msg); /* one key is all wire 2 carries */
    msg.key_count = 0;
    assert_refuses(&msg);
    msg.key_count = 1;
    msg.set = true;
    assert_refuses(&msg);
  }
  static const enum tkt_msg_kind texts[] = {TKT_MSG_MOVED, TKT_MSG_LEADER, TKT_MSG_ERROR,
                                            TKT_MSG_PROOF};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const struct tkt_msg msg = {.kind = texts[i], .text = BYTES("a\n")};
    assert_refuses(&msg);
  }
  struct tkt_msg greeting = {.kind = TKT_MSG_GREETING, .text = BYTES("a b"), .nonce = BYTES("n")};
  assert_refuses(&greeting);
  greeting.text = BYTES("a\n");
  assert_refuses(&greeting);
  greeting.text = BYTES("a");
  greeting.nonce = BYTES("n\n");
  assert_refuses(&greeting);
  greeting.nonce = tkt_span(NULL, 0);
  assert_refuses(&greeting);
  const struct tkt_msg nothing = {.kind = (enum tkt_msg_kind)0};
  assert_refuses(&nothing);
}

static void opcodes_of_the_other_direction_are_unknown(void **state) {
  (void)state;
  struct tkt_msg msg;
  size_t used;
  for (int byte = 0; byte < 256; byte++) {
    uint8_t frame[32] = {(uint8_t)byte};
    frame[31] = '\n';
    enum tkt_decode request = decode(TKT_PHASE_REQUESTS, tkt_span(frame, 32), &msg, &used);
    enum tkt_decode reply = decode(TKT_PHASE_REPLIES, tkt_span(frame, 32), &msg, &used);
    bool is_request = byte == 'A' || byte == 'R';
    bool is_reply = byte == '\n' || (byte && strchr("ATBRNMLE", byte));
    assert_int_equal(request, is_request ? TKT_DECODE_OK : TKT_DECODE_UNKNOWN);
    assert_int_equal(reply, is_reply ? TKT_DECODE_OK : TKT_DECODE_UNKNOWN);
    /* told by the first byte */
    assert_int_equal(decode(TKT_PHASE_REQUESTS, tkt_span(frame, 1), &msg, &used),
                     is_request ? TKT_DECODE_MORE : TKT_DECODE_UNKNOWN);
  }
}

static void append_writes_all_or_nothing(void **state) {
  (void)state;
  struct tkt_buf out = {0};
  const struct tkt_msg msg = with_key(TKT_MSG_RELEASE, BYTES("abc")); /* 13 bytes */
  assert_false(tkt_wire_append(&tkt_wire2, &msg, &out, 12));
  assert_int_equal(tkt_buf_len(&out), 0);
  assert_true(tkt_wire_append(&tkt_wire2, &msg, &out, 25));
  assert_false(tkt_wire_append(&tkt_wire2, &msg, &out, 25));
  assert_int_equal(tkt_buf_len(&out), 13);
  assert_true(tkt_wire_append(&tkt_wire2, &msg, &out, 26));
  assert_memory_equal(tkt_buf_span(&out).data, tkt_buf_span(&out).data + 13, 13);
  tkt_buf_release(&out);
}

static void no_frame_passes_frame_max(void **state) {
  (void)state;
  assert_int_equal(tkt_wire2.version, 2);
  uint8_t bytes[300];
  static const char openers[] = "ATBRNMLEx\n";
  for (const char *c = openers; *c; c++) {
    memset(bytes, 'x', sizeof bytes);
    bytes[0] = (uint8_t)*c;
    for (enum tkt_phase phase = TKT_PHASE_GREETING; phase <= TKT_PHASE_REQUESTS; phase++) {
      struct tkt_msg msg;
      size_t used;
      assert_int_not_equal(decode(phase, tkt_span(bytes, tkt_wire2.frame_max), &msg, &used),
                           TKT_DECODE_MORE);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_request),
      cmocka_unit_test(every_reply),
      cmocka_unit_test(errors_carry_number_and_text),
      cmocka_unit_test(handshake_lines),
      cmocka_unit_test(a_greeting_without_nonce_is_malformed),
      cmocka_unit_test(integers_may_hold_the_byte_lf),
      cmocka_unit_test(keys_up_to_128_bytes),
      cmocka_unit_test(line_limits_when_reading),
      cmocka_unit_test(line_limits_when_writing),
      cmocka_unit_test(what_would_break_the_framing_is_not_written),
      cmocka_unit_test(opcodes_of_the_other_direction_are_unknown),
      cmocka_unit_test(append_writes_all_or_nothing),
      cmocka_unit_test(no_frame_passes_frame_max),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
