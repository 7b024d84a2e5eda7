#include "wire/wire3.h"

#include "wire/proof.h"
#include "wire/wire.h"

/* Bodies of replies. */
enum { GRANTED_BODY = 8 + 8, ID_BODY = 8, ID_AND_BYTE_BODY = 8 + 1, SLOT_BODY = 1 };

static const struct {
  uint8_t code;
  uint8_t error;
} codes[] = {
    {1, TKT_WIRE_ERROR_BAD_KEY},     {2, TKT_WIRE_ERROR_BAD_LEASE},
    {3, TKT_WIRE_ERROR_NOT_ACTIVE},  {4, TKT_WIRE_ERROR_NO_LEADER},
    {5, TKT_WIRE_ERROR_BAD_KEY_SET}, {6, TKT_WIRE_ERROR_GROUP_MISMATCH},
    {7, TKT_WIRE_ERROR_BAD_TOKEN},
};
enum { CODES = sizeof codes / sizeof *codes };

static enum tkt_wire_error error_of(uint8_t code) {
  for (size_t i = 0; i < CODES; i++)
    if (codes[i].code == code) return (enum tkt_wire_error)codes[i].error;
  return TKT_WIRE_ERROR_UNKNOWN;
}

/* 0: not an error of this wire. */
static uint8_t code_of(enum tkt_wire_error error) {
  for (size_t i = 0; i < CODES; i++)
    if (codes[i].error == error) return codes[i].code;
  return 0;
}

/* --- decoding ------------------------------------------------------------------------------------
 */

/* The body of a frame, whose opcode is known: its length must lie in min..max, min at least 1. */
static inline enum tkt_decode find_body(struct tkt_span bytes, size_t min, size_t max,
                                        struct tkt_span *body_out, size_t *used_out) {
  if (bytes.len < TKT_WIRE3_HEADER) return TKT_DECODE_MORE;
  size_t len = tkt_load16(bytes.data + 1);
  if (len > max) return TKT_DECODE_TOO_LONG;
  if (len < min) return TKT_DECODE_MALFORMED;
  if (bytes.len < TKT_WIRE3_HEADER + len) return TKT_DECODE_MORE;
  *body_out = tkt_span(bytes.data + TKT_WIRE3_HEADER, len);
  *used_out = TKT_WIRE3_HEADER + len;
  return TKT_DECODE_OK;
}

/* Count and keys from `at` to the end of the body. A count beyond what a message holds is a whole
 * frame all the same, and answered as such. */
static enum tkt_decode find_set(struct tkt_span body, size_t at, struct tkt_msg *msg) {
  size_t count = body.data[at++];
  msg->set = true;
  msg->key_count = (uint8_t)(count <= TKT_KEY_SET_MAX ? count : 0);
  for (size_t i = 0; i < count; i++) {
    if (at == body.len) return TKT_DECODE_MALFORMED;
    size_t len = body.data[at++];
    if (len > body.len - at) return TKT_DECODE_MALFORMED;
    if (i < TKT_KEY_SET_MAX) msg->keys[i] = tkt_span(body.data + at, len);
    at += len;
  }
  return at == body.len ? TKT_DECODE_OK : TKT_DECODE_MALFORMED;
}

static inline enum tkt_decode decode_acquire(struct tkt_span bytes, bool set, struct tkt_msg *msg,
                                             size_t *used_out) {
  struct tkt_span body;
  enum tkt_decode r =
      find_body(bytes, TKT_WIRE3_ACQUIRE_FIXED + 1,
                set ? TKT_WIRE3_ACQUIRE_SET_MAX : TKT_WIRE3_ACQUIRE_MAX, &body, used_out);
  if (r != TKT_DECODE_OK) return r;
  msg->kind = TKT_MSG_ACQUIRE;
  msg->id = tkt_load64(body.data);
  msg->wait_s = body.data[8];
  msg->lease_s = body.data[9];
  if (set) return find_set(body, TKT_WIRE3_ACQUIRE_FIXED, msg);
  msg->set = false;
  msg->key_count = 1;
  msg->keys[0] = tkt_span(body.data + TKT_WIRE3_ACQUIRE_FIXED, body.len - TKT_WIRE3_ACQUIRE_FIXED);
  return TKT_DECODE_OK;
}

static inline enum tkt_decode decode_release(struct tkt_span bytes, bool set, struct tkt_msg *msg,
                                             size_t *used_out) {
  struct tkt_span body;
  enum tkt_decode r =
      find_body(bytes, TKT_WIRE3_RELEASE_FIXED + 1,
                set ? TKT_WIRE3_RELEASE_SET_MAX : TKT_WIRE3_RELEASE_MAX, &body, used_out);
  if (r != TKT_DECODE_OK) return r;
  msg->kind = TKT_MSG_RELEASE;
  msg->id = tkt_load64(body.data);
  msg->token = tkt_load64(body.data + 8);
  if (set) return find_set(body, TKT_WIRE3_RELEASE_FIXED, msg);
  msg->set = false;
  msg->key_count = 1;
  msg->keys[0] = tkt_span(body.data + TKT_WIRE3_RELEASE_FIXED, body.len - TKT_WIRE3_RELEASE_FIXED);
  return TKT_DECODE_OK;
}

