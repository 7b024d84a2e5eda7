#include "base/key.h"

/* Length of the well-formed UTF-8 sequence at `p` (RFC 3629), 0 where there is none. */
static size_t utf8_sequence(const uint8_t *p, size_t left) {
  uint8_t lead = p[0];
  if (lead < 0x80) return 1;
  size_t len;
  uint8_t low = 0x80, high = 0xbf; /* allowed range of the second byte */
  if (lead >= 0xc2 && lead <= 0xdf) {
    len = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    len = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    len = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return 0;
  }
  if (left < len || p[1] < low || p[1] > high) return 0;
  for (size_t i = 2; i < len; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  return len;
}

/* Non-zero where some byte of `word` is `byte`. */
static uint64_t holds_byte(uint64_t word, uint8_t byte) {
  const uint64_t ones = UINT64_C(0x0101010101010101);
  uint64_t differ = word ^ ones * byte;
  return (differ - ones) & ~differ & ones * 0x80;
}

/* Eight bytes of ASCII, none of them forbidden: what nearly all keys are made of. */
static bool is_plain_word(const uint8_t *p) {
  uint64_t word;
  memcpy(&word, p, sizeof word);
  return !(word & UINT64_C(0x8080808080808080)) &&
         !(holds_byte(word, ' ') | holds_byte(word, '\r') | holds_byte(word, '\n'));
}

enum tkt_key_fault tkt_key_check(struct tkt_span key) {
  if (key.len == 0) return TKT_KEY_EMPTY;
  if (key.len > TKT_KEY_MAX) return TKT_KEY_TOO_LONG;
  size_t i = 0;
  while (key.len - i >= 8 && is_plain_word(key.data + i))
    i += 8;
  /* The rest with the bytes before it, once more. */
  if (i > 0 && key.len - i < 8 && is_plain_word(key.data + key.len - 8)) return TKT_KEY_OK;
  while (i < key.len) {
    uint8_t b = key.data[i];
    if (b == ' ' || b == '\r' || b == '\n') return TKT_KEY_FORBIDDEN_BYTE;
    size_t n = utf8_sequence(key.data + i, key.len - i);
    if (n == 0) return TKT_KEY_NOT_UTF8;
    i += n;
  }
  return TKT_KEY_OK;
}

size_t tkt_key_set_normalize(struct tkt_span *keys, size_t count) {
  for (size_t i = 1; i < count; i++) { /* insertion sort: a set has at most 16 keys */
    struct tkt_span key = keys[i];
    size_t j = i;
    for (; j > 0 && tkt_span_compare(keys[j - 1], key) > 0; j--)
      keys[j] = keys[j - 1];
    keys[j] = key;
  }
  size_t kept = 0;
  for (size_t i = 0; i < count; i++)
    if (kept == 0 || !tkt_span_equal(keys[kept - 1], keys[i])) keys[kept++] = keys[i];
  return kept;
}
