/* What the raw client says on the wire: meaningless frames for the raw server, or the line protocol
 * for a real one, so that a real server can be measured without a real client. */
#ifndef RAW_DIALECT_H
#define RAW_DIALECT_H

#include "raw_frames.h"

enum raw_reply { RAW_MORE, RAW_IS_GRANTED, RAW_IS_RELEASED, RAW_IS_NOTHING, RAW_IS_WRONG };

struct raw_dialect {
  const char *name;
  /* Does what a new connection begins with; blocks. 0, or -1. */
  int (*greet)(int fd);
  /* Writes a request of `task` on `key` and returns its size. A release follows the grant of the
   * same task. */
  uint32_t (*acquire)(uint8_t *out, uint32_t task, uint32_t key);
  uint32_t (*release)(uint8_t *out, uint32_t task, uint32_t key);
  /* Looks at one reply; on anything but MORE and WRONG *used_out is its size, and for the two
   * answers *task_out who they are for. */
  enum raw_reply (*parse)(const uint8_t *in, uint32_t len, uint32_t *task_out, uint32_t *used_out);
};

extern const struct raw_dialect raw_dialect_plain;
extern const struct raw_dialect raw_dialect_wire2;

#endif
