/* What OpenSSL reports, as sentences for people. Static texts, never with anything a peer sent. */
#ifndef TKT_NET_TLS_FAULT_H
#define TKT_NET_TLS_FAULT_H

#include <openssl/ssl.h>

/* Why the handshake just failed; empties OpenSSL's error queue. `below`: what the wrapped stream
 * says about itself, or NULL. */
const char *tkt_tls_handshake_fault(const SSL *ssl, const char *below);

/* Why an established session just failed; the same. */
const char *tkt_tls_session_fault(const char *below);

#endif
