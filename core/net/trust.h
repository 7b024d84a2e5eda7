/* Whom a client trusts, kept up to date: the context for its next connection.
 *
 * A CA file that is replaced on disk is read again before the next connection; one that cannot be
 * used then leaves the former in force. Connections that are open keep what they were made with. */
#ifndef TKT_NET_TRUST_H
#define TKT_NET_TRUST_H

#include "net/tls.h"

#include <sys/types.h>
#include <time.h>

/* Which state of the file was read. */
struct tkt_trust_mark {
  dev_t device;
  ino_t inode;
  off_t size;
  struct timespec modified, changed;
};

/* Zeroed memory is one that is closed. One thread at a time. */
struct tkt_trust {
  enum tkt_tls_trust mode;
  char *ca_file; /* NULL but for TKT_TLS_CA_FILE */
  struct tkt_tls *tls;
  struct tkt_trust_mark mark;
  uint64_t renewed; /* how often a changed file was taken */
  uint64_t refused; /* how often it could not be used, and the former stayed */
};

/* False with a sentence in `why` (TKT_TLS_WHY_SIZE bytes), nothing open. Reads files. */
bool tkt_trust_open(struct tkt_trust *trust, enum tkt_tls_trust mode, const char *ca_file,
                    char *why);

/* Another one of its own that begins in the same state; reads nothing. False: out of memory. */
bool tkt_trust_copy(struct tkt_trust *trust, const struct tkt_trust *from);

void tkt_trust_close(struct tkt_trust *trust);

/* The context for a connection that begins now; lent until the next call. Looks at the CA file, and
 * reads it where it has changed. */
struct tkt_tls *tkt_trust_now(struct tkt_trust *trust);

#endif
