/* The line that tells whoever started the server that it serves, and where:
 *
 *   {"listeners":[{"address":"127.0.0.1:40123","wire":2,"tls":false}],"pid":123} */
#ifndef TKT_DAEMON_READY_H
#define TKT_DAEMON_READY_H

#include "daemon/loop.h"

/* Writes the line to `fd` and closes it, except descriptors 0 to 2. 0 or -errno. */
int tkt_ready_write(int fd, const struct tkt_loop *loop);

#endif
