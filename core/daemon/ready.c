#include "daemon/ready.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* Hosts hold letters, digits, dots, colons, percent, minus and underscore: nothing JSON escapes. */
int tkt_ready_write(int fd, const struct tkt_loop *loop) {
  enum { ROOM = 64 + TKT_LISTENERS_MAX * (TKT_ADDRESS_TEXT_MAX + 64) };
  char line[ROOM];
  int len = snprintf(line, ROOM, "{\"listeners\":[");
  for (size_t i = 0; i < loop->listener_count; i++) {
    const struct tkt_listener *listener = &loop->listeners[i];
    char text[TKT_ADDRESS_TEXT_MAX + 1];
    tkt_listen_spec_text(&listener->spec, listener->port, text);
    len += snprintf(line + len, (size_t)(ROOM - len),
                    "%s{\"address\":\"%s\",\"wire\":%u,\"tls\":%s}", i ? "," : "", text,
                    listener->spec.wire->version, listener->spec.tls ? "true" : "false");
  }
  len += snprintf(line + len, (size_t)(ROOM - len), "],\"pid\":%ld}\n", (long)getpid());
  int rc = 0;
  for (int written = 0; written < len && rc == 0;) {
    ssize_t n = write(fd, line + written, (size_t)(len - written));
    if (n >= 0) {
      written += (int)n;
    } else if (errno != EINTR) {
      rc = -errno;
    }
  }
  if (fd > STDERR_FILENO) close(fd);
  return rc;
}
