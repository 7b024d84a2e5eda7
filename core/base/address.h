/* Server addresses as people write them (rule A6): `host:port`, `1.2.3.4:port`, `[v6]:port`. */
#ifndef TKT_BASE_ADDRESS_H
#define TKT_BASE_ADDRESS_H

#include "base/bytes.h"

/* A DNS name has at most 253 characters; room for a NUL. */
enum { TKT_HOST_SIZE = 256, TKT_ADDRESS_TEXT_MAX = 262 };

enum tkt_address_fault {
  TKT_ADDRESS_OK = 0,
  TKT_ADDRESS_NO_PORT,  /* nothing behind a last colon, or no colon */
  TKT_ADDRESS_BAD_PORT, /* not a decimal number in 1..65535 (0..65535 where zero is allowed) */
  TKT_ADDRESS_BAD_HOST, /* empty, too long, unbalanced brackets, a bare v6 address, odd characters
                         */
};

struct tkt_address {
  char host[TKT_HOST_SIZE]; /* without brackets, NUL-terminated */
  uint16_t port;
  bool v6_literal; /* was written in brackets */
};

/* Splits `text`. `allow_zero` admits port 0 (a listener that takes any free port). */
enum tkt_address_fault tkt_address_parse(struct tkt_span text, bool allow_zero,
                                         struct tkt_address *out);

/* What is wrong and what is allowed, as a sentence without the value; "" for OK. */
const char *tkt_address_fault_text(enum tkt_address_fault fault);

#endif
