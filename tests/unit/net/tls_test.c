/* Bytes over TLS: all of them, in order, whatever the sockets and the versions. */
#include "unit/net/tls_pair.h"

#include <fcntl.h>
#include <netinet/in.h>

static const struct claim good = {.names = "DNS:locks.example,IP:127.0.0.1"};
static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

static void t1_bytes_cross_both_ways_in_either_version(void **state) {
  (void)state;
  for (int v = 0; v < 2; v++) {
    struct world w = world_make(good);
    limit_to(w.client_tls, versions[v]); /* the server takes either */
    struct ends e = connected(&w, "locks.example");
    assert_true(e.client->hands_over_whole);
    assert_int_equal(try_read(e.client), TKT_STREAM_AGAIN);
    must_write(e.client, "hello");
    must_read(e.server, "hello");
    must_write(e.server, "good day");
    must_write(e.server, ", and more");
    must_read(e.client, "good day, and more"); /* two records, one read */
    assert_false(e.client->unread);
    ends_drop(&e);
    world_end(&w);
  }
}

static void t1_half_close_leaves_reading_in_either_version(void **state) {
  (void)state;
  for (int v = 0; v < 2; v++) {
    struct world w = world_make(good);
    limit_to(w.server_tls, versions[v]);
    struct ends e = connected(&w, "locks.example");
    struct tkt_stream *order[2][2] = {{e.client, e.server}, {e.server, e.client}};
    struct tkt_stream **s = order[v]; /* the client shuts first, then the server does */
    must_write(s[0], "last words");
    assert_true(s[0]->ops->shut_write(s[0]));
    assert_true(s[0]->ops->shut_write(s[0])); /* twice is once */
    must_read(s[1], "last words");
    assert_true(s[1]->unread); /* the end came with the words; no poller would tell */
    assert_int_equal(try_read(s[1]), TKT_STREAM_EOF);
    assert_int_equal(try_read(s[1]), TKT_STREAM_EOF);
    must_write(s[1], "late reply");
    must_read(s[0], "late reply");
    assert_int_equal(try_read(s[0]), TKT_STREAM_AGAIN);
    assert_true(s[1]->ops->shut_write(s[1]));
    assert_int_equal(try_read(s[0]), TKT_STREAM_EOF);
    ends_drop(&e);
    world_end(&w);
  }
}

/* TLS 1.2 ends with words of the server, and ours goes on speaking: one segment holds both. */
static void bytes_behind_the_end_of_the_handshake_are_announced(void **state) {
  (void)state;
  struct world w = world_make(good);
  limit_to(w.client_tls, TLS1_2_VERSION);
  int fds[2];
  socket_pair(fds);
  struct ends e = ends_of(&w, "locks.example", fds[0], fds[1]);
  int client = TKT_STREAM_AGAIN, server = TKT_STREAM_AGAIN;
  for (int i = 0; i < 10 && client; i++) {
    client = e.client->ops->establish(e.client);
    if (server == TKT_STREAM_AGAIN) {
      server = e.server->ops->establish(e.server);
      if (server == 0) must_write(e.server, "greeting");
    }
  }
  assert_int_equal(client, 0);
  assert_true(e.client->unread);
  must_read(e.client, "greeting");
  assert_false(e.client->unread);
  ends_drop(&e);
  world_end(&w);
}

static void an_end_without_goodbye_is_an_end(void **state) {
  (void)state;
  struct world w = world_make(good);
  struct ends e = connected(&w, "locks.example");
  must_write(e.server, "cut");
  shutdown(e.server->fd, SHUT_WR);
  must_read(e.client, "cut");
  assert_int_equal(try_read(e.client), TKT_STREAM_EOF);
  ends_drop(&e);
  world_end(&w);
}

static void a_peer_that_vanishes_is_broken_with_its_reason(void **state) {
  (void)state;
  struct world w = world_make(good);
  struct ends e = connected(&w, "locks.example");
  tkt_stream_destroy(e.server); /* a UNIX socket closed with nothing unread: EOF, then EPIPE */
  e.server = NULL;
  assert_int_equal(e.client->ops->write(e.client, (const uint8_t *)"x", 1), TKT_STREAM_BROKEN);
  assert_string_equal(e.client->reason, "connection closed by the peer");
  assert_true(e.client->ops->shut_write(e.client)); /* nothing to say any more */
  assert_int_equal(ERR_peek_error(), 0);
  ends_drop(&e);
  world_end(&w);
}

