/* A TLS stream: OpenSSL between the driver and a plain stream, non-blocking throughout. */
#include "base/address.h"
#include "net/poller.h"
#include "net/tls_context.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* OpenSSL's read buffer holds less than this, so one read from the socket never brings more. */
enum { RECORD_ROOM = 20480 };

struct tls_stream {
  struct tkt_stream stream;
  struct tkt_stream *plain;
  struct tkt_tls *tls;
  SSL *ssl;
  bool connected;   /* the plain stream is */
  bool established; /* the handshake is done */
  bool may_read;    /* the BIO may read from the socket now */
  bool shut_wanted; /* close_notify is due and did not leave yet */
};

static struct tls_stream *tls_of(struct tkt_stream *stream) {
  return (struct tls_stream *)(void *)stream;
}

/* --- the BIO over the plain stream --- */

static int bio_read(BIO *bio, char *into, int room) {
  struct tls_stream *s = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  if (s->may_read) {
    ssize_t n = s->plain->ops->read(s->plain, (uint8_t *)into, (size_t)room);
    if (n > 0) return (int)n;
    if (n == TKT_STREAM_EOF) return 0;
    if (n == TKT_STREAM_BROKEN) return -1;
  }
  BIO_set_retry_read(bio);
  return -1;
}

static int bio_write(BIO *bio, const char *from, int len) {
  struct tls_stream *s = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  ssize_t n = s->plain->ops->write(s->plain, (const uint8_t *)from, (size_t)len);
  if (n > 0) return (int)n;
  if (n == TKT_STREAM_AGAIN || n == 0) BIO_set_retry_write(bio);
  return -1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer) {
  const struct tls_stream *s = BIO_get_data(bio);
  (void)number;
  (void)pointer;
  if (command == BIO_CTRL_EOF) return s->stream.reason != NULL;
  return command == BIO_CTRL_FLUSH;
}

BIO_METHOD *tkt_tls_bio_method(void) {
  BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "ticketing stream");
  if (!method) return NULL;
  BIO_meth_set_read(method, bio_read);
  BIO_meth_set_write(method, bio_write);
  BIO_meth_set_ctrl(method, bio_ctrl);
  return method;
}

/* --- why it broke --- */

static const char *certificate_fault(long code) {
  switch (code) {
  case X509_V_ERR_CERT_HAS_EXPIRED:
    return "TLS: the server's certificate has expired";
  case X509_V_ERR_CERT_NOT_YET_VALID:
    return "TLS: the server's certificate is not valid yet (is a clock wrong?)";
  case X509_V_ERR_HOSTNAME_MISMATCH:
    return "TLS: the server's certificate is for another host name";
  case X509_V_ERR_IP_ADDRESS_MISMATCH:
    return "TLS: the server's certificate does not name this IP address";
  case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    return "TLS: the server's certificate is self-signed and not among the trusted ones";
  case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    return "TLS: the server's certificate comes from an authority that is not trusted";
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
  case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    return "TLS: the server's certificate comes from an authority that is not trusted, or its "
           "chain "
           "is incomplete";
  case X509_V_ERR_INVALID_CA:
  case X509_V_ERR_INVALID_NON_CA:
    return "TLS: the server's certificate is signed by one that may not sign";
  case X509_V_ERR_INVALID_PURPOSE:
    return "TLS: the server's certificate is not meant for servers";
  case X509_V_ERR_CERT_REVOKED:
    return "TLS: the server's certificate is revoked";
  case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    return "TLS: the signature of the server's certificate is wrong";
  case X509_V_ERR_EE_KEY_TOO_SMALL:
  case X509_V_ERR_CA_KEY_TOO_SMALL:
  case X509_V_ERR_CA_MD_TOO_WEAK:
    return "TLS: the server's certificate is too weak for this machine's security level";
  default:
    return "TLS: the server's certificate does not hold (openssl verify tells more)";
  }
}

