/* Frames of the raw exchange: the sizes of the line protocol with the 12-byte keys `ticketing
 * bench` uses, and nothing of its meaning. What a program with no rules at all can do with these
 * bytes is the ceiling that the real client and server are compared with.
 *
 *   byte 0       'A' acquire or granted, 'R' release or released
 *   bytes 1..4   task, in host order
 *   bytes 5..8   key, in host order
 *   the rest     filler up to the size */
#ifndef RAW_FRAMES_H
#define RAW_FRAMES_H

#include <stdint.h>
#include <string.h>

enum {
  RAW_KEY = 12, /* "cycle-000017" */
  RAW_ACQUIRE = 1 + 2 + 2 + 8 + RAW_KEY + 1,
  RAW_RELEASE = 1 + 8 + RAW_KEY + 1,
  RAW_GRANTED = 1 + 8 + 8 + RAW_KEY + 1,
  RAW_RELEASED = 1 + 8 + RAW_KEY + 1,
  RAW_FRAME_MAX = RAW_GRANTED,

  RAW_KEYS_MAX = 1024,
  RAW_TASKS_MAX = 4096,
  RAW_SESSIONS_MAX = 1024,
  /* Every task of a session may have one frame under way in each direction. */
  RAW_BUFFER = RAW_TASKS_MAX * RAW_FRAME_MAX,
};

static inline uint32_t raw_request_size(uint8_t op) {
  return op == 'A' ? RAW_ACQUIRE : RAW_RELEASE;
}
static inline uint32_t raw_reply_size(uint8_t op) {
  return op == 'A' ? RAW_GRANTED : RAW_RELEASED;
}

static inline void raw_write(uint8_t *out, uint32_t size, uint8_t op, uint32_t task, uint32_t key) {
  memset(out, '.', size);
  out[0] = op;
  memcpy(out + 1, &task, sizeof task);
  memcpy(out + 5, &key, sizeof key);
  out[size - 1] = '\n';
}

static inline uint32_t raw_task(const uint8_t *frame) {
  uint32_t task;
  memcpy(&task, frame + 1, sizeof task);
  return task;
}

static inline uint32_t raw_key(const uint8_t *frame) {
  uint32_t key;
  memcpy(&key, frame + 5, sizeof key);
  return key;
}

#endif
