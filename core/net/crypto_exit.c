#include "net/crypto_exit.h"

#include <openssl/crypto.h>

void tkt_crypto_outlives_exit(void) {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}