static const char *handshake_fault(const struct tls_stream *s) {
  unsigned long error = ERR_peek_error();
  if (ERR_GET_LIB(error) != ERR_LIB_SSL)
    return s->plain->reason ? s->plain->reason
                            : "TLS: the peer closed the connection during the handshake";
  switch (ERR_GET_REASON(error)) {
  case SSL_R_CERTIFICATE_VERIFY_FAILED:
    return certificate_fault(SSL_get_verify_result(s->ssl));
  case SSL_R_WRONG_VERSION_NUMBER:
  case SSL_R_HTTP_REQUEST:
  case SSL_R_HTTPS_PROXY_REQUEST:
  case SSL_R_PACKET_LENGTH_TOO_LONG:
  case SSL_R_UNEXPECTED_MESSAGE:
  case SSL_R_RECORD_LENGTH_MISMATCH:
    return "TLS: the peer does not speak TLS on this port";
  case SSL_R_UNSUPPORTED_PROTOCOL:
  case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
  case SSL_R_VERSION_TOO_LOW:
    return "TLS: no version in common; 1.2 or newer is needed";
  case SSL_R_NO_SHARED_CIPHER:
  case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    return "TLS: no cipher in common";
  case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
  case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
  case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
  case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    return "TLS: the peer does not accept our certificate";
  case SSL_R_UNEXPECTED_EOF_WHILE_READING:
    return "TLS: the peer closed the connection during the handshake";
  default:
    return "TLS: the handshake failed";
  }
}

static int broken(struct tls_stream *s, const char *reason) {
  s->stream.reason = reason;
  ERR_clear_error();
  return TKT_STREAM_BROKEN;
}

/* --- operations --- */

static int connect_plain(struct tls_stream *s) {
  int rc = s->plain->ops->establish(s->plain);
  s->stream.fd = s->plain->fd;
  s->stream.replaced_fd = s->plain->replaced_fd;
  s->plain->replaced_fd = -1;
  s->stream.interest = s->plain->interest;
  s->stream.reason = s->plain->reason;
  s->connected = rc == 0;
  return rc;
}

static int tls_establish(struct tkt_stream *stream) {
  struct tls_stream *s = tls_of(stream);
  if (s->established) return 0;
  if (!s->connected) {
    int rc = connect_plain(s);
    if (rc != 0) return rc;
  }
  ERR_clear_error();
  s->may_read = true;
  int rc = SSL_do_handshake(s->ssl);
  if (rc == 1) {
    s->established = true;
    return 0;
  }
  switch (SSL_get_error(s->ssl, rc)) {
  case SSL_ERROR_WANT_READ:
    stream->interest = TKT_POLL_READ;
    return TKT_STREAM_AGAIN;
  case SSL_ERROR_WANT_WRITE:
    stream->interest = TKT_POLL_WRITE;
    return TKT_STREAM_AGAIN;
  default:
    return broken(s, handshake_fault(s));
  }
}

static void say_goodbye(struct tls_stream *s) {
  ERR_clear_error();
  int rc = SSL_shutdown(s->ssl);
  s->shut_wanted = rc < 0 && SSL_get_error(s->ssl, rc) == SSL_ERROR_WANT_WRITE;
  ERR_clear_error();
}

/* Reads on until the room or the bytes end: records are small, and what stays inside OpenSSL is
 * seen by no poller. */
