/* Every way a server's certificate can be right or wrong (rule T1), and what the client says. */
#include "unit/net/tls_pair.h"

/* How a client that trusts `w` fares with the server's certificate: NULL where it is content, else
 * its reason. The server must learn of a refusal. */
static const char *verdict_of(const struct world *w, const char *host) {
  static char reason[256];
  int fds[2], server;
  socket_pair(fds);
  struct ends e = ends_of(w, host, fds[0], fds[1]);
  int client = shake_hands(&e, &server);
  assert_int_not_equal(client, TKT_STREAM_AGAIN);
  snprintf(reason, sizeof reason, "%s", e.client->reason ? e.client->reason : "");
  if (client == 0) {
    must_write(e.client, "hello");
    must_read(e.server, "hello");
  } else {
    /* TLS 1.3 tells the server of the refusal after its handshake is done. */
    if (server == 0) assert_int_equal(try_read(e.server), TKT_STREAM_BROKEN);
    assert_ptr_equal(strstr(e.server->reason, "TLS: the peer "), e.server->reason);
    /* A client that refused sends nothing more, whatever it is told. */
    assert_true(e.client->ops->write(e.client, (const uint8_t *)"x", 1) < 0);
  }
  ends_drop(&e);
  return client == 0 ? NULL : reason;
}

struct sample {
  const char *host;
  struct claim claim;
  const char *reason; /* part of it; NULL: content */
};

static void check(const struct sample *samples, size_t count) {
  for (size_t i = 0; i < count; i++) {
    struct world w = world_make(samples[i].claim);
    const char *reason = verdict_of(&w, samples[i].host);
    if (!reason != !samples[i].reason || (reason && !strstr(reason, samples[i].reason)))
      fail_msg("%s with %s: %s", samples[i].host, samples[i].claim.names,
               reason ? reason : "content");
    world_end(&w);
  }
}

#define CHECK(samples) check(samples, sizeof samples / sizeof *samples)

static void t1_names_are_checked(void **state) {
  (void)state;
  static const struct sample samples[] = {
      {"locks.example", {.names = "DNS:locks.example"}, NULL},
      {"LOCKS.Example", {.names = "DNS:locks.example"}, NULL},
      {"locks.example.", {.names = "DNS:locks.example"}, NULL},
      {"locks.example", {.names = "DNS:other.example,DNS:locks.example"}, NULL},
      {"a.locks.example", {.names = "DNS:*.locks.example"}, NULL},
      {"localhost", {.names = "DNS:localhost"}, NULL},
      {"locks.example", {.names = "DNS:other.example"}, "another host name"},
      {"locks.example", {.names = "DNS:*.locks.example"}, "another host name"},
      {"a.b.locks.example", {.names = "DNS:*.locks.example"}, "another host name"},
      {"ab.locks.example", {.names = "DNS:a*.locks.example"}, "another host name"},
      {"locks.example", {.names = "DNS:locks.example.evil.example"}, "another host name"},
      {"locks.example", {.names = "IP:127.0.0.1"}, "another host name"},
      {"locks.example", {.names = "email:root@locks.example"}, "another host name"},
      {"locks.example", {.names = NULL}, "another host name"},
      /* The subject is for people. */
      {"locks.example", {.common_name = "locks.example"}, "another host name"},
      {"locks.example",
       {.common_name = "locks.example", .names = "DNS:other.example"},
       "another host name"},
  };
  CHECK(samples);
}