static enum tkt_decode decode_request(struct tkt_span bytes, struct tkt_msg *msg,
                                      size_t *used_out) {
  switch (bytes.data[0]) {
  case 'A':
    return decode_acquire(bytes, false, msg, used_out);
  case 'R':
    return decode_release(bytes, false, msg, used_out);
  case 'S':
    return decode_acquire(bytes, true, msg, used_out);
  case 'G':
    return decode_release(bytes, true, msg, used_out);
  default:
    return TKT_DECODE_UNKNOWN;
  }
}

/* A reply of `len` bytes of body that begins with the id, which all but L do. */
static inline enum tkt_decode find_reply(struct tkt_span bytes, size_t len, enum tkt_msg_kind kind,
                                         struct tkt_msg *msg, size_t *used_out) {
  struct tkt_span body;
  enum tkt_decode r = find_body(bytes, len, len, &body, used_out);
  if (r != TKT_DECODE_OK) return r;
  msg->kind = kind;
  msg->set = false;
  msg->key_count = 0;
  msg->id = tkt_load64(body.data);
  return TKT_DECODE_OK;
}

static enum tkt_decode decode_reply(struct tkt_span bytes, struct tkt_msg *msg, size_t *used_out) {
  const uint8_t *body = bytes.data + TKT_WIRE3_HEADER;
  struct tkt_span slot;
  enum tkt_decode r;
  switch (bytes.data[0]) {
  case 'A':
  case 'S':
    r = find_reply(bytes, GRANTED_BODY, TKT_MSG_GRANTED, msg, used_out);
    if (r != TKT_DECODE_OK) return r;
    msg->set = bytes.data[0] == 'S';
    msg->token = tkt_load64(body + 8);
    return r;
  case 'R':
  case 'G':
    r = find_reply(bytes, ID_BODY, TKT_MSG_RELEASED, msg, used_out);
    if (r == TKT_DECODE_OK) msg->set = bytes.data[0] == 'G';
    return r;
  case 'T':
    return find_reply(bytes, ID_BODY, TKT_MSG_TIMED_OUT, msg, used_out);
  case 'B':
    return find_reply(bytes, ID_BODY, TKT_MSG_BUSY, msg, used_out);
  case 'N':
    return find_reply(bytes, ID_BODY, TKT_MSG_NOT_CURRENT, msg, used_out);
  case 'I':
    return find_reply(bytes, ID_BODY, TKT_MSG_UNCERTAIN, msg, used_out);
  case 'M':
    r = find_reply(bytes, ID_AND_BYTE_BODY, TKT_MSG_MOVED, msg, used_out);
    if (r == TKT_DECODE_OK) msg->slot = body[8];
    return r;
  case 'E':
    r = find_reply(bytes, ID_AND_BYTE_BODY, TKT_MSG_ERROR, msg, used_out);
    if (r != TKT_DECODE_OK) return r;
    msg->error = error_of(body[8]);
    msg->text = tkt_span(NULL, 0);
    return r;
  case 'L':
    r = find_body(bytes, SLOT_BODY, SLOT_BODY, &slot, used_out);
    if (r != TKT_DECODE_OK) return r;
    msg->kind = TKT_MSG_LEADER;
    msg->slot = slot.data[0];
    return r;
  default:
    return TKT_DECODE_UNKNOWN;
  }
}

static enum tkt_decode decode_hello(struct tkt_span bytes, struct tkt_msg *msg, size_t *used_out) {
  size_t magic = bytes.len < TKT_WIRE3_MAGIC_LEN ? bytes.len : (size_t)TKT_WIRE3_MAGIC_LEN;
  if (memcmp(bytes.data, TKT_WIRE3_MAGIC, magic) != 0) return TKT_DECODE_UNKNOWN;
  const uint8_t *p = bytes.data + TKT_WIRE3_MAGIC_LEN;
  /* Of another version not even the length is known. */
  if (bytes.len >= TKT_WIRE3_MAGIC_LEN + 2 && tkt_load16(p) != TKT_WIRE3_VERSION)
    return TKT_DECODE_UNKNOWN;
  if (bytes.len < TKT_WIRE3_HELLO_LEN) return TKT_DECODE_MORE;
  if (p[2] != TKT_WIRE_SINGLE && p[2] != TKT_WIRE_CLUSTER) return TKT_DECODE_MALFORMED;
  msg->kind = TKT_MSG_GREETING;
  msg->version = TKT_WIRE3_VERSION;
  msg->text = tkt_span(NULL, 0);
  msg->mode = p[2];
  msg->slot = p[3];
  msg->nonce = tkt_span(p + 4, TKT_WIRE3_NONCE_LEN);
  *used_out = TKT_WIRE3_HELLO_LEN;
  return TKT_DECODE_OK;
}

