/* A decoded message as bytes that own what they say: each field its kind names, lengths included,
 * so that two streams of messages are equal exactly where their records are. */
#ifndef TKT_TESTS_WIRE_RECORD_H
#define TKT_TESTS_WIRE_RECORD_H

#include "wire/message.h"

#include <stdlib.h>

enum { RECORD_BOUND = 1 << 26 };

static inline void record_bytes(struct tkt_buf *out, const void *data, size_t len) {
  if (len == 0) return;
  uint8_t *room = tkt_buf_reserve(out, len, RECORD_BOUND);
  if (!room) abort();
  memcpy(room, data, len);
  tkt_buf_commit(out, len);
}

static inline void record_number(struct tkt_buf *out, uint64_t number) {
  uint8_t bytes[8];
  tkt_store64(bytes, number);
  record_bytes(out, bytes, sizeof bytes);
}

static inline void record_span(struct tkt_buf *out, struct tkt_span span) {
  record_number(out, span.len);
  record_bytes(out, span.data, span.len);
}

static inline void record_keys(struct tkt_buf *out, const struct tkt_msg *msg) {
  record_number(out, msg->key_count);
  record_number(out, msg->set);
  for (size_t i = 0; i < msg->key_count; i++)
    record_span(out, msg->keys[i]);
}

static inline void record_message(struct tkt_buf *out, const struct tkt_msg *msg) {
  record_number(out, msg->kind);
  switch (msg->kind) {
  case TKT_MSG_GREETING:
    record_span(out, msg->text);
    record_span(out, msg->nonce);
    break;
  case TKT_MSG_PROOF:
  case TKT_MSG_MOVED:
  case TKT_MSG_LEADER:
    record_span(out, msg->text);
    break;
  case TKT_MSG_ERROR:
    record_number(out, msg->error);
    record_span(out, msg->text);
    break;
  case TKT_MSG_ACQUIRE:
    record_number(out, msg->id);
    record_number(out, msg->wait_s);
    record_number(out, msg->lease_s);
    record_keys(out, msg);
    break;
  case TKT_MSG_GRANTED:
    record_number(out, msg->id);
    record_number(out, msg->token);
    record_keys(out, msg);
    break;
  case TKT_MSG_TIMED_OUT:
  case TKT_MSG_BUSY:
    record_number(out, msg->id);
    record_keys(out, msg);
    break;
  case TKT_MSG_RELEASE:
  case TKT_MSG_RELEASED:
  case TKT_MSG_NOT_CURRENT:
    record_number(out, msg->token);
    record_keys(out, msg);
    break;
  case TKT_MSG_KEEPALIVE:
  case TKT_MSG_UNCERTAIN: /* not of wire 2 */
  case TKT_MSG_VERDICT:
    break;
  }
}

/* The same for wire 3. */
static inline void record_framed(struct tkt_buf *out, const struct tkt_msg *msg) {
  record_number(out, msg->kind);
  switch (msg->kind) {
  case TKT_MSG_GREETING:
    record_number(out, msg->version);
    record_number(out, msg->mode);
    record_number(out, msg->slot);
    record_span(out, msg->nonce);
    break;
  case TKT_MSG_PROOF:
    record_span(out, msg->text);
    break;
  case TKT_MSG_VERDICT:
    record_number(out, msg->accepted);
    break;
  case TKT_MSG_LEADER:
    record_number(out, msg->slot);
    break;
  case TKT_MSG_ACQUIRE:
    record_number(out, msg->id);
    record_number(out, msg->wait_s);
    record_number(out, msg->lease_s);
    record_keys(out, msg);
    break;
  case TKT_MSG_RELEASE:
    record_number(out, msg->id);
    record_number(out, msg->token);
    record_keys(out, msg);
    break;
  case TKT_MSG_GRANTED:
    record_number(out, msg->id);
    record_number(out, msg->token);
    record_number(out, msg->set);
    break;
  case TKT_MSG_RELEASED:
    record_number(out, msg->id);
    record_number(out, msg->set);
    break;
  case TKT_MSG_MOVED:
    record_number(out, msg->id);
    record_number(out, msg->slot);
    break;
  case TKT_MSG_ERROR:
    record_number(out, msg->id);
    record_number(out, msg->error);
    break;
  case TKT_MSG_TIMED_OUT:
  case TKT_MSG_BUSY:
  case TKT_MSG_NOT_CURRENT:
  case TKT_MSG_UNCERTAIN:
    record_number(out, msg->id);
    break;
  case TKT_MSG_KEEPALIVE: /* not of wire 3 */
    break;
  }
}

#endif