static void t1_addresses_are_checked(void **state) {
  (void)state;
  static const struct sample samples[] = {
      {"127.0.0.1", {.names = "IP:127.0.0.1"}, NULL},
      {"::1", {.names = "IP:::1"}, NULL},
      {"0:0:0:0:0:0:0:1", {.names = "IP:::1"}, NULL},
      {"fe80::1%lo", {.names = "IP:fe80::1"}, NULL},
      {"127.0.0.1", {.names = "IP:127.0.0.2"}, "does not name this IP address"},
      {"::1", {.names = "IP:127.0.0.1"}, "does not name this IP address"},
      {"127.0.0.1", {.names = "DNS:127.0.0.1"}, "does not name this IP address"},
      {"127.0.0.1", {.common_name = "127.0.0.1"}, "does not name this IP address"},
      {"127.0.0.1", {.names = "DNS:localhost"}, "does not name this IP address"},
  };
  CHECK(samples);
}

static void t1_times_and_purposes_are_checked(void **state) {
  (void)state;
  static const struct sample samples[] = {
      {"a", {.names = "DNS:a", .from_s = -2 * DAY_S, .until_s = -DAY_S}, "has expired"},
      {"a", {.names = "DNS:a", .from_s = DAY_S, .until_s = 2 * DAY_S}, "not valid yet"},
      {"a", {.names = "DNS:a", .usage = "clientAuth"}, "not meant for servers"},
      {"a", {.names = "DNS:a", .usage = "codeSigning"}, "not meant for servers"},
      {"a", {.names = "DNS:a", .usage = "serverAuth"}, NULL},
      {"a", {.names = "DNS:a", .usage = "serverAuth,clientAuth"}, NULL},
  };
  CHECK(samples);
}

/* Makes the client trust `by` instead. */
static void trust(struct world *w, const struct identity *by) {
  char why[TKT_TLS_WHY_SIZE];
  write_chain(w->ca, by, NULL);
  tkt_tls_free(w->client_tls);
  w->client_tls = must(tkt_tls_client(TKT_TLS_CA_FILE, w->ca, why), why);
}

/* Makes the server show `leaf`, and `above` behind it. */
static void show(struct world *w, const struct identity *leaf, const struct identity *above) {
  char why[TKT_TLS_WHY_SIZE];
  write_chain(w->chain, leaf, above);
  write_key(w->key, leaf, NULL);
  tkt_tls_free(w->server_tls);
  w->server_tls = must(tkt_tls_server(w->chain, w->key, why), why);
}

static void t1_authorities_are_checked(void **state) {
  (void)state;
  static const struct claim leaf = {.names = "DNS:a"};
  struct world w = world_make(leaf);
  struct identity other = issue(NULL, (struct claim){.common_name = "other", .authority = true});
  struct identity twin = issue(NULL, (struct claim){.common_name = "authority", .authority = true});
  struct identity expired = issue(
      NULL, (struct claim){
                .common_name = "old", .authority = true, .from_s = -2 * DAY_S, .until_s = -DAY_S});
  struct identity middle =
      issue(&w.authority, (struct claim){.common_name = "middle", .authority = true});
  struct identity selfmade = issue(NULL, leaf),
                  below_leaf =
                      issue(&w.server, (struct claim){.common_name = "below", .names = "DNS:a"}),
                  of_middle = issue(&middle, leaf), of_expired = issue(&expired, leaf);

  trust(&w, &other);
  assert_non_null(strstr(verdict_of(&w, "a"), "authority that is not trusted"));
  trust(&w, &twin); /* the same name, another key */
  assert_non_null(strstr(verdict_of(&w, "a"), "not signed by the trusted authority"));
  trust(&w, &w.authority);
  assert_null(verdict_of(&w, "a"));

  show(&w, &selfmade, NULL);
  assert_non_null(strstr(verdict_of(&w, "a"), "self-signed"));
  trust(&w, &selfmade); /* now it is one of those trusted */
  assert_null(verdict_of(&w, "a"));
  assert_non_null(strstr(verdict_of(&w, "b"), "another host name"));

  trust(&w, &w.authority);
  show(&w, &of_middle, NULL);
  assert_non_null(strstr(verdict_of(&w, "a"), "chain is incomplete"));
  show(&w, &of_middle, &middle);
  assert_null(verdict_of(&w, "a"));
  trust(&w, &middle); /* an intermediate may be all that is trusted */
  assert_null(verdict_of(&w, "a"));
  trust(&w, &w.authority);
  show(&w, &below_leaf, &w.server); /* signed by one that is no authority */
  assert_non_null(strstr(verdict_of(&w, "a"), "may not sign"));

  trust(&w, &expired);
  show(&w, &of_expired, NULL);
  assert_non_null(strstr(verdict_of(&w, "a"), "has expired"));

  struct identity *all[] = {&other,    &twin,       &expired,   &middle,
                            &selfmade, &below_leaf, &of_middle, &of_expired};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    drop(all[i]);
  world_end(&w);
}

