#include "unit/no_memory.h"
#include "unit/wire/record.h"
#include "wire/parser.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* A run of bytes and the messages in it. */
struct stream {
  enum tkt_phase phase;
  struct tkt_buf bytes;
  struct tkt_buf messages; /* as recorded */
  size_t count;
};

static void add_bytes(struct stream *s, const void *data, size_t len) {
  record_bytes(&s->bytes, data, len);
}

static void add(struct stream *s, const struct tkt_msg *msg) {
  assert_true(tkt_wire_append(&tkt_wire2, msg, &s->bytes, RECORD_BOUND));
  record_message(&s->messages, msg);
  s->count++;
}

static void add_keyed(struct stream *s, enum tkt_msg_kind kind, uint64_t number, size_t key_len) {
  char key[TKT_KEY_MAX];
  memset(key, 'a' + (int)(key_len % 26), sizeof key);
  struct tkt_msg msg = {.kind = kind, .key_count = 1, .keys = {tkt_span(key, key_len)}};
  msg.id = msg.token = number;
  msg.wait_s = 10;
  msg.lease_s = 0x0a0a;
  add(s, &msg);
}

/* Text of `len` bytes; longer ones than our encoder writes are put by hand. */
static void add_text(struct stream *s, enum tkt_msg_kind kind, char opcode, size_t len) {
  char line[256];
  memset(line, 't', sizeof line);
  line[0] = opcode;
  line[len + 1] = '\n';
  const struct tkt_msg msg = {.kind = kind, .text = tkt_span(line + 1, len)};
  add_bytes(s, line, len + 2);
  record_message(&s->messages, &msg);
  s->count++;
}

static struct stream mixed_replies(void) {
  struct stream s = {.phase = TKT_PHASE_REPLIES};
  add_keyed(&s, TKT_MSG_GRANTED, UINT64_C(0x0a0a0a0a0a0a0a0a), 3);
  const struct tkt_msg keepalive = {.kind = TKT_MSG_KEEPALIVE};
  add(&s, &keepalive);
  add(&s, &keepalive);
  add_keyed(&s, TKT_MSG_RELEASED, UINT64_C(0x0a00000000000041), 128);
  add_keyed(&s, TKT_MSG_TIMED_OUT, 10, 0);
  add_text(&s, TKT_MSG_LEADER, 'L', 254); /* the longest line there is */
  add_keyed(&s, TKT_MSG_BUSY, UINT64_C(0xffffffffffffff0a), 1);
  add_keyed(&s, TKT_MSG_GRANTED, UINT64_C(0x000a0a0a0a0a0a00), 128);
  add_text(&s, TKT_MSG_MOVED, 'M', 0);
  add_keyed(&s, TKT_MSG_NOT_CURRENT, 7, 127);
  const struct tkt_msg error = {
      .kind = TKT_MSG_ERROR, .error = TKT_WIRE_ERROR_NO_LEADER, .text = tkt_span_str("no_leader")};
  add(&s, &error);
  return s;
}

static struct stream mixed_requests(void) {
  struct stream s = {.phase = TKT_PHASE_REQUESTS};
  add_keyed(&s, TKT_MSG_ACQUIRE, UINT64_C(0x0a0a0a0a0a0a0a0a), 5);
  add_keyed(&s, TKT_MSG_RELEASE, UINT64_C(0x0a0a0a0a0a0a0a0a), 128);
  add_keyed(&s, TKT_MSG_ACQUIRE, 10, 128);
  add_keyed(&s, TKT_MSG_RELEASE, 0, 0);
  return s;
}

static void release_stream(struct stream *s) {
  tkt_buf_release(&s->bytes);
  tkt_buf_release(&s->messages);
}

/* Hands over a copy that dies right after, as a read buffer does. */
static void push_and_collect(struct tkt_parser *p, struct tkt_span bytes, struct stream *got) {
  uint8_t *piece = malloc(bytes.len + !bytes.len);
  assert_non_null(piece);
  if (bytes.len) memcpy(piece, bytes.data, bytes.len);
  tkt_parser_push(p, tkt_span(piece, bytes.len));
  struct tkt_msg msg;
  enum tkt_decode r;
  while ((r = tkt_parser_next(p, &msg)) == TKT_DECODE_OK) {
    record_message(&got->messages, &msg);
    got->count++;
  }
  assert_int_equal(r, TKT_DECODE_MORE);
  free(piece);
}

/* The stream in pieces that end at the given places gives the messages of the whole. */
static void assert_cut(const struct stream *s, const size_t *ends, size_t count) {
  struct tkt_parser p;
  struct stream got = {0};
  tkt_parser_init(&p, &tkt_wire2, s->phase);
  struct tkt_span bytes = tkt_buf_span(&s->bytes);
  size_t start = 0;
  for (size_t i = 0; i <= count; i++) {
    size_t end = i < count ? ends[i] : bytes.len;
    push_and_collect(&p, tkt_span(bytes.data + start, end - start), &got);
    start = end;
  }
  if (got.count != s->count ||
      !tkt_span_equal(tkt_buf_span(&got.messages), tkt_buf_span(&s->messages)))
    fail_msg("%zu messages instead of %zu, cut at %zu", got.count, s->count, count ? ends[0] : 0);
  assert_false(tkt_parser_mid_frame(&p));
  tkt_parser_release(&p);
  release_stream(&got);
}