static enum tkt_decode decode_answer(struct tkt_span bytes, struct tkt_msg *msg, size_t *used_out) {
  if (bytes.len < TKT_WIRE3_PROOF_LEN) return TKT_DECODE_MORE;
  msg->kind = TKT_MSG_PROOF;
  msg->text = tkt_span(bytes.data, TKT_WIRE3_PROOF_LEN);
  *used_out = TKT_WIRE3_PROOF_LEN;
  return TKT_DECODE_OK;
}

static enum tkt_decode decode_verdict(struct tkt_span bytes, struct tkt_msg *msg,
                                      size_t *used_out) {
  if (bytes.data[0] > 1) return TKT_DECODE_MALFORMED;
  msg->kind = TKT_MSG_VERDICT;
  msg->accepted = bytes.data[0] == 1;
  *used_out = 1;
  return TKT_DECODE_OK;
}

static enum tkt_decode decode(enum tkt_phase phase, struct tkt_span bytes, struct tkt_msg *msg_out,
                              size_t *used_out) {
  if (bytes.len == 0) return TKT_DECODE_MORE;
  switch (phase) {
  case TKT_PHASE_REPLIES:
    return decode_reply(bytes, msg_out, used_out);
  case TKT_PHASE_REQUESTS:
    return decode_request(bytes, msg_out, used_out);
  case TKT_PHASE_GREETING:
    return decode_hello(bytes, msg_out, used_out);
  case TKT_PHASE_PROOF:
    return decode_answer(bytes, msg_out, used_out);
  case TKT_PHASE_VERDICT:
    return decode_verdict(bytes, msg_out, used_out);
  }
  return TKT_DECODE_UNKNOWN;
}

/* --- encoding ------------------------------------------------------------------------------------
 */

/* Bytes of the key part of a request, 0 where it cannot be written. */
static size_t keys_size(const struct tkt_msg *msg) {
  if (!msg->set) {
    size_t len = msg->key_count == 1 ? msg->keys[0].len : 0;
    return len <= TKT_KEY_MAX ? len : 0;
  }
  if (msg->key_count > TKT_KEY_SET_MAX) return 0;
  size_t size = 1;
  for (size_t i = 0; i < msg->key_count; i++) {
    if (msg->keys[i].len > TKT_KEY_MAX) return 0;
    size += 1 + msg->keys[i].len;
  }
  return size;
}

static size_t request_size(const struct tkt_msg *msg, size_t fixed) {
  size_t keys = keys_size(msg);
  return keys ? TKT_WIRE3_HEADER + fixed + keys : 0;
}

static size_t encoded_size(const struct tkt_msg *msg) {
  switch (msg->kind) {
  case TKT_MSG_ACQUIRE:
    if (msg->wait_s > UINT8_MAX || msg->lease_s > UINT8_MAX) return 0;
    return request_size(msg, TKT_WIRE3_ACQUIRE_FIXED);
  case TKT_MSG_RELEASE:
    return request_size(msg, TKT_WIRE3_RELEASE_FIXED);
  case TKT_MSG_GRANTED:
    return TKT_WIRE3_HEADER + GRANTED_BODY;
  case TKT_MSG_RELEASED:
  case TKT_MSG_TIMED_OUT:
  case TKT_MSG_BUSY:
  case TKT_MSG_NOT_CURRENT:
  case TKT_MSG_UNCERTAIN:
    return TKT_WIRE3_HEADER + ID_BODY;
  case TKT_MSG_MOVED:
    return TKT_WIRE3_HEADER + ID_AND_BYTE_BODY;
  case TKT_MSG_ERROR:
    return code_of(msg->error) ? TKT_WIRE3_HEADER + ID_AND_BYTE_BODY : 0;
  case TKT_MSG_LEADER:
    return TKT_WIRE3_HEADER + SLOT_BODY;
  case TKT_MSG_GREETING:
    return msg->nonce.len == TKT_WIRE3_NONCE_LEN ? TKT_WIRE3_HELLO_LEN : 0;
  case TKT_MSG_PROOF:
    return msg->text.len == TKT_WIRE3_PROOF_LEN ? TKT_WIRE3_PROOF_LEN : 0;
  case TKT_MSG_VERDICT:
    return 1;
  case TKT_MSG_KEEPALIVE:
    break;
  }
  return 0;
}