static void t1_system_roots_do_not_trust_a_private_authority(void **state) {
  (void)state;
  struct world w = world_make((struct claim){.names = "DNS:a"});
  char why[TKT_TLS_WHY_SIZE];
  tkt_tls_free(w.client_tls);
  w.client_tls = must(tkt_tls_client(TKT_TLS_SYSTEM_ROOTS, NULL, why), why);
  assert_non_null(strstr(verdict_of(&w, "a"), "authority that is not trusted"));
  /* The machine's own places: here the one the environment names. */
  setenv("SSL_CERT_FILE", w.ca, 1);
  tkt_tls_free(w.client_tls);
  w.client_tls = must(tkt_tls_client(TKT_TLS_SYSTEM_ROOTS, NULL, why), why);
  unsetenv("SSL_CERT_FILE");
  assert_null(verdict_of(&w, "a"));
  assert_non_null(strstr(verdict_of(&w, "b"), "another host name"));
  world_end(&w);
}

static void t1_skipping_takes_whatever_comes(void **state) {
  (void)state;
  static const struct claim claims[] = {
      {.names = "DNS:other"},
      {.from_s = -2 * DAY_S, .until_s = -DAY_S},
      {.usage = "clientAuth"},
  };
  for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
    struct world w = world_make(claims[i]);
    char why[TKT_TLS_WHY_SIZE];
    tkt_tls_free(w.client_tls);
    w.client_tls = must(tkt_tls_client(TKT_TLS_SKIP_VERIFY, NULL, why), why);
    assert_null(verdict_of(&w, "a"));
    assert_null(verdict_of(&w, "127.0.0.1"));
    world_end(&w);
  }
}

/* --- what the server sees of the name --- */

static char seen_name[256];

static int note_name(SSL *ssl, int *alert, void *unused) {
  (void)alert;
  (void)unused;
  const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  snprintf(seen_name, sizeof seen_name, "%s", name ? name : "");
  return SSL_TLSEXT_ERR_OK;
}

static void t1_names_are_sent_and_addresses_are_not(void **state) {
  (void)state;
  static const struct {
    const char *host, *sent;
  } samples[] = {
      {"locks.example", "locks.example"},
      {"locks.example.", "locks.example"},
      {"127.0.0.1", ""},
      {"::1", ""},
      {"fe80::1%lo", ""},
  };
  struct world w =
      world_make((struct claim){.names = "DNS:locks.example,IP:127.0.0.1,IP:::1,IP:fe80::1"});
  SSL_CTX_set_tlsext_servername_callback(w.server_tls->context, note_name);
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
    strcpy(seen_name, "?");
    assert_null(verdict_of(&w, samples[i].host));
    assert_string_equal(seen_name, samples[i].sent);
  }
  world_end(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(t1_names_are_checked),
      cmocka_unit_test(t1_addresses_are_checked),
      cmocka_unit_test(t1_times_and_purposes_are_checked),
      cmocka_unit_test(t1_authorities_are_checked),
      cmocka_unit_test(t1_system_roots_do_not_trust_a_private_authority),
      cmocka_unit_test(t1_skipping_takes_whatever_comes),
      cmocka_unit_test(t1_names_are_sent_and_addresses_are_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
