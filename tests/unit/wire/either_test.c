#include "wire/parser.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define BYTES(text) tkt_span(text, sizeof(text) - 1)

static void the_first_bytes_tell_the_wires_apart(void **state) {
  (void)state;
  const struct {
    struct tkt_span bytes;
    unsigned version; /* 0: no greeting of either */
  } starts[] = {
      {BYTES("TCKCLI3\0\0\x03\0\xff"
             "0123456789abcdef"),
       3},
      {BYTES("single nonce\n"), 2},
      {BYTES("T n\n"), 2},
      {BYTES("TCKCLI3 nonce\n"), 2},
      {BYTES(" n\n"), 2},
      {BYTES("TCKCLI3\0\0\x04\0\xff"
             "0123456789abcdef"),
       0},
      {BYTES("TCKCLI3\n"), 0},
      {BYTES("\n"), 0},
  };
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
    for (size_t step = 1; step <= 28; step++) {
      struct tkt_parser parser;
      struct tkt_msg msg;
      struct tkt_span bytes = starts[i].bytes;
      enum tkt_decode r = TKT_DECODE_MORE;
      tkt_parser_init(&parser, &tkt_wire_either, TKT_PHASE_GREETING);
      for (size_t at = 0; at < bytes.len && r == TKT_DECODE_MORE; at += step) {
        tkt_parser_push(&parser,
                        tkt_span(bytes.data + at, bytes.len - at < step ? bytes.len - at : step));
        r = tkt_parser_next(&parser, &msg);
      }
      if (starts[i].version) {
        assert_int_equal(r, TKT_DECODE_OK);
        assert_int_equal(msg.version, starts[i].version);
        assert_int_equal(tkt_wire_of(msg.version)->version, starts[i].version);
      } else {
        assert_true(r != TKT_DECODE_OK && r != TKT_DECODE_MORE);
      }
      tkt_parser_release(&parser);
    }
  /* The greeting alone, and what stands behind it in the same piece stays for the wire it named. */
  struct tkt_parser parser;
  struct tkt_msg msg;
  tkt_parser_init(&parser, &tkt_wire_either, TKT_PHASE_GREETING);
  const struct tkt_span both = BYTES("TCKCLI3\0\0\x03\0\xff"
                                     "0123456789abcdef\x01L\0\x01\xff");
  tkt_parser_push(&parser, both);
  assert_int_equal(tkt_parser_next(&parser, &msg), TKT_DECODE_OK);
  parser.wire = tkt_wire_of(msg.version);
  parser.phase = TKT_PHASE_VERDICT;
  assert_int_equal(tkt_parser_next(&parser, &msg), TKT_DECODE_OK);
  assert_true(msg.kind == TKT_MSG_VERDICT && msg.accepted);
  parser.phase = TKT_PHASE_REPLIES;
  assert_int_equal(tkt_parser_next(&parser, &msg), TKT_DECODE_OK);
  assert_true(msg.kind == TKT_MSG_LEADER && msg.slot == TKT_SLOT_NONE);
  assert_int_equal(tkt_parser_next(&parser, &msg), TKT_DECODE_MORE);
  tkt_parser_release(&parser);
  assert_null(tkt_wire_of(1));
  assert_null(tkt_wire_of(4));
  const struct tkt_msg leader = {.kind = TKT_MSG_LEADER};
  assert_int_equal(tkt_wire_either.encoded_size(&leader), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_bytes_tell_the_wires_apart)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
