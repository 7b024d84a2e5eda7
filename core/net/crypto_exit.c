#include "net/crypto_exit.h"

#include <openssl/ssl.h>

void tkt_crypto_outlives_exit(void) {
  /* Both halves of OpenSSL: the one that comes up first decides. */
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
}