static void s4_replies_are_still_read_after_a_write_failed(void **state) {
  (void)state;
  struct world w = world_make(good);
  struct ends e = connected(&w, "locks.example");
  must_write(e.server, "reply");
  shutdown(e.server->fd, SHUT_RD); /* our next write fails */
  assert_int_equal(e.client->ops->write(e.client, (const uint8_t *)"x", 1), TKT_STREAM_BROKEN);
  must_read(e.client, "reply");
  ends_drop(&e);
  world_end(&w);
}

static uint8_t pattern(size_t at) {
  return (uint8_t)(at * 2654435761u >> 13);
}

/* A sender as the engines are: a refused chunk is offered again with more behind it, and its memory
 * has moved meanwhile. */
struct sender {
  struct tkt_stream *stream;
  size_t sent, offered, total;
};

static bool push(struct sender *s, unsigned *seed) {
  size_t grow = (size_t)rand_r(seed) % 5000 + 1;
  s->offered = s->offered > s->sent ? s->offered + grow : s->sent + grow;
  if (s->offered > s->sent + 16384) s->offered = s->sent + 16384;
  if (s->offered > s->total) s->offered = s->total;
  size_t len = s->offered - s->sent;
  if (len == 0) return false;
  uint8_t *copy = malloc(len);
  assert_non_null(copy);
  for (size_t i = 0; i < len; i++)
    copy[i] = pattern(s->sent + i);
  ssize_t n = s->stream->ops->write(s->stream, copy, len);
  memset(copy, 0xee, len);
  free(copy);
  assert_true(n > 0 || n == TKT_STREAM_AGAIN);
  if (n > 0) s->sent += (size_t)n;
  return n > 0;
}

static void pull(struct tkt_stream *stream, size_t *got) {
  static uint8_t in[TKT_TLS_READ_ROOM];
  ssize_t n = stream->ops->read(stream, in, sizeof in);
  assert_true(n > 0 || n == TKT_STREAM_AGAIN);
  for (ssize_t i = 0; i < n; i++)
    if (in[i] != pattern(*got + (size_t)i)) fail_msg("byte %zu is wrong", *got + (size_t)i);
  if (n > 0) *got += (size_t)n;
}

