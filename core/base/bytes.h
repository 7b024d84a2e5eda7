/* Byte spans and a growing output buffer.
 *
 * A span borrows: whoever made it says how long the bytes stay. A buffer owns its bytes; it grows
 * by doubling up to a bound given at each append and gives its memory back when it runs empty and
 * is told to. */
#ifndef TKT_BASE_BYTES_H
#define TKT_BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct tkt_span {
  const uint8_t *data;
  size_t len;
};

static inline struct tkt_span tkt_span(const void *data, size_t len) {
  struct tkt_span s = {(const uint8_t *)data, len};
  return s;
}

static inline struct tkt_span tkt_span_str(const char *text) {
  return tkt_span(text, strlen(text));
}

static inline bool tkt_span_equal(struct tkt_span a, struct tkt_span b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Bytewise order; a prefix sorts before what it begins. */
int tkt_span_compare(struct tkt_span a, struct tkt_span b);

/* Big-endian loads and stores; no alignment needed. */
static inline uint16_t tkt_load16(const uint8_t *p) {
  return (uint16_t)((uint16_t)p[0] << 8 | p[1]);
}

static inline uint64_t tkt_load64(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return be64toh(v);
}

static inline void tkt_store16(uint8_t *p, uint16_t v) {
  p[0] = (uint8_t)(v >> 8);
  p[1] = (uint8_t)v;
}

static inline void tkt_store64(uint8_t *p, uint64_t v) {
  v = htobe64(v);
  memcpy(p, &v, sizeof v);
}

/* Queue of bytes: appended at the end, consumed from the front. Zeroed memory is an empty one. */
struct tkt_buf {
  uint8_t *data;
  size_t start; /* first byte not consumed */
  size_t end;   /* one past the last byte */
  size_t cap;
};

static inline size_t tkt_buf_len(const struct tkt_buf *b) {
  return b->end - b->start;
}

static inline struct tkt_span tkt_buf_span(const struct tkt_buf *b) {
  return tkt_span(b->data ? b->data + b->start : NULL, b->end - b->start);
}

/* Room for `n` (not 0) more bytes at the end, or NULL: out of memory, or the content would pass
 * `bound` bytes. Write there, then commit. Earlier spans of this buffer are no longer valid. */
uint8_t *tkt_buf_reserve(struct tkt_buf *b, size_t n, size_t bound);

/* Makes `n` reserved and written bytes part of the content. */
static inline void tkt_buf_commit(struct tkt_buf *b, size_t n) {
  b->end += n;
}

/* Drops `n` bytes (at most the content) from the front. */
static inline void tkt_buf_consume(struct tkt_buf *b, size_t n) {
  b->start += n;
  if (b->start == b->end) b->start = b->end = 0;
}

/* Drops the bytes after the first `keep` of the content. */
static inline void tkt_buf_truncate(struct tkt_buf *b, size_t keep) {
  b->end = b->start + keep;
  if (b->start == b->end) b->start = b->end = 0;
}

/* Frees the memory; the buffer is empty and usable. */
void tkt_buf_release(struct tkt_buf *b);

#endif
