#include "net/tls_context.h"

#include "net/crypto_exit.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What OpenSSL says about the last failure, as static text: the innermost cause it names. */
static const char *fault_text(void) {
  const char *text = NULL;
  unsigned long error;
  while ((error = ERR_get_error())) {
    int library = ERR_GET_LIB(error), reason = ERR_GET_REASON(error);
    if (library == ERR_LIB_PEM && reason == PEM_R_NO_START_LINE)
      return "it holds no PEM block of the kind needed";
    if (library == ERR_LIB_X509 && reason == X509_R_NO_CERTIFICATE_OR_CRL_FOUND)
      return "it holds no certificate in PEM form";
    if (library == ERR_LIB_X509 && reason == X509_R_KEY_VALUES_MISMATCH)
      return "the key does not belong to the certificate";
    if (!text && !ERR_COMMON_ERROR(error)) text = ERR_reason_error_string(error);
  }
  return text ? text : "it is damaged, or of a kind OpenSSL does not read";
}

static void explain(char *why, const char *what, const char *file, const char *fault) {
  snprintf(why, TKT_TLS_WHY_SIZE, "%s '%.200s': %s", what, file, fault);
  ERR_clear_error();
}

/* OpenSSL's words for a file that cannot be read differ by version: the system is asked first. A
 * pipe is refused too, since reading it again would wait for ever. */
static bool readable(const char *what, const char *file, char *why) {
  struct stat st;
  const char *fault = NULL;
  if (stat(file, &st) != 0 || access(file, R_OK) != 0)
    fault = errno == ENOENT    ? "no such file"
            : errno == EACCES  ? "permission denied"
            : errno == ENOTDIR ? "a part of the path is no directory"
                               : "it cannot be read";
  else if (S_ISDIR(st.st_mode))
    fault = "it is a directory; a PEM file is needed";
  else if (!S_ISREG(st.st_mode))
    fault = "it is no regular file";
  else if (st.st_size == 0)
    fault = "it is empty";
  if (!fault) return true;
  explain(why, what, file, fault);
  return false;
}

/* Without it OpenSSL would ask for the passphrase on the terminal. */
static int no_passphrase(char *into, int size, int writing, void *user) {
  (void)into;
  (void)size;
  (void)writing;
  if (user) *(bool *)user = true;
  return -1;
}

static struct tkt_tls *begin(const SSL_METHOD *method, char *why) {
  struct tkt_tls *tls = calloc(1, sizeof *tls);
  if (tls) {
    atomic_init(&tls->refs, 1);
    tls->method = tkt_tls_bio_method();
    tls->context = SSL_CTX_new(method);
  }
  if (!tls || !tls->method || !tls->context) {
    tkt_tls_free(tls);
    snprintf(why, TKT_TLS_WHY_SIZE, "TLS cannot be used: out of memory, or OpenSSL does not start");
    return NULL;
  }
  SSL_CTX *c = tls->context;
  SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
  /* An end without close_notify is an end: our frames carry their own lengths, and a cut reply is
   * no reply either way. */
  SSL_CTX_set_options(c, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                             SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(c, 1);
  return tls;
}

struct tkt_tls *tkt_tls_client(enum tkt_tls_trust trust, const char *ca_file, char *why) {
  tkt_crypto_outlives_exit(); /* before anything else of OpenSSL: that would decide it */
  ERR_clear_error();
  why[0] = '\0';
  if (trust == TKT_TLS_CA_FILE && !readable("CA file", ca_file, why)) return NULL;
  struct tkt_tls *tls = begin(TLS_client_method(), why);
  if (!tls) return NULL;
  if (trust == TKT_TLS_CA_FILE && SSL_CTX_load_verify_file(tls->context, ca_file) != 1) {
    explain(why, "CA file", ca_file, fault_text());
    tkt_tls_free(tls);
    return NULL;
  }
  if (trust == TKT_TLS_SYSTEM_ROOTS && SSL_CTX_set_default_verify_paths(tls->context) != 1) {
    snprintf(why, TKT_TLS_WHY_SIZE, "the machine's trusted roots cannot be read: %s", fault_text());
    tkt_tls_free(tls);
    return NULL;
  }
  /* Whatever certificate the file holds is trusted, an intermediate or the server's own too. */
  if (trust == TKT_TLS_CA_FILE)
    X509_STORE_set_flags(SSL_CTX_get_cert_store(tls->context), X509_V_FLAG_PARTIAL_CHAIN);
  tls->verify = trust != TKT_TLS_SKIP_VERIFY;
  SSL_CTX_set_verify(tls->context, tls->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
  return tls;
}

struct tkt_tls *tkt_tls_server(const char *chain_file, const char *key_file, char *why) {
  tkt_crypto_outlives_exit(); /* before anything else of OpenSSL: that would decide it */
  ERR_clear_error();
  why[0] = '\0';
  if (!readable("certificate file", chain_file, why) || !readable("key file", key_file, why))
    return NULL;
  struct tkt_tls *tls = begin(TLS_server_method(), why);
  if (!tls) return NULL;
  /* Idle sessions, of which a server has thousands and a client a few, keep no buffers. */
  SSL_CTX_set_mode(tls->context, SSL_MODE_RELEASE_BUFFERS);
  /* Tickets would be a second write after each handshake, for resumptions nobody asks for. */
  SSL_CTX_set_num_tickets(tls->context, 0);
  SSL_CTX_set_options(tls->context, SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
  bool asked = false;
  SSL_CTX_set_default_passwd_cb(tls->context, no_passphrase);
  SSL_CTX_set_default_passwd_cb_userdata(tls->context, &asked);
  bool chain = SSL_CTX_use_certificate_chain_file(tls->context, chain_file) == 1;
  bool key = chain && SSL_CTX_use_PrivateKey_file(tls->context, key_file, SSL_FILETYPE_PEM) == 1 &&
             SSL_CTX_check_private_key(tls->context) == 1;
  SSL_CTX_set_default_passwd_cb_userdata(tls->context, NULL);
  if (key) return tls;
  if (!chain)
    explain(why, "certificate file", chain_file, fault_text());
  else
    explain(why, "key file", key_file,
            asked ? "the key is locked by a passphrase; write it without one (openssl pkey -in "
                    "KEY -out NEW)"
                  : fault_text());
  tkt_tls_free(tls);
  return NULL;
}

const char *tkt_tls_doubt(const struct tkt_tls *tls) {
  const X509 *own = SSL_CTX_get0_certificate(tls->context);
  if (!own) return NULL;
  if (X509_cmp_current_time(X509_get0_notAfter(own)) < 0)
    return "the certificate has expired: clients will refuse it";
  if (X509_cmp_current_time(X509_get0_notBefore(own)) > 0)
    return "the certificate is not valid yet: clients will refuse it";
  return NULL;
}

void tkt_tls_ref(struct tkt_tls *tls) {
  atomic_fetch_add_explicit(&tls->refs, 1, memory_order_relaxed);
}

void tkt_tls_free(struct tkt_tls *tls) {
  if (!tls || atomic_fetch_sub_explicit(&tls->refs, 1, memory_order_acq_rel) != 1) return;
  SSL_CTX_free(tls->context);
  BIO_meth_free(tls->method);
  free(tls);
}