static void s1_partial_writes_lose_and_repeat_nothing(void **state) {
  (void)state;
  enum { TOTAL = 3 << 20 };
  for (int v = 0; v < 2; v++) {
    struct world w = world_make(good);
    limit_to(w.client_tls, versions[v]);
    struct ends e = connected(&w, "locks.example");
    int small = 4096;
    setsockopt(e.client->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    setsockopt(e.server->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    struct sender up = {.stream = e.client, .total = TOTAL},
                  down = {.stream = e.server, .total = TOTAL};
    size_t at_server = 0, at_client = 0;
    unsigned seed = 7, refused = 0;
    while (at_server < TOTAL || at_client < TOTAL) {
      for (int i = rand_r(&seed) % 4; i >= 0; i--)
        if (!push(&up, &seed)) refused++;
      for (int i = rand_r(&seed) % 4; i >= 0; i--)
        if (!push(&down, &seed)) refused++;
      pull(e.server, &at_server);
      if (rand_r(&seed) % 3 == 0) pull(e.client, &at_client);
    }
    assert_true(refused > 100); /* the sockets were really too small */
    ends_drop(&e);
    world_end(&w);
  }
}

/* Moves at most `most` bytes from one socket to the other. */
static void forward(int from, int to, size_t most) {
  char bytes[64];
  ssize_t n = recv(from, bytes, most < sizeof bytes ? most : sizeof bytes, MSG_DONTWAIT);
  if (n > 0) assert_int_equal(send(to, bytes, (size_t)n, 0), n);
}

static void records_may_come_byte_by_byte(void **state) {
  (void)state;
  struct world w = world_make(good);
  int left[2], right[2];
  socket_pair(left);
  socket_pair(right);
  struct ends e = ends_of(&w, "locks.example", left[0], right[1]);
  int client = TKT_STREAM_AGAIN, server = TKT_STREAM_AGAIN;
  for (int i = 0; i < 40000 && (client || server); i++) {
    if (client == TKT_STREAM_AGAIN) client = e.client->ops->establish(e.client);
    if (server == TKT_STREAM_AGAIN) server = e.server->ops->establish(e.server);
    forward(left[1], right[0], 1);
    forward(right[0], left[1], 1);
  }
  assert_int_equal(client, 0);
  assert_int_equal(server, 0);
  must_write(e.client, "slow");
  ssize_t n = TKT_STREAM_AGAIN;
  int steps = 0;
  for (; n == TKT_STREAM_AGAIN && steps < 1000; steps++) {
    forward(left[1], right[0], 1);
    n = try_read(e.server);
  }
  assert_int_equal(n, 4);
  assert_true(steps > 10);
  ends_drop(&e);
  close(left[1]);
  close(right[0]);
  world_end(&w);
}

static void a_small_room_leaves_a_sign_that_more_is_there(void **state) {
  (void)state;
  struct world w = world_make(good);
  struct ends e = connected(&w, "locks.example");
  must_write(e.client, "0123456789");
  uint8_t in[4];
  assert_int_equal(e.server->ops->read(e.server, in, 4), 4);
  assert_true(e.server->unread);
  assert_int_equal(e.server->ops->read(e.server, in, 4), 4);
  assert_true(e.server->unread);
  assert_int_equal(e.server->ops->read(e.server, in, 4), 2);
  assert_false(e.server->unread);
  ends_drop(&e);
  world_end(&w);
}

/* --- a wrapped stream that takes as many bytes as the test says --- */

struct throttle {
  struct tkt_stream stream;
  struct tkt_stream *below;
  size_t budget;
};

static struct throttle *throttle_of(struct tkt_stream *s) {
  return (struct throttle *)(void *)s;
}
static int throttle_establish(struct tkt_stream *s) {
  return throttle_of(s)->below->ops->establish(throttle_of(s)->below);
}
static ssize_t throttle_read(struct tkt_stream *s, uint8_t *into, size_t room) {
  return throttle_of(s)->below->ops->read(throttle_of(s)->below, into, room);
}
static ssize_t throttle_write(struct tkt_stream *s, const uint8_t *from, size_t len) {
  struct throttle *t = throttle_of(s);
  if (len > t->budget) len = t->budget;
  if (len == 0) return TKT_STREAM_AGAIN;
  t->budget -= len;
  return t->below->ops->write(t->below, from, len);
}
static bool throttle_shut(struct tkt_stream *s) {
  return throttle_of(s)->below->ops->shut_write(throttle_of(s)->below);
}
static void throttle_destroy(struct tkt_stream *s) {
  tkt_stream_destroy(throttle_of(s)->below);
  free(s);
}
static const struct tkt_stream_ops throttle_ops = {throttle_establish, throttle_read,
                                                   throttle_write, throttle_shut, throttle_destroy};

static struct throttle *throttle(int fd) {
  struct throttle *t = calloc(1, sizeof *t);
  assert_non_null(t);
  t->below = tkt_tcp_accepted(fd);
  t->stream = (struct tkt_stream){.ops = &throttle_ops, .fd = fd, .replaced_fd = -1};
  t->budget = SIZE_MAX;
  return t;
}

static struct ends throttled(const struct world *w, struct throttle **out) {
  int fds[2], server;
  socket_pair(fds);
  *out = throttle(fds[0]);
  struct ends e = {tkt_tls_connect(w->client_tls, &(*out)->stream, "locks.example"),
                   tkt_tls_accept(w->server_tls, tkt_tcp_accepted(fds[1]))};
  assert_int_equal(shake_hands(&e, &server), 0);
  assert_int_equal(server, 0);
  return e;
}

static void a_goodbye_waits_for_room(void **state) {
  (void)state;
  struct world w = world_make(good);
  struct throttle *t;
  struct ends e = throttled(&w, &t);
  t->budget = 0;
  assert_false(e.client->ops->shut_write(e.client));
  t->budget = 5; /* a part of it */
  assert_false(e.client->ops->shut_write(e.client));
  must_write(e.server, "still heard");
  must_read(e.client, "still heard");
  assert_int_equal(try_read(e.server), TKT_STREAM_AGAIN);
  t->budget = SIZE_MAX;
  assert_true(e.client->ops->shut_write(e.client));
  assert_int_equal(try_read(e.server), TKT_STREAM_EOF);
  must_write(e.server, "heard too");
  must_read(e.client, "heard too");
  ends_drop(&e);
  world_end(&w);
}

static void s1_bytes_refused_by_the_socket_are_with_tls_already(void **state) {
  (void)state;
  struct world w = world_make(good);
  struct throttle *t;
  struct ends e = throttled(&w, &t);
  t->budget = 3;
  const uint8_t *offered = (const uint8_t *)"request and more";
  assert_int_equal(e.client->ops->write(e.client, offered, 7), TKT_STREAM_AGAIN);
  assert_int_equal(try_read(e.server), TKT_STREAM_AGAIN); /* a part of a record is nothing */
  t->budget = SIZE_MAX;
  /* Offered again, longer: what was refused leaves as it was. */
  ssize_t n = e.client->ops->write(e.client, offered, 16);
  assert_true(n >= 7);
  if (n < 16)
    assert_int_equal(e.client->ops->write(e.client, offered + n, (size_t)(16 - n)), 16 - n);
  must_read(e.server, "request and more");
  ends_drop(&e);
  world_end(&w);
}

/* --- strangers --- */

static void plain_text_from_the_server_is_named(void **state) {
  (void)state;
  struct world w = world_make(good);
  int fds[2];
  socket_pair(fds);
  struct tkt_stream *client =
      tkt_tls_connect(w.client_tls, tkt_tcp_accepted(fds[0]), "locks.example");
  assert_int_equal(client->ops->establish(client), TKT_STREAM_AGAIN);
  assert_int_equal(send(fds[1], "single aB3dEf_g\n", 16, 0), 16);
  assert_int_equal(client->ops->establish(client), TKT_STREAM_BROKEN);
  assert_string_equal(client->reason, "TLS: the peer does not speak TLS on this port");
  tkt_stream_destroy(client);
  close(fds[1]);
  world_end(&w);
}

static void plain_text_from_the_client_is_named(void **state) {
  (void)state;
  static const char *const texts[] = {
      "GET / HTTP/1.1\r\nHost: locks.example\r\n\r\n",
      "WvDLEd0VIA9cVatiwxXYXRGMDSXw0ibHllLgAMBffdg\n",
      "CONNECT locks.example:443 HTTP/1.1\r\n\r\n",
  };
  struct world w = world_make(good);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    int fds[2];
    socket_pair(fds);
    struct tkt_stream *server = tkt_tls_accept(w.server_tls, tkt_tcp_accepted(fds[1]));
    assert_int_equal(server->ops->establish(server), TKT_STREAM_AGAIN);
    assert_int_equal(send(fds[0], texts[i], strlen(texts[i]), 0), strlen(texts[i]));
    assert_int_equal(server->ops->establish(server), TKT_STREAM_BROKEN);
    assert_string_equal(server->reason, "TLS: the peer does not speak TLS on this port");
    tkt_stream_destroy(server);
    close(fds[0]);
  }
  world_end(&w);
}

static void a_peer_that_hangs_up_in_the_handshake_is_named(void **state) {
  (void)state;
  struct world w = world_make(good);
  int fds[2];
  socket_pair(fds);
  struct tkt_stream *client =
      tkt_tls_connect(w.client_tls, tkt_tcp_accepted(fds[0]), "locks.example");
  assert_int_equal(client->ops->establish(client), TKT_STREAM_AGAIN);
  char hello[4096];
  assert_true(recv(fds[1], hello, sizeof hello, 0) > 0);
  close(fds[1]);
  assert_int_equal(client->ops->establish(client), TKT_STREAM_BROKEN);
  assert_string_equal(client->reason, "TLS: the peer closed the connection during the handshake");
  tkt_stream_destroy(client);
  world_end(&w);
}

static void garbage_behind_the_handshake_is_broken(void **state) {
  (void)state;
  struct world w = world_make(good);
  struct ends e = connected(&w, "locks.example");
  must_write(e.server, "good");
  static const char junk[] = "\x17\x03\x03\x00\x20 not what it should be, not at all";
  assert_int_equal(send(e.server->fd, junk, 5 + 0x20, 0), 5 + 0x20);
  must_read(e.client, "good");
  assert_true(e.client->unread);
  assert_int_equal(try_read(e.client), TKT_STREAM_BROKEN);
  assert_string_equal(e.client->reason, "TLS: what arrived is no valid record");
  assert_int_equal(try_read(e.client), TKT_STREAM_BROKEN);
  assert_true(e.client->ops->shut_write(e.client));
  ends_drop(&e);
  world_end(&w);
}

static void versions_below_1_2_are_refused(void **state) {
  (void)state;
  struct world w = world_make(good);
  SSL_CTX_set_min_proto_version(w.server_tls->context, TLS1_1_VERSION);
  SSL_CTX_set_max_proto_version(w.server_tls->context, TLS1_1_VERSION);
  SSL_CTX_set_security_level(w.server_tls->context, 0);
  int fds[2], server;
  socket_pair(fds);
  struct ends e = ends_of(&w, "locks.example", fds[0], fds[1]);
  assert_int_equal(shake_hands(&e, &server), TKT_STREAM_BROKEN);
  assert_int_equal(server, TKT_STREAM_BROKEN);
  assert_string_equal(e.client->reason, "TLS: no version in common; 1.2 or newer is needed");
  ends_drop(&e);
  world_end(&w);
}

/* A peer of OpenSSL alone, which can do what our streams never do. */
static void m10_new_keys_without_end_neither_spin_nor_grow(void **state) {
  (void)state;
  struct world w = world_make(good);
  int fds[2];
  socket_pair(fds);
  struct tkt_stream *client =
      tkt_tls_connect(w.client_tls, tkt_tcp_accepted(fds[0]), "locks.example");
  fcntl(fds[1], F_SETFL, O_NONBLOCK);
  SSL *peer = SSL_new(w.server_tls->context);
  SSL_set_fd(peer, fds[1]);
  int ours = TKT_STREAM_AGAIN;
  for (int i = 0; i < 20 && ours; i++) {
    ours = client->ops->establish(client);
    SSL_accept(peer);
  }
  assert_int_equal(ours, 0);
  /* It asks without ever reading our answers; at some point they find no room. */
  int asked = 0, n = TKT_STREAM_AGAIN;
  while (asked < 1000000 && n == TKT_STREAM_AGAIN) {
    for (int i = 0; i < 50; i++) {
      SSL_key_update(peer, SSL_KEY_UPDATE_REQUESTED);
      if (SSL_do_handshake(peer) == 1) asked++;
    }
    n = (int)try_read(client);
  }
  assert_int_equal(n, TKT_STREAM_BROKEN);
  assert_string_equal(client->reason, "TLS: the peer asks for new keys and reads nothing");
  SSL_free(peer);
  close(fds[1]);
  tkt_stream_destroy(client);
  ERR_clear_error();
  world_end(&w);
}

static void errors_of_others_in_this_thread_disturb_nothing(void **state) {
  (void)state;
  struct world w = world_make(good);
  struct ends e = connected(&w, "locks.example");
  ERR_raise(ERR_LIB_SSL, SSL_R_CERTIFICATE_VERIFY_FAILED);
  assert_int_equal(try_read(e.client), TKT_STREAM_AGAIN);
  ERR_raise(ERR_LIB_SSL, SSL_R_CERTIFICATE_VERIFY_FAILED);
  must_write(e.client, "fine");
  ERR_raise(ERR_LIB_SSL, SSL_R_CERTIFICATE_VERIFY_FAILED);
  must_read(e.server, "fine");
  assert_int_equal(ERR_peek_error(), 0);
  ends_drop(&e);
  world_end(&w);
}

static void a_context_lives_as_long_as_its_streams(void **state) {
  (void)state;
  struct world w = world_make(good);
  struct ends e = connected(&w, "locks.example");
  tkt_tls_free(w.client_tls);
  tkt_tls_free(w.server_tls);
  w.client_tls = w.server_tls = NULL;
  must_write(e.client, "still there");
  must_read(e.server, "still there");
  ends_drop(&e);
  world_end(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(t1_bytes_cross_both_ways_in_either_version),
      cmocka_unit_test(t1_half_close_leaves_reading_in_either_version),
      cmocka_unit_test(bytes_behind_the_end_of_the_handshake_are_announced),
      cmocka_unit_test(an_end_without_goodbye_is_an_end),
      cmocka_unit_test(a_peer_that_vanishes_is_broken_with_its_reason),
      cmocka_unit_test(s4_replies_are_still_read_after_a_write_failed),
      cmocka_unit_test(s1_partial_writes_lose_and_repeat_nothing),
      cmocka_unit_test(records_may_come_byte_by_byte),
      cmocka_unit_test(a_small_room_leaves_a_sign_that_more_is_there),
      cmocka_unit_test(a_goodbye_waits_for_room),
      cmocka_unit_test(s1_bytes_refused_by_the_socket_are_with_tls_already),
      cmocka_unit_test(plain_text_from_the_server_is_named),
      cmocka_unit_test(plain_text_from_the_client_is_named),
      cmocka_unit_test(a_peer_that_hangs_up_in_the_handshake_is_named),
      cmocka_unit_test(garbage_behind_the_handshake_is_broken),
      cmocka_unit_test(versions_below_1_2_are_refused),
      cmocka_unit_test(m10_new_keys_without_end_neither_spin_nor_grow),
      cmocka_unit_test(errors_of_others_in_this_thread_disturb_nothing),
      cmocka_unit_test(a_context_lives_as_long_as_its_streams),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
