/* What `--listen HOST:PORT[,OPTION...]` says. */
#ifndef TKT_DAEMON_LISTEN_SPEC_H
#define TKT_DAEMON_LISTEN_SPEC_H

#include "base/address.h"
#include "wire/wire.h"

#include <stdbool.h>

struct tkt_listen_spec {
  struct tkt_address address; /* port 0: any free one */
  const struct tkt_wire *wire;
  bool tls; /* from the first byte */
};

/* False: `why` (TKT_DAEMON_WHY_SIZE bytes) says what is wrong with `text` and what may stand there.
 */
bool tkt_listen_spec_parse(const char *text, struct tkt_listen_spec *out, char *why);

/* True where only this machine can reach it: localhost, 127.0.0.0/8, ::1. */
bool tkt_listen_spec_loopback(const struct tkt_listen_spec *spec);

/* "host:port" with `port` instead of the spec's own; TKT_ADDRESS_TEXT_MAX + 1 bytes. */
void tkt_listen_spec_text(const struct tkt_listen_spec *spec, uint16_t port, char *out);

#endif
