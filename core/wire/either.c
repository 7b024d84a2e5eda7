/* Which wire a server speaks, told by the first bytes it says. */
#include "wire/wire.h"
#include "wire/wire2.h"
#include "wire/wire3.h"

static enum tkt_decode decode(enum tkt_phase phase, struct tkt_span bytes, struct tkt_msg *msg_out,
                              size_t *used_out) {
  if (phase != TKT_PHASE_GREETING) return TKT_DECODE_UNKNOWN;
  size_t look = bytes.len < TKT_WIRE3_MAGIC_LEN ? bytes.len : (size_t)TKT_WIRE3_MAGIC_LEN;
  if (look > 0 && memcmp(bytes.data, TKT_WIRE3_MAGIC, look) != 0)
    return tkt_wire2.decode(phase, bytes, msg_out, used_out);
  if (look < TKT_WIRE3_MAGIC_LEN) return TKT_DECODE_MORE;
  return tkt_wire3.decode(phase, bytes, msg_out, used_out);
}

static size_t encoded_size(const struct tkt_msg *msg) {
  (void)msg;
  return 0;
}

static size_t encode(const struct tkt_msg *msg, uint8_t *out) {
  (void)msg;
  (void)out;
  return 0;
}

const struct tkt_wire tkt_wire_either = {
    .version = 0,
    .frame_max = TKT_WIRE2_LINE_MAX, /* the longer of the two greetings */
    .decode = decode,
    .encoded_size = encoded_size,
    .encode = encode,
};

const struct tkt_wire *tkt_wire_of(unsigned version) {
  if (version == 2) return &tkt_wire2;
  return version == 3 ? &tkt_wire3 : NULL;
}