static ssize_t tls_read(struct tkt_stream *stream, uint8_t *into, size_t room) {
  struct tls_stream *s = tls_of(stream);
  if (s->shut_wanted) say_goodbye(s);
  size_t got = 0;
  while (got < room) {
    s->may_read = room - got >= RECORD_ROOM || got == 0;
    ERR_clear_error();
    size_t n = 0;
    int rc = SSL_read_ex(s->ssl, into + got, room - got, &n);
    if (rc == 1) {
      got += n;
      continue;
    }
    if (got > 0) break; /* an end or a fault comes again with the next read */
    switch (SSL_get_error(s->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return TKT_STREAM_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
      return TKT_STREAM_EOF;
    default:
      return broken(s,
                    s->plain->reason ? s->plain->reason : "TLS: what arrived is no valid record");
    }
  }
  return (ssize_t)got;
}

static ssize_t tls_write(struct tkt_stream *stream, const uint8_t *from, size_t len) {
  struct tls_stream *s = tls_of(stream);
  ERR_clear_error();
  size_t n = 0;
  int rc = SSL_write_ex(s->ssl, from, len, &n);
  if (rc == 1) return (ssize_t)n;
  switch (SSL_get_error(s->ssl, rc)) {
  case SSL_ERROR_WANT_READ:
  case SSL_ERROR_WANT_WRITE:
    return TKT_STREAM_AGAIN;
  default:
    return broken(s, s->plain->reason ? s->plain->reason : "TLS: writing failed");
  }
}

/* The half-close of TLS is close_notify: the peer reads an end, and can still answer. */
static void tls_shut_write(struct tkt_stream *stream) {
  struct tls_stream *s = tls_of(stream);
  if (s->established) say_goodbye(s);
}

static void tls_destroy(struct tkt_stream *stream) {
  struct tls_stream *s = tls_of(stream);
  s->plain->replaced_fd = stream->replaced_fd;
  SSL_free(s->ssl);
  tkt_stream_destroy(s->plain);
  tkt_tls_free(s->tls);
  free(s);
}

static const struct tkt_stream_ops tls_ops = {
    .establish = tls_establish,
    .read = tls_read,
    .write = tls_write,
    .shut_write = tls_shut_write,
    .destroy = tls_destroy,
};

static struct tls_stream *wrap(struct tkt_tls *tls, struct tkt_stream *plain) {
  struct tls_stream *s = calloc(1, sizeof *s);
  SSL *ssl = s ? SSL_new(tls->context) : NULL;
  BIO *bio = ssl ? BIO_new(tls->method) : NULL;
  if (!bio) {
    SSL_free(ssl);
    free(s);
    tkt_stream_destroy(plain);
    return NULL;
  }
  BIO_set_data(bio, s);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl, bio, bio);
  tkt_tls_ref(tls);
  s->stream.ops = &tls_ops;
  s->stream.fd = plain->fd;
  s->stream.replaced_fd = plain->replaced_fd;
  plain->replaced_fd = -1;
  s->stream.interest = plain->interest;
  s->stream.hands_over_whole = true;
  s->plain = plain;
  s->tls = tls;
  s->ssl = ssl;
  return s;
}

/* True where `host` is an IP literal; `bare` (INET6_ADDRSTRLEN bytes) receives it without a zone.
 */
static bool ip_literal(const char *host, char *bare) {
  size_t len = strcspn(host, "%");
  if (len >= INET6_ADDRSTRLEN) return false;
  memcpy(bare, host, len);
  bare[len] = '\0';
  unsigned char binary[16];
  return inet_pton(AF_INET, bare, binary) == 1 || inet_pton(AF_INET6, bare, binary) == 1;
}

static bool expect_host(struct tls_stream *s, const char *host) {
  char bare[INET6_ADDRSTRLEN];
  bool literal = ip_literal(host, bare);
  char name[TKT_HOST_SIZE]; /* OpenSSL's macro takes a pointer to what it will not change */
  snprintf(name, sizeof name, "%s", host);
  if (!literal && SSL_set_tlsext_host_name(s->ssl, name) != 1) return false;
  if (!s->tls->verify) return true;
  X509_VERIFY_PARAM *checks = SSL_get0_param(s->ssl);
  X509_VERIFY_PARAM_set_hostflags(checks, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return literal ? X509_VERIFY_PARAM_set1_ip_asc(checks, bare) == 1
                 : X509_VERIFY_PARAM_set1_host(checks, host, 0) == 1;
}

struct tkt_stream *tkt_tls_connect(struct tkt_tls *tls, struct tkt_stream *plain,
                                   const char *host) {
  struct tls_stream *s = wrap(tls, plain);
  if (!s) return NULL;
  if (!expect_host(s, host)) {
    tls_destroy(&s->stream);
    return NULL;
  }
  SSL_set_connect_state(s->ssl);
  return &s->stream;
}

struct tkt_stream *tkt_tls_accept(struct tkt_tls *tls, struct tkt_stream *plain) {
  struct tls_stream *s = wrap(tls, plain);
  if (!s) return NULL;
  SSL_set_accept_state(s->ssl);
  return &s->stream;
}
