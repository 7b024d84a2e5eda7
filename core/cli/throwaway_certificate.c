#include "cli/throwaway_certificate.h"

#include "cli/values.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Room for a clock that is a little off, and for the longest run. */
enum { VALID_FROM_S = -3600, VALID_UNTIL_S = 86400 };

static bool extend(X509 *certificate, X509V3_CTX *context, int kind, const char *value) {
  X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, context, kind, value);
  bool ok = extension && X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return ok;
}

static bool fill(X509 *c, EVP_PKEY *key) {
  X509V3_CTX context;
  X509_NAME *name = X509_get_subject_name(c);
  X509V3_set_ctx(&context, c, c, NULL, NULL, 0);
  return X509_set_version(c, X509_VERSION_3) == 1 &&
         ASN1_INTEGER_set(X509_get_serialNumber(c), 1) == 1 &&
         X509_gmtime_adj(X509_getm_notBefore(c), VALID_FROM_S) &&
         X509_gmtime_adj(X509_getm_notAfter(c), VALID_UNTIL_S) &&
         X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                    (const unsigned char *)"ticketing throwaway", -1, -1, 0) == 1 &&
         X509_set_issuer_name(c, name) == 1 && X509_set_pubkey(c, key) == 1 &&
         extend(c, &context, NID_basic_constraints, "critical,CA:TRUE") &&
         extend(c, &context, NID_subject_alt_name, "IP:127.0.0.1,IP:::1,DNS:localhost") &&
         X509_sign(c, key, EVP_sha256()) > 0;
}

/* A new file that only we can read; NULL with errno. */
static FILE *create(const char *path) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (fd >= 0 && !file) close(fd);
  return file;
}

static bool write_files(const struct tkt_throwaway *paths, X509 *certificate, EVP_PKEY *key) {
  FILE *file = create(paths->certificate);
  bool ok = file && PEM_write_X509(file, certificate) == 1;
  if (file && fclose(file) != 0) ok = false;
  file = ok ? create(paths->key) : NULL;
  ok = file && PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1;
  if (file && fclose(file) != 0) ok = false;
  return ok;
}

bool tkt_throwaway_make(struct tkt_throwaway *throwaway, const char *folder, char *why) {
  snprintf(throwaway->certificate, sizeof throwaway->certificate, "%s/server.pem", folder);
  snprintf(throwaway->key, sizeof throwaway->key, "%s/server.key", folder);
  /* First use of OpenSSL in this process: as the library does, no handler at exit, which would run
   * beside the broker's thread. */
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
  EVP_PKEY *key = EVP_EC_gen("P-256");
  X509 *certificate = X509_new();
  bool made = key && certificate && fill(certificate, key);
  bool written = made && write_files(throwaway, certificate, key);
  if (!made)
    snprintf(why, TKT_VALUE_WHY_SIZE, "cannot make a certificate: OpenSSL refuses");
  else if (!written)
    snprintf(why, TKT_VALUE_WHY_SIZE, "cannot write a certificate into %.300s: %s", folder,
             strerror(errno));
  X509_free(certificate);
  EVP_PKEY_free(key);
  return written;
}
