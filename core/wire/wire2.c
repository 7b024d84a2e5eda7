#include "wire/wire2.h"

#include "wire/wire.h"

enum {
  ACQUIRE_FIXED = 1 + 2 + 2 + 8, /* A wait lease owner */
  GRANTED_FIXED = 1 + 8 + 8,     /* A token owner */
  ECHO_FIXED = 1 + 8,            /* T B owner; R N token, either way */
};

/* --- decoding ------------------------------------------------------------------------------------
 */

/* Finds the LF behind the first `fixed` bytes, which are counted and never searched: integers hold
 * any byte. The text between may take `text_max` bytes; nothing beyond that is looked at. */
static inline enum tkt_decode find_line(struct tkt_span bytes, size_t fixed, size_t text_max,
                                        struct tkt_span *text_out, size_t *used_out) {
  if (bytes.len <= fixed) return TKT_DECODE_MORE;
  const uint8_t *text = bytes.data + fixed;
  size_t there = bytes.len - fixed;
  size_t look = there < text_max + 1 ? there : text_max + 1;
  const uint8_t *lf = memchr(text, '\n', look);
  if (!lf) return there > text_max ? TKT_DECODE_TOO_LONG : TKT_DECODE_MORE;
  *text_out = tkt_span(text, (size_t)(lf - text));
  *used_out = (size_t)(lf - bytes.data) + 1;
  return TKT_DECODE_OK;
}

static inline enum tkt_decode find_key(struct tkt_span bytes, size_t fixed, struct tkt_msg *msg,
                                       size_t *used_out) {
  msg->key_count = 1;
  msg->set = false;
  return find_line(bytes, fixed, TKT_KEY_MAX, &msg->keys[0], used_out);
}

static enum tkt_decode decode_greeting(struct tkt_span bytes, struct tkt_msg *msg,
                                       size_t *used_out) {
  struct tkt_span line;
  enum tkt_decode r = find_line(bytes, 0, TKT_WIRE2_LINE_MAX - 1, &line, used_out);
  if (r != TKT_DECODE_OK) return r;
  const uint8_t *space = line.len ? memchr(line.data, ' ', line.len) : NULL;
  /* Without a nonce the proof would be the same every time, for whoever asks. */
  if (!space || space == line.data + line.len - 1) return TKT_DECODE_MALFORMED;
  size_t word = (size_t)(space - line.data);
  msg->kind = TKT_MSG_GREETING;
  msg->version = 2;
  msg->text = tkt_span(line.data, word);
  msg->nonce = tkt_span(space + 1, line.len - word - 1);
  return TKT_DECODE_OK;
}

static enum tkt_decode decode_proof(struct tkt_span bytes, struct tkt_msg *msg, size_t *used_out) {
  msg->kind = TKT_MSG_PROOF;
  return find_line(bytes, 0, TKT_WIRE2_PROOF_LINE_MAX - 1, &msg->text, used_out);
}

static enum tkt_decode decode_request(struct tkt_span bytes, struct tkt_msg *msg,
                                      size_t *used_out) {
  const uint8_t *p = bytes.data;
  switch (p[0]) {
  case 'A':
    if (bytes.len <= ACQUIRE_FIXED) return TKT_DECODE_MORE;
    msg->kind = TKT_MSG_ACQUIRE;
    msg->wait_s = tkt_load16(p + 1);
    msg->lease_s = tkt_load16(p + 3);
    msg->id = tkt_load64(p + 5);
    return find_key(bytes, ACQUIRE_FIXED, msg, used_out);
  case 'R':
    if (bytes.len <= ECHO_FIXED) return TKT_DECODE_MORE;
    msg->kind = TKT_MSG_RELEASE;
    msg->token = tkt_load64(p + 1);
    return find_key(bytes, ECHO_FIXED, msg, used_out);
  default:
    return TKT_DECODE_UNKNOWN;
  }
}