static void assert_every_cut(struct stream *s) {
  size_t len = tkt_buf_len(&s->bytes);
  assert_cut(s, NULL, 0);
  for (size_t a = 0; a <= len; a++)
    for (size_t b = a; b <= len; b++) {
      const size_t ends[] = {a, b};
      assert_cut(s, ends, 2);
    }
  size_t *ends = malloc(len * sizeof *ends);
  assert_non_null(ends);
  for (size_t step = 1; step < 200; step++) { /* pieces of equal size, from single bytes on */
    size_t count = 0;
    for (size_t at = step; at < len; at += step)
      ends[count++] = at;
    assert_cut(s, ends, count);
  }
  free(ends);
  release_stream(s);
}

static void replies_at_every_two_cuts(void **state) {
  (void)state;
  struct stream s = mixed_replies();
  assert_every_cut(&s);
}

static void requests_at_every_two_cuts(void **state) {
  (void)state;
  struct stream s = mixed_requests();
  assert_every_cut(&s);
}

static void a_pushed_frame_is_read_in_place(void **state) {
  (void)state;
  struct tkt_parser p;
  struct tkt_msg msg;
  static const char bytes[] = "R\0\0\0\0\0\0\0\x01key\n";
  tkt_parser_init(&p, &tkt_wire2, TKT_PHASE_REPLIES);
  tkt_parser_push(&p, tkt_span(bytes, sizeof bytes - 1));
  assert_int_equal(tkt_parser_next(&p, &msg), TKT_DECODE_OK);
  assert_ptr_equal(msg.keys[0].data, bytes + 9);
  assert_int_equal(tkt_parser_next(&p, &msg), TKT_DECODE_MORE);
  tkt_parser_release(&p);
}

/* The handshake and what is written right behind it, in one piece and byte by byte. */
static void the_phase_may_change_between_messages(void **state) {
  (void)state;
  static const char bytes[] = "single nonce\n\nL10.0.0.1:5225\n";
  for (size_t step = 1; step <= sizeof bytes - 1; step++) {
    struct tkt_parser p;
    struct tkt_msg msg;
    enum tkt_msg_kind kinds[8] = {0};
    size_t count = 0;
    tkt_parser_init(&p, &tkt_wire2, TKT_PHASE_GREETING);
    for (size_t at = 0; at < sizeof bytes - 1; at += step) {
      size_t n = sizeof bytes - 1 - at < step ? sizeof bytes - 1 - at : step;
      tkt_parser_push(&p, tkt_span(bytes + at, n));
      while (tkt_parser_next(&p, &msg) == TKT_DECODE_OK) {
        if (msg.kind == TKT_MSG_GREETING) {
          assert_true(tkt_span_equal(msg.nonce, tkt_span_str("nonce")));
          p.phase = TKT_PHASE_REPLIES;
        }
        assert_in_range(count, 0, 7);
        kinds[count++] = msg.kind;
      }
    }
    assert_int_equal(count, 3);
    assert_int_equal(kinds[0], TKT_MSG_GREETING);
    assert_int_equal(kinds[1], TKT_MSG_KEEPALIVE);
    assert_int_equal(kinds[2], TKT_MSG_LEADER);
    tkt_parser_release(&p);
  }
}

static void assert_fault(enum tkt_phase phase, struct tkt_span bytes, size_t step, size_t before,
                         enum tkt_decode fault) {
  struct tkt_parser p;
  struct tkt_msg msg;
  tkt_parser_init(&p, &tkt_wire2, phase);
  size_t given = 0;
  enum tkt_decode r = TKT_DECODE_MORE;
  for (size_t at = 0; at < bytes.len && r == TKT_DECODE_MORE; at += step) {
    tkt_parser_push(&p, tkt_span(bytes.data + at, bytes.len - at < step ? bytes.len - at : step));
    while ((r = tkt_parser_next(&p, &msg)) == TKT_DECODE_OK)
      given++;
    assert_in_range(p.kept, 0, tkt_wire2.frame_max);
  }
  assert_int_equal(r, fault);
  assert_int_equal(given, before);
  /* It stays, whatever else comes, and keeps nothing. */
  tkt_parser_push(&p, tkt_span_str("\n\n\n"));
  assert_int_equal(tkt_parser_next(&p, &msg), fault);
  assert_int_equal(tkt_parser_next(&p, &msg), fault);
  assert_false(tkt_parser_mid_frame(&p));
  assert_null(p.long_frame);
  tkt_parser_release(&p);
}

