#include "wire/wire.h"

bool tkt_wire_append(const struct tkt_wire *wire, const struct tkt_msg *msg, struct tkt_buf *out,
                     size_t bound) {
  size_t size = wire->encoded_size(msg);
  uint8_t *room = size ? tkt_buf_reserve(out, size, bound) : NULL;
  if (!room) return false;
  wire->encode(msg, room);
  tkt_buf_commit(out, size);
  return true;
}
