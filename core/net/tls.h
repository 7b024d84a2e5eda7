/* TLS over any stream: a context says whom to trust or who we are, a TLS stream wraps a plain one.
 *
 * TLS 1.2 or newer. Host names and IP addresses are checked against the certificate, names are sent
 * as SNI. OpenSSL reads and writes through a BIO over the wrapped stream, so that no write can
 * raise SIGPIPE. A context is immutable once made and may be used from any thread; the streams keep
 * it alive, so replacing it (new certificates) is making another one. */
#ifndef TKT_NET_TLS_H
#define TKT_NET_TLS_H

#include "net/stream.h"

enum tkt_tls_trust {
  TKT_TLS_SYSTEM_ROOTS, /* what the machine trusts */
  TKT_TLS_CA_FILE,      /* the certificates of one PEM file, nothing else */
  TKT_TLS_SKIP_VERIFY,  /* anything: for tests only */
};

enum {
  TKT_TLS_WHY_SIZE = 384, /* any sentence about a file fits, its path shortened */
  /* A read with at least this much room takes everything the socket and OpenSSL hold, or fills the
   * room but for one record: with less, bytes may stay where no poller sees them. */
  TKT_TLS_READ_ROOM = 65536,
};

struct tkt_tls;

/* Context of a client. `ca_file`: path for TKT_TLS_CA_FILE, else NULL. NULL with a sentence in
 * `why` that names the file and what is wrong with it. Reads files: blocks as files do. */
struct tkt_tls *tkt_tls_client(enum tkt_tls_trust trust, const char *ca_file, char *why);

/* Context of a server with its certificate chain and private key (PEM). As above. */
struct tkt_tls *tkt_tls_server(const char *chain_file, const char *key_file, char *why);

/* What speaks against the server's own certificate now (expired, not valid yet), static text, or
 * NULL. */
const char *tkt_tls_doubt(const struct tkt_tls *tls);

/* One reference more, and one less; NULL is ignored by the latter. */
void tkt_tls_ref(struct tkt_tls *tls);
void tkt_tls_free(struct tkt_tls *tls);

/* Wraps a stream to `host` (a name or an IP literal without brackets); takes `plain` over whatever
 * happens. NULL: out of memory, `plain` is destroyed. */
struct tkt_stream *tkt_tls_connect(struct tkt_tls *tls, struct tkt_stream *plain, const char *host);

/* The same for an accepted connection. */
struct tkt_stream *tkt_tls_accept(struct tkt_tls *tls, struct tkt_stream *plain);

#endif