static enum tkt_decode decode_text(struct tkt_span bytes, enum tkt_msg_kind kind,
                                   struct tkt_msg *msg, size_t *used_out) {
  msg->kind = kind;
  return find_line(bytes, 1, TKT_WIRE2_LINE_MAX - 2, &msg->text, used_out);
}

static enum tkt_decode decode_reply(struct tkt_span bytes, struct tkt_msg *msg, size_t *used_out) {
  const uint8_t *p = bytes.data;
  switch (p[0]) {
  case 'A':
    if (bytes.len <= GRANTED_FIXED) return TKT_DECODE_MORE;
    msg->kind = TKT_MSG_GRANTED;
    msg->token = tkt_load64(p + 1);
    msg->id = tkt_load64(p + 9);
    return find_key(bytes, GRANTED_FIXED, msg, used_out);
  case 'T':
  case 'B':
    if (bytes.len <= ECHO_FIXED) return TKT_DECODE_MORE;
    msg->kind = p[0] == 'T' ? TKT_MSG_TIMED_OUT : TKT_MSG_BUSY;
    msg->id = tkt_load64(p + 1);
    return find_key(bytes, ECHO_FIXED, msg, used_out);
  case 'R':
  case 'N':
    if (bytes.len <= ECHO_FIXED) return TKT_DECODE_MORE;
    msg->kind = p[0] == 'R' ? TKT_MSG_RELEASED : TKT_MSG_NOT_CURRENT;
    msg->token = tkt_load64(p + 1);
    return find_key(bytes, ECHO_FIXED, msg, used_out);
  case 'M':
    return decode_text(bytes, TKT_MSG_MOVED, msg, used_out);
  case 'L':
    return decode_text(bytes, TKT_MSG_LEADER, msg, used_out);
  case 'E': {
    enum tkt_decode r = decode_text(bytes, TKT_MSG_ERROR, msg, used_out);
    if (r == TKT_DECODE_OK) msg->error = tkt_wire_error_named(msg->text);
    return r;
  }
  case '\n':
    msg->kind = TKT_MSG_KEEPALIVE;
    *used_out = 1;
    return TKT_DECODE_OK;
  default:
    return TKT_DECODE_UNKNOWN;
  }
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
    return decode_greeting(bytes, msg_out, used_out);
  case TKT_PHASE_PROOF:
    return decode_proof(bytes, msg_out, used_out);
  case TKT_PHASE_VERDICT: /* there is none on this wire */
    break;
  }
  return TKT_DECODE_UNKNOWN;
}

/* --- encoding ------------------------------------------------------------------------------------
 */

static bool holds(struct tkt_span text, int byte) {
  return text.len > 0 && memchr(text.data, byte, text.len) != NULL;
}

static size_t size_with_key(const struct tkt_msg *msg, size_t fixed) {
  if (msg->key_count != 1 || msg->set) return 0;
  struct tkt_span key = msg->keys[0];
  return key.len > TKT_KEY_MAX || holds(key, '\n') ? 0 : fixed + key.len + 1;
}

/* What stands behind the opcode of M, L, E. */
static struct tkt_span body_of(const struct tkt_msg *msg) {
  if (msg->kind == TKT_MSG_ERROR && msg->text.len == 0) {
    const char *reason = tkt_wire_error_reason(msg->error);
    if (reason) return tkt_span_str(reason);
  }
  return msg->text;
}

