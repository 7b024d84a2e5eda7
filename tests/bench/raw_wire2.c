/* The line protocol, with as little care as the raw exchange takes: no leases, no deadlines, no
 * matching beyond what tells tasks apart. */
#include "raw_dialect.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_S = 20, LEASE_S = 120, TOKENS = 1 << 16, GREETING_MAX = 256, PROOF = 43 };

/* A task's token, and back: far fewer grants are alive than there are places. */
static uint64_t token_of[RAW_TASKS_MAX];
static uint32_t task_of[TOKENS];
static uint64_t owners;

static void store(uint8_t *out, uint64_t value, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i++)
    out[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

static uint64_t load64(const uint8_t *in) {
  uint64_t value;
  memcpy(&value, in, sizeof value);
  return __builtin_bswap64(value);
}

static uint32_t write_key(uint8_t *out, uint32_t key) {
  memcpy(out, "cycle-", 6);
  for (int i = RAW_KEY - 1; i >= 6; i--, key /= 10)
    out[i] = (uint8_t)('0' + key % 10);
  out[RAW_KEY] = '\n';
  return RAW_KEY + 1;
}

/* Any well-formed proof passes a server without client tokens. */
static int greet(int fd) {
  char line[GREETING_MAX];
  for (uint32_t have = 0;; have++) {
    if (have == sizeof line || read(fd, line + have, 1) != 1) return -1;
    if (line[have] == '\n') break;
  }
  char proof[PROOF + 1];
  memset(proof, 'A', PROOF);
  proof[PROOF] = '\n';
  return send(fd, proof, sizeof proof, MSG_NOSIGNAL) == (ssize_t)sizeof proof ? 0 : -1;
}

static uint32_t acquire(uint8_t *out, uint32_t task, uint32_t key) {
  out[0] = 'A';
  store(out + 1, WAIT_S, 2);
  store(out + 3, LEASE_S, 2);
  store(out + 5, ++owners << 16 | task, 8);
  return 13 + write_key(out + 13, key);
}

static uint32_t release(uint8_t *out, uint32_t task, uint32_t key) {
  out[0] = 'R';
  store(out + 1, token_of[task], 8);
  return 9 + write_key(out + 9, key);
}

static enum raw_reply parse(const uint8_t *in, uint32_t len, uint32_t *task_out,
                            uint32_t *used_out) {
  if (len == 0) return RAW_MORE;
  if (in[0] == '\n') {
    *used_out = 1;
    return RAW_IS_NOTHING;
  }
  if (in[0] != 'A' && in[0] != 'R') {
    fprintf(stderr, "raw_client: the server said %.*s\n", (int)len, (const char *)in);
    return RAW_IS_WRONG;
  }
  if (len < raw_reply_size(in[0])) return RAW_MORE;
  *used_out = raw_reply_size(in[0]);
  uint64_t token = load64(in + 1);
  if (in[0] == 'A') {
    *task_out = (uint32_t)(load64(in + 9) & 0xffff);
    token_of[*task_out % RAW_TASKS_MAX] = token;
    task_of[token % TOKENS] = *task_out;
    return RAW_IS_GRANTED;
  }
  *task_out = task_of[token % TOKENS];
  return RAW_IS_RELEASED;
}

const struct raw_dialect raw_dialect_wire2 = {"wire2", greet, acquire, release, parse};