static void a_fault_ends_the_stream_for_good(void **state) {
  (void)state;
  static char long_key[400], long_line[400];
  memset(long_key, 'k', sizeof long_key);
  memcpy(long_key, "\n\nT", 3);
  memset(long_line, 'l', sizeof long_line);
  memcpy(long_line, "\n\nL", 3);
  for (size_t step = 1; step <= 400; step++) {
    assert_fault(TKT_PHASE_REPLIES, tkt_span_str("\n\nX\n\n"), step, 2, TKT_DECODE_UNKNOWN);
    assert_fault(TKT_PHASE_REPLIES, tkt_span(long_key, sizeof long_key), step, 2,
                 TKT_DECODE_TOO_LONG);
    assert_fault(TKT_PHASE_REPLIES, tkt_span(long_line, sizeof long_line), step, 2,
                 TKT_DECODE_TOO_LONG);
    assert_fault(TKT_PHASE_GREETING, tkt_span_str("nospace\n"), step, 0, TKT_DECODE_MALFORMED);
    assert_fault(TKT_PHASE_PROOF, tkt_span(long_key + 3, 300), step, 0, TKT_DECODE_TOO_LONG);
    assert_fault(TKT_PHASE_REQUESTS, tkt_span_str("\n"), step, 0, TKT_DECODE_UNKNOWN);
  }
}

static void mid_frame_only_while_a_frame_is_unfinished(void **state) {
  (void)state;
  struct tkt_parser p;
  struct tkt_msg msg;
  tkt_parser_init(&p, &tkt_wire2, TKT_PHASE_REPLIES);
  assert_false(tkt_parser_mid_frame(&p));
  static const char frame[] = "T\0\0\0\0\0\0\0\x01key\n";
  for (size_t i = 0; i < sizeof frame - 2; i++) {
    tkt_parser_push(&p, tkt_span(frame + i, 1));
    assert_int_equal(tkt_parser_next(&p, &msg), TKT_DECODE_MORE);
    assert_true(tkt_parser_mid_frame(&p));
  }
  tkt_parser_push(&p, tkt_span_str("\n"));
  assert_int_equal(tkt_parser_next(&p, &msg), TKT_DECODE_OK);
  assert_false(tkt_parser_mid_frame(&p));
  assert_int_equal(tkt_parser_next(&p, &msg), TKT_DECODE_MORE);
  assert_false(tkt_parser_mid_frame(&p));
  tkt_parser_push(&p, tkt_span(NULL, 0));
  assert_int_equal(tkt_parser_next(&p, &msg), TKT_DECODE_MORE);
  tkt_parser_release(&p);
}

static void heap_is_used_for_a_long_unfinished_frame_alone(void **state) {
  (void)state;
  struct tkt_parser p;
  struct tkt_msg msg;
  char line[TKT_PARSER_INLINE + 40];
  memset(line, 'x', sizeof line);
  line[0] = 'L';
  tkt_parser_init(&p, &tkt_wire2, TKT_PHASE_REPLIES);
  tkt_parser_push(&p, tkt_span(line, TKT_PARSER_INLINE));
  assert_int_equal(tkt_parser_next(&p, &msg), TKT_DECODE_MORE);
  assert_null(p.long_frame);
  tkt_parser_push(&p, tkt_span(line + TKT_PARSER_INLINE, 40));
  assert_int_equal(tkt_parser_next(&p, &msg), TKT_DECODE_MORE);
  assert_non_null(p.long_frame);
  tkt_parser_push(&p, tkt_span_str("\n"));
  assert_int_equal(tkt_parser_next(&p, &msg), TKT_DECODE_OK);
  assert_int_equal(msg.text.len, sizeof line - 1);
  assert_int_equal(tkt_parser_next(&p, &msg), TKT_DECODE_MORE);
  assert_null(p.long_frame);
  tkt_parser_release(&p);
}

static void without_memory_a_long_frame_is_too_long(void **state) {
  (void)state;
  struct tkt_wire greedy = tkt_wire2;
  greedy.frame_max = SIZE_MAX / 4; /* no machine has that */
  struct tkt_parser p;
  struct tkt_msg msg;
  char line[TKT_PARSER_INLINE + 1];
  memset(line, 'x', sizeof line);
  line[0] = 'L';
  tkt_parser_init(&p, &greedy, TKT_PHASE_REPLIES);
  tkt_parser_push(&p, tkt_span(line, sizeof line));
  assert_int_equal(tkt_parser_next(&p, &msg), TKT_DECODE_TOO_LONG);
  assert_int_equal(tkt_parser_next(&p, &msg), TKT_DECODE_TOO_LONG);
  tkt_parser_release(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(replies_at_every_two_cuts),
      cmocka_unit_test(requests_at_every_two_cuts),
      cmocka_unit_test(a_pushed_frame_is_read_in_place),
      cmocka_unit_test(the_phase_may_change_between_messages),
      cmocka_unit_test(a_fault_ends_the_stream_for_good),
      cmocka_unit_test(mid_frame_only_while_a_frame_is_unfinished),
      cmocka_unit_test(heap_is_used_for_a_long_unfinished_frame_alone),
      cmocka_unit_test(without_memory_a_long_frame_is_too_long),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