static size_t encoded_size(const struct tkt_msg *msg) {
  size_t size;
  switch (msg->kind) {
  case TKT_MSG_ACQUIRE:
    return size_with_key(msg, ACQUIRE_FIXED);
  case TKT_MSG_GRANTED:
    return size_with_key(msg, GRANTED_FIXED);
  case TKT_MSG_RELEASE:
  case TKT_MSG_TIMED_OUT:
  case TKT_MSG_BUSY:
  case TKT_MSG_RELEASED:
  case TKT_MSG_NOT_CURRENT:
    return size_with_key(msg, ECHO_FIXED);
  case TKT_MSG_MOVED:
  case TKT_MSG_LEADER:
  case TKT_MSG_ERROR:
    size = 1 + body_of(msg).len + 1;
    return size > TKT_WIRE2_LINE_SENT_MAX || holds(body_of(msg), '\n') ? 0 : size;
  case TKT_MSG_KEEPALIVE:
    return 1;
  case TKT_MSG_GREETING:
    size = msg->text.len + 1 + msg->nonce.len + 1;
    if (size > TKT_WIRE2_LINE_MAX || msg->nonce.len == 0) return 0;
    if (holds(msg->text, ' ') || holds(msg->text, '\n') || holds(msg->nonce, '\n')) return 0;
    return size;
  case TKT_MSG_PROOF:
    size = msg->text.len + 1;
    return size > TKT_WIRE2_PROOF_LINE_MAX || holds(msg->text, '\n') ? 0 : size;
  case TKT_MSG_UNCERTAIN:
  case TKT_MSG_VERDICT:
    break;
  }
  return 0;
}

static inline uint8_t *put(uint8_t *p, struct tkt_span text) {
  if (text.len) memcpy(p, text.data, text.len);
  return p + text.len;
}

static inline uint8_t *put_echo(uint8_t *p, char opcode, uint64_t number) {
  p[0] = (uint8_t)opcode;
  tkt_store64(p + 1, number);
  return p + ECHO_FIXED;
}

static size_t encode(const struct tkt_msg *msg, uint8_t *out) {
  uint8_t *p = out;
  switch (msg->kind) {
  case TKT_MSG_ACQUIRE:
    p[0] = 'A';
    tkt_store16(p + 1, msg->wait_s);
    tkt_store16(p + 3, msg->lease_s);
    tkt_store64(p + 5, msg->id);
    p = put(p + ACQUIRE_FIXED, msg->keys[0]);
    break;
  case TKT_MSG_GRANTED:
    p[0] = 'A';
    tkt_store64(p + 1, msg->token);
    tkt_store64(p + 9, msg->id);
    p = put(p + GRANTED_FIXED, msg->keys[0]);
    break;
  case TKT_MSG_TIMED_OUT:
    p = put(put_echo(p, 'T', msg->id), msg->keys[0]);
    break;
  case TKT_MSG_BUSY:
    p = put(put_echo(p, 'B', msg->id), msg->keys[0]);
    break;
  case TKT_MSG_RELEASE:
  case TKT_MSG_RELEASED:
    p = put(put_echo(p, 'R', msg->token), msg->keys[0]);
    break;
  case TKT_MSG_NOT_CURRENT:
    p = put(put_echo(p, 'N', msg->token), msg->keys[0]);
    break;
  case TKT_MSG_MOVED:
    *p = 'M';
    p = put(p + 1, body_of(msg));
    break;
  case TKT_MSG_LEADER:
    *p = 'L';
    p = put(p + 1, body_of(msg));
    break;
  case TKT_MSG_ERROR:
    *p = 'E';
    p = put(p + 1, body_of(msg));
    break;
  case TKT_MSG_GREETING:
    p = put(p, msg->text);
    *p = ' ';
    p = put(p + 1, msg->nonce);
    break;
  case TKT_MSG_PROOF:
    p = put(p, msg->text);
    break;
  case TKT_MSG_KEEPALIVE:
  case TKT_MSG_UNCERTAIN: /* the last two are not carried */
  case TKT_MSG_VERDICT:
    break;
  }
  *p = '\n';
  return (size_t)(p - out) + 1;
}

const struct tkt_wire tkt_wire2 = {
    .version = 2,
    .frame_max = TKT_WIRE2_LINE_MAX,
    .reply_max = TKT_WIRE2_LINE_MAX,
    .decode = decode,
    .encoded_size = encoded_size,
    .encode = encode,
};
