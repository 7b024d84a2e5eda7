/* Wire 2 codec and push parser; see codec.h. */
#include "wire/wire2.h"
#include "fuzz/codec.h"

static enum tkt_phase phase_after(enum tkt_phase phase) {
  if (phase == TKT_PHASE_GREETING) return TKT_PHASE_REPLIES;
  if (phase == TKT_PHASE_PROOF) return TKT_PHASE_REQUESTS;
  return phase;
}

/* Texts longer than we write. */
static bool only_read(const struct tkt_msg *msg, struct tkt_span frame) {
  bool text =
      msg->kind == TKT_MSG_MOVED || msg->kind == TKT_MSG_LEADER || msg->kind == TKT_MSG_ERROR;
  return text && frame.len > TKT_WIRE2_LINE_SENT_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct codec codec = {
      .wire = &tkt_wire2,
      .phases = {TKT_PHASE_GREETING, TKT_PHASE_REPLIES, TKT_PHASE_PROOF, TKT_PHASE_REQUESTS},
      .phase_count = 4,
      .phase_after = phase_after,
      .record = record_message,
      .only_read = only_read,
  };
  run_codec(&codec, data, size);
  return 0;
}
