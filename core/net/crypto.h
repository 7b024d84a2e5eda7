/* How this library lives with OpenSSL's process-wide state. */
#ifndef TKT_NET_CRYPTO_H
#define TKT_NET_CRYPTO_H

#include <stdbool.h>

/* Before anything else of OpenSSL is used: keeps it from tearing itself down at exit, where an I/O
 * thread may still be in the middle of a handshake. Without effect where the host program brought
 * OpenSSL up before. False: OpenSSL cannot be used at all. Any thread, any number of times. */
bool tkt_crypto_begin(void);

#endif
