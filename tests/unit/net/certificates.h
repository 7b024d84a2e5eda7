/* Certificates made on the spot, good and bad ones, and a folder to write them to. */
#ifndef TESTS_UNIT_NET_CERTIFICATES_H
#define TESTS_UNIT_NET_CERTIFICATES_H

#include <assert.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__GNUC__)
#define MAYBE_UNUSED __attribute__((unused))
#else
#define MAYBE_UNUSED
#endif

enum { DAY_S = 86400, PATH_ROOM = 256 };

struct identity {
  X509 *certificate;
  EVP_PKEY *key;
};

/* What a certificate says; zeroed fields say nothing, or the usual. */
struct claim {
  const char *common_name; /* "test" */
  const char *names;       /* subjectAltName */
  const char *usage;       /* extendedKeyUsage */
  bool authority;
  long from_s, until_s; /* relative to now: an hour ago, a day ahead */
};

static MAYBE_UNUSED void extend(X509 *certificate, X509 *issuer, int kind, const char *value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
  X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
  assert(extension);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

/* `issuer` NULL: self-signed. */
static MAYBE_UNUSED struct identity issue(const struct identity *issuer, struct claim claim) {
  static long serial = 1;
  struct identity made = {X509_new(), EVP_EC_gen("P-256")};
  X509 *c = made.certificate;
  X509 *signer = issuer ? issuer->certificate : c;
  assert(c && made.key);
  X509_set_version(c, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(c), serial++);
  X509_gmtime_adj(X509_getm_notBefore(c), claim.from_s ? claim.from_s : -3600);
  X509_gmtime_adj(X509_getm_notAfter(c), claim.until_s ? claim.until_s : DAY_S);
  const char *name = claim.common_name ? claim.common_name : "test";
  X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_UTF8,
                             (const unsigned char *)name, -1, -1, 0);
  X509_set_issuer_name(c, X509_get_subject_name(signer));
  X509_set_pubkey(c, made.key);
  extend(c, signer, NID_basic_constraints, claim.authority ? "critical,CA:TRUE" : "CA:FALSE");
  if (claim.names) extend(c, signer, NID_subject_alt_name, claim.names);
  if (claim.usage) extend(c, signer, NID_ext_key_usage, claim.usage);
  int signed_len = X509_sign(c, issuer ? issuer->key : made.key, EVP_sha256());
  assert(signed_len > 0);
  (void)signed_len;
  return made;
}

static MAYBE_UNUSED void drop(struct identity *identity) {
  X509_free(identity->certificate);
  EVP_PKEY_free(identity->key);
  *identity = (struct identity){0};
}

/* --- files --------------------------------------------------------------------------------------
 */

struct folder {
  char path[64];
};

static MAYBE_UNUSED struct folder folder_make(void) {
  struct folder folder = {"/tmp/ticketing-tls-XXXXXX"};
  char *made = mkdtemp(folder.path);
  assert(made);
  (void)made;
  return folder;
}

static MAYBE_UNUSED void folder_remove(const struct folder *folder) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder->path);
  int rc = system(command);
  assert(rc == 0);
  (void)rc;
}

static MAYBE_UNUSED const char *path_in(const struct folder *folder, const char *name, char *out) {
  snprintf(out, PATH_ROOM, "%s/%s", folder->path, name);
  return out;
}

static MAYBE_UNUSED void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert(file);
  fputs(text, file);
  fclose(file);
}

/* The leaf first; NULL ends. */
static MAYBE_UNUSED void write_chain(const char *path, const struct identity *first,
                                     const struct identity *second) {
  FILE *file = fopen(path, "w");
  assert(file);
  PEM_write_X509(file, first->certificate);
  if (second) PEM_write_X509(file, second->certificate);
  fclose(file);
}

static MAYBE_UNUSED void write_key(const char *path, const struct identity *identity,
                                   const char *passphrase) {
  FILE *file = fopen(path, "w");
  assert(file);
  PEM_write_PrivateKey(file, identity->key, passphrase ? EVP_aes_256_cbc() : NULL,
                       (const unsigned char *)passphrase, passphrase ? (int)strlen(passphrase) : 0,
                       NULL, NULL);
  fclose(file);
}

#endif
