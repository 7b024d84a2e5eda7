#include "net/clock.h"

#include <errno.h>
#include <sys/random.h>

bool tkt_entropy(void *out, size_t len) {
  uint8_t *at = out;
  while (len > 0) {
    ssize_t n = getrandom(at, len, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    len -= (size_t)n;
  }
  return true;
}
