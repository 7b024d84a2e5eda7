/* Wire 3 codec and push parser; see codec.h. */
#include "wire/wire3.h"
#include "fuzz/codec.h"

static enum tkt_phase phase_after(enum tkt_phase phase) {
  if (phase == TKT_PHASE_GREETING) return TKT_PHASE_VERDICT;
  if (phase == TKT_PHASE_VERDICT) return TKT_PHASE_REPLIES;
  if (phase == TKT_PHASE_PROOF) return TKT_PHASE_REQUESTS;
  return phase;
}

/* Codes without a name, counts and keys beyond what a message holds. */
static bool only_read(const struct tkt_msg *msg, struct tkt_span frame) {
  if (msg->kind == TKT_MSG_ERROR) return msg->error == TKT_WIRE_ERROR_UNKNOWN;
  if (msg->kind != TKT_MSG_ACQUIRE && msg->kind != TKT_MSG_RELEASE) return false;
  for (size_t i = 0; i < msg->key_count; i++)
    if (msg->keys[i].len > TKT_KEY_MAX) return true;
  size_t fixed = msg->kind == TKT_MSG_ACQUIRE ? TKT_WIRE3_ACQUIRE_FIXED : TKT_WIRE3_RELEASE_FIXED;
  return msg->set && msg->key_count == 0 && frame.data[TKT_WIRE3_HEADER + fixed] != 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct codec codec = {
      .wire = &tkt_wire3,
      .phases = {TKT_PHASE_GREETING, TKT_PHASE_VERDICT, TKT_PHASE_REPLIES, TKT_PHASE_PROOF,
                 TKT_PHASE_REQUESTS},
      .phase_count = 5,
      .phase_after = phase_after,
      .record = record_framed,
      .only_read = only_read,
  };
  run_codec(&codec, data, size);
  return 0;
}
