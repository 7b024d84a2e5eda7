/* Keeps libcrypto usable while the process exits. */
#ifndef TKT_NET_CRYPTO_EXIT_H
#define TKT_NET_CRYPTO_EXIT_H

/* An I/O thread may be in the middle of a handshake when main returns, and exit waits for nothing;
 * libcrypto's own exit handler would take its tables away under that thread. Asks libcrypto not to
 * install it; where the host has already set libcrypto up, its choice stands. Any thread, any
 * number of times. */
void tkt_crypto_outlives_exit(void);

#endif
