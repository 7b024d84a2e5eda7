/* The context as tls_context.c and tls_stream.c share it; nobody else includes this. */
#ifndef TKT_NET_TLS_CONTEXT_H
#define TKT_NET_TLS_CONTEXT_H

#include "net/tls.h"

#include <openssl/ssl.h>
#include <stdatomic.h>

struct tkt_tls {
  _Atomic unsigned refs;
  SSL_CTX *context;
  BIO_METHOD *method; /* of the BIO over a plain stream */
  bool verify;        /* check the server's certificate and name */
};

/* Makes the method; its BIOs carry the wrapped stream's record as data. NULL: out of memory. */
BIO_METHOD *tkt_tls_bio_method(void);

#endif
