#include "net/crypto.h"

#include <openssl/ssl.h>

bool tkt_crypto_begin(void) {
  return OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) == 1;
}