/* Header and id; returns where the body goes on. */
static inline uint8_t *put_id(uint8_t *p, char opcode, size_t body, uint64_t id) {
  p[0] = (uint8_t)opcode;
  tkt_store16(p + 1, (uint16_t)body);
  tkt_store64(p + TKT_WIRE3_HEADER, id);
  return p + TKT_WIRE3_HEADER + 8;
}

/* A reply that is its id alone. */
static inline size_t put_answer(uint8_t *p, char opcode, uint64_t id) {
  put_id(p, opcode, ID_BODY, id);
  return TKT_WIRE3_HEADER + ID_BODY;
}

static inline size_t put_answer_with(uint8_t *p, char opcode, uint64_t id, uint8_t byte) {
  *put_id(p, opcode, ID_AND_BYTE_BODY, id) = byte;
  return TKT_WIRE3_HEADER + ID_AND_BYTE_BODY;
}

static uint8_t *put_keys(uint8_t *p, const struct tkt_msg *msg) {
  if (!msg->set) {
    memcpy(p, msg->keys[0].data, msg->keys[0].len);
    return p + msg->keys[0].len;
  }
  *p++ = msg->key_count;
  for (size_t i = 0; i < msg->key_count; i++) {
    size_t len = msg->keys[i].len;
    *p++ = (uint8_t)len;
    if (len) memcpy(p, msg->keys[i].data, len);
    p += len;
  }
  return p;
}

/* The header is written last, when the length of the keys is known. */
static size_t put_request(uint8_t *out, const struct tkt_msg *msg) {
  bool acquire = msg->kind == TKT_MSG_ACQUIRE;
  uint8_t *p = out + TKT_WIRE3_HEADER + 8;
  if (acquire) {
    *p++ = (uint8_t)msg->wait_s;
    *p++ = (uint8_t)msg->lease_s;
  } else {
    tkt_store64(p, msg->token);
    p += 8;
  }
  size_t size = (size_t)(put_keys(p, msg) - out);
  char opcode = acquire ? (msg->set ? 'S' : 'A') : (msg->set ? 'G' : 'R');
  put_id(out, opcode, size - TKT_WIRE3_HEADER, msg->id);
  return size;
}

static size_t put_hello(uint8_t *p, const struct tkt_msg *msg) {
  memcpy(p, TKT_WIRE3_MAGIC, TKT_WIRE3_MAGIC_LEN);
  p += TKT_WIRE3_MAGIC_LEN;
  tkt_store16(p, TKT_WIRE3_VERSION);
  p[2] = msg->mode;
  p[3] = msg->slot;
  memcpy(p + 4, msg->nonce.data, TKT_WIRE3_NONCE_LEN);
  return TKT_WIRE3_HELLO_LEN;
}

static size_t encode(const struct tkt_msg *msg, uint8_t *out) {
  switch (msg->kind) {
  case TKT_MSG_ACQUIRE:
  case TKT_MSG_RELEASE:
    return put_request(out, msg);
  case TKT_MSG_GRANTED:
    tkt_store64(put_id(out, msg->set ? 'S' : 'A', GRANTED_BODY, msg->id), msg->token);
    return TKT_WIRE3_HEADER + GRANTED_BODY;
  case TKT_MSG_RELEASED:
    return put_answer(out, msg->set ? 'G' : 'R', msg->id);
  case TKT_MSG_TIMED_OUT:
    return put_answer(out, 'T', msg->id);
  case TKT_MSG_BUSY:
    return put_answer(out, 'B', msg->id);
  case TKT_MSG_NOT_CURRENT:
    return put_answer(out, 'N', msg->id);
  case TKT_MSG_UNCERTAIN:
    return put_answer(out, 'I', msg->id);
  case TKT_MSG_MOVED:
    return put_answer_with(out, 'M', msg->id, msg->slot);
  case TKT_MSG_ERROR:
    return put_answer_with(out, 'E', msg->id, code_of(msg->error));
  case TKT_MSG_LEADER:
    out[0] = 'L';
    tkt_store16(out + 1, SLOT_BODY);
    out[3] = msg->slot;
    return TKT_WIRE3_HEADER + SLOT_BODY;
  case TKT_MSG_GREETING:
    return put_hello(out, msg);
  case TKT_MSG_PROOF:
    memcpy(out, msg->text.data, TKT_WIRE3_PROOF_LEN);
    return TKT_WIRE3_PROOF_LEN;
  case TKT_MSG_VERDICT:
    *out = msg->accepted;
    return 1;
  case TKT_MSG_KEEPALIVE: /* not carried */
    break;
  }
  return 0;
}

const struct tkt_wire tkt_wire3 = {
    .version = TKT_WIRE3_VERSION,
    .frame_max = TKT_WIRE3_FRAME_MAX,
    .reply_max = TKT_WIRE3_HELLO_LEN,
    .decode = decode,
    .encoded_size = encoded_size,
    .encode = encode,
};
