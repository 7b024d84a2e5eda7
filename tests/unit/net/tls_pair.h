/* Two ends of a TLS connection in one thread, and what it takes to drive them. */
#ifndef TESTS_UNIT_NET_TLS_PAIR_H
#define TESTS_UNIT_NET_TLS_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/tls_context.h"
#include "unit/net/certificates.h"

#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

/* An authority, a server of it, and contexts made from their files. */
struct world {
  struct folder folder;
  struct identity authority, server;
  char ca[PATH_ROOM], chain[PATH_ROOM], key[PATH_ROOM];
  struct tkt_tls *client_tls, *server_tls;
};

static MAYBE_UNUSED struct tkt_tls *must(struct tkt_tls *tls, const char *why) {
  if (!tls) fail_msg("%s", why);
  return tls;
}

static MAYBE_UNUSED struct world world_make(struct claim claim) {
  struct world w = {.folder = folder_make()};
  char why[TKT_TLS_WHY_SIZE] = "";
  w.authority = issue(NULL, (struct claim){.common_name = "authority", .authority = true});
  w.server = issue(&w.authority, claim);
  write_chain(path_in(&w.folder, "ca.pem", w.ca), &w.authority, NULL);
  write_chain(path_in(&w.folder, "chain.pem", w.chain), &w.server, NULL);
  write_key(path_in(&w.folder, "key.pem", w.key), &w.server, NULL);
  w.client_tls = must(tkt_tls_client(TKT_TLS_CA_FILE, w.ca, why), why);
  w.server_tls = must(tkt_tls_server(w.chain, w.key, why), why);
  return w;
}

static MAYBE_UNUSED void world_end(struct world *w) {
  tkt_tls_free(w->client_tls);
  tkt_tls_free(w->server_tls);
  drop(&w->authority);
  drop(&w->server);
  folder_remove(&w->folder);
}

static MAYBE_UNUSED void limit_to(struct tkt_tls *tls, int version) {
  SSL_CTX_set_min_proto_version(tls->context, version);
  SSL_CTX_set_max_proto_version(tls->context, version);
}

struct ends {
  struct tkt_stream *client, *server;
};

static MAYBE_UNUSED void socket_pair(int fds[2]) {
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

static MAYBE_UNUSED struct ends ends_of(const struct world *w, const char *host, int client_fd,
                                        int server_fd) {
  struct ends e;
  e.client = tkt_tls_connect(w->client_tls, tkt_tcp_accepted(client_fd), host);
  e.server = tkt_tls_accept(w->server_tls, tkt_tcp_accepted(server_fd));
  assert_non_null(e.client);
  assert_non_null(e.server);
  return e;
}

static MAYBE_UNUSED void ends_drop(struct ends *e) {
  tkt_stream_destroy(e->client);
  tkt_stream_destroy(e->server);
  *e = (struct ends){0};
}

/* Steps both until neither waits for the other; what the client came to. */
static MAYBE_UNUSED int shake_hands(struct ends *e, int *server_out) {
  int client = TKT_STREAM_AGAIN, server = TKT_STREAM_AGAIN;
  for (int i = 0; i < 20; i++) {
    if (client == TKT_STREAM_AGAIN) client = e->client->ops->establish(e->client);
    if (server == TKT_STREAM_AGAIN) server = e->server->ops->establish(e->server);
  }
  if (server_out) *server_out = server;
  return client;
}

static MAYBE_UNUSED struct ends connected(const struct world *w, const char *host) {
  int fds[2], server;
  socket_pair(fds);
  struct ends e = ends_of(w, host, fds[0], fds[1]);
  int client = shake_hands(&e, &server);
  if (client != 0) fail_msg("client: %s", e.client->reason ? e.client->reason : "waits");
  if (server != 0) fail_msg("server: %s", e.server->reason ? e.server->reason : "waits");
  return e;
}

static MAYBE_UNUSED void must_write(struct tkt_stream *s, const char *text) {
  assert_int_equal(s->ops->write(s, (const uint8_t *)text, strlen(text)), strlen(text));
}

static MAYBE_UNUSED void must_read(struct tkt_stream *s, const char *text) {
  uint8_t in[TKT_TLS_READ_ROOM];
  assert_int_equal(s->ops->read(s, in, sizeof in), strlen(text));
  assert_memory_equal(in, text, strlen(text));
}

static MAYBE_UNUSED ssize_t try_read(struct tkt_stream *s) {
  static uint8_t in[TKT_TLS_READ_ROOM];
  return s->ops->read(s, in, sizeof in);
}

#endif
