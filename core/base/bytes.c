#include "base/bytes.h"

#include <stdlib.h>

/* Smallest allocation: one segment's worth of small replies. */
enum { TKT_BUF_MIN = 512 };

int tkt_span_compare(struct tkt_span a, struct tkt_span b) {
  size_t common = a.len < b.len ? a.len : b.len;
  int c = common ? memcmp(a.data, b.data, common) : 0;
  if (c != 0) return c;
  return a.len < b.len ? -1 : a.len > b.len;
}

uint8_t *tkt_buf_reserve(struct tkt_buf *b, size_t n, size_t bound) {
  size_t len = b->end - b->start;
  if (n > bound || len > bound - n) return NULL;
  if (b->cap - b->end >= n) return b->data + b->end;
  if (b->cap - len >= n && b->start >= b->cap / 4) { /* enough was consumed to pay for the move */
    memmove(b->data, b->data + b->start, len);
    b->start = 0;
    b->end = len;
    return b->data + len;
  }
  if (n > SIZE_MAX / 4 || len > SIZE_MAX / 4) return NULL; /* doubling would wrap around */
  size_t cap = b->cap ? b->cap * 2 : TKT_BUF_MIN;
  while (cap - len < n)
    cap *= 2;
  uint8_t *data = malloc(cap);
  if (!data) return NULL;
  if (len) memcpy(data, b->data + b->start, len);
  free(b->data);
  b->data = data;
  b->start = 0;
  b->end = len;
  b->cap = cap;
  return data + len;
}

void tkt_buf_release(struct tkt_buf *b) {
  free(b->data);
  memset(b, 0, sizeof *b);
}
