/* A TLS stream: OpenSSL between the driver and a plain stream, non-blocking throughout. */
#include "base/address.h"
#include "net/poller.h"
#include "net/tls_context.h"
#include "net/tls_fault.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  /* OpenSSL's read buffer holds less than this, so one read from the socket never brings more. */
  RECORD_ROOM = 20480,
  /* Most bytes taken from the socket in one read: a peer that sends without end what makes no bytes
   * for us (new keys, empty records) keeps nobody else waiting. */
  SOCKET_BYTES_PER_READ = 128 * 1024,
};

struct tls_stream {
  struct tkt_stream stream;
  struct tkt_stream *plain;
  struct tkt_tls *tls;
  SSL *ssl;
  bool connected;   /* the plain stream is */
  bool established; /* the handshake is done */
  bool ended;       /* the plain stream is: with or without a goodbye */
  bool may_read;    /* the BIO may read from the socket now */
  size_t may_take;  /* and so much at most */
  bool shut;        /* our goodbye left */
  int last_word;    /* EOF or BROKEN found behind bytes that were handed out first */
};

static struct tls_stream *tls_of(struct tkt_stream *stream) {
  return (struct tls_stream *)(void *)stream;
}

/* --- the BIO over the plain stream --- */

static int bio_read(BIO *bio, char *into, int room) {
  struct tls_stream *s = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  if (s->may_read && s->may_take > 0) {
    ssize_t n = s->plain->ops->read(s->plain, (uint8_t *)into, (size_t)room);
    if (n > 0) {
      s->may_take -= (size_t)n < s->may_take ? (size_t)n : s->may_take;
      return (int)n;
    }
    s->ended = n == TKT_STREAM_EOF;
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
  if (command == BIO_CTRL_EOF) return s->ended;
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

/* --- operations --- */

static int broken(struct tls_stream *s, const char *reason) {
  s->stream.reason = reason;
  ERR_clear_error();
  return TKT_STREAM_BROKEN;
}

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
  s->may_take = SOCKET_BYTES_PER_READ;
  int rc = SSL_do_handshake(s->ssl);
  if (rc == 1) {
    s->established = true;
    stream->unread = SSL_has_pending(s->ssl) == 1; /* came in one piece with the handshake's end */
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
    return broken(s, tkt_tls_handshake_fault(s->ssl, s->plain->reason));
  }
}

/* Why SSL_read gave nothing. */
static int no_bytes(struct tls_stream *s, int rc) {
  switch (SSL_get_error(s->ssl, rc)) {
  case SSL_ERROR_WANT_READ:
    return TKT_STREAM_AGAIN;
  case SSL_ERROR_ZERO_RETURN:
    return TKT_STREAM_EOF;
  case SSL_ERROR_WANT_WRITE:
    /* It asked for new keys and takes no answer. Waiting for room would need a poller that is told
     * so; peers that read at all never come here. */
    return broken(s, "TLS: the peer asks for new keys and reads nothing");
  default:
    return broken(s, tkt_tls_session_fault(s->plain->reason));
  }
}

/* Reads on until the room or the bytes end: records are small, and what stays inside OpenSSL is
 * seen by no poller. */
static ssize_t tls_read(struct tkt_stream *stream, uint8_t *into, size_t room) {
  struct tls_stream *s = tls_of(stream);
  stream->unread = false;
  if (s->last_word) return s->last_word;
  s->may_take = SOCKET_BYTES_PER_READ;
  ERR_clear_error();
  size_t got = 0;
  while (got < room) {
    s->may_read = room - got >= RECORD_ROOM || got == 0;
    size_t n = 0;
    int rc = SSL_read_ex(s->ssl, into + got, room - got, &n);
    if (rc == 1) {
      got += n;
      continue;
    }
    int why = no_bytes(s, rc);
    if (why != TKT_STREAM_AGAIN) s->last_word = why;
    if (got == 0) return why;
    stream->unread = why != TKT_STREAM_AGAIN;
    return (ssize_t)got;
  }
  stream->unread = SSL_has_pending(s->ssl) == 1;
  return (ssize_t)got;
}

/* May be called anew with the same bytes and more behind them, at another place in memory. */
static ssize_t tls_write(struct tkt_stream *stream, const uint8_t *from, size_t len) {
  struct tls_stream *s = tls_of(stream);
  ERR_clear_error();
  size_t n = 0;
  int rc = SSL_write_ex(s->ssl, from, len, &n);
  if (rc == 1) return (ssize_t)n;
  if (SSL_get_error(s->ssl, rc) == SSL_ERROR_WANT_WRITE) return TKT_STREAM_AGAIN;
  return broken(s, s->plain->reason ? s->plain->reason : "TLS: writing failed");
}

/* The half-close of TLS is close_notify: the peer reads an end, and can still answer. OpenSSL sends
 * it once; a further SSL_shutdown would read the peer's, and swallow replies. */
static bool tls_shut_write(struct tkt_stream *stream) {
  struct tls_stream *s = tls_of(stream);
  if (!s->established || s->shut || stream->reason) return true;
  ERR_clear_error();
  int rc = SSL_shutdown(s->ssl);
  s->shut = rc >= 0 || SSL_get_error(s->ssl, rc) != SSL_ERROR_WANT_WRITE;
  ERR_clear_error();
  return s->shut;
}

static void tls_destroy(struct tkt_stream *stream) {
  struct tls_stream *s = tls_of(stream);
  s->plain->replaced_fd = stream->replaced_fd;
  SSL_free(s->ssl);
  ERR_clear_error();
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
  char name[TKT_HOST_SIZE];
  int len = snprintf(name, sizeof name, "%s", host);
  /* A final dot says that a name is whole; neither SNI nor certificates know it. */
  if (len > 1 && name[len - 1] == '.') name[len - 1] = '\0';
  if (!literal && SSL_set_tlsext_host_name(s->ssl, name) != 1) return false;
  if (!s->tls->verify) return true;
  X509_VERIFY_PARAM *checks = SSL_get0_param(s->ssl);
  /* Names stand in subjectAltName; the subject is for people (RFC 9525). */
  X509_VERIFY_PARAM_set_hostflags(checks, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                              X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  return literal ? X509_VERIFY_PARAM_set1_ip_asc(checks, bare) == 1
                 : X509_VERIFY_PARAM_set1_host(checks, name, 0) == 1;
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
