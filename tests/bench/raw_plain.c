#include "raw_dialect.h"

static int greet(int fd) {
  (void)fd;
  return 0;
}

static uint32_t acquire(uint8_t *out, uint32_t task, uint32_t key) {
  raw_write(out, RAW_ACQUIRE, 'A', task, key);
  return RAW_ACQUIRE;
}

static uint32_t release(uint8_t *out, uint32_t task, uint32_t key) {
  raw_write(out, RAW_RELEASE, 'R', task, key);
  return RAW_RELEASE;
}

static enum raw_reply parse(const uint8_t *in, uint32_t len, uint32_t *task_out,
                            uint32_t *used_out) {
  if (len == 0 || len < raw_reply_size(in[0])) return RAW_MORE;
  *used_out = raw_reply_size(in[0]);
  *task_out = raw_task(in);
  return in[0] == 'A' ? RAW_IS_GRANTED : RAW_IS_RELEASED;
}

const struct raw_dialect raw_dialect_plain = {"plain", greet, acquire, release, parse};
