/* TCP streams and listeners over loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/clock.h"
#include "net/listener.h"
#include "net/poller.h"
#include "net/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct tkt_address at(const char *host, uint16_t port) {
  struct tkt_address a = {.port = port, .v6_literal = strchr(host, ':') != NULL};
  snprintf(a.host, sizeof a.host, "%s", host);
  return a;
}

static int listen_at(const char *host, uint16_t *port) {
  struct tkt_address a = at(host, 0);
  int fd = tkt_listen(&a, port);
  assert_true(fd >= 0);
  assert_true(*port > 0);
  return fd;
}

static void wait_fd(int fd, short events) {
  struct pollfd p = {.fd = fd, .events = events};
  assert_int_equal(poll(&p, 1, 10000), 1);
}

/* Carries the connection on to its verdict, as a driver does. */
static int establish(struct tkt_stream *s) {
  for (;;) {
    int rc = s->ops->establish(s);
    if (s->replaced_fd >= 0) {
      close(s->replaced_fd);
      s->replaced_fd = -1;
    }
    if (rc != TKT_STREAM_AGAIN) return rc;
    assert_int_equal(s->interest, TKT_POLL_WRITE);
    wait_fd(s->fd, POLLOUT);
  }
}

static int accept_wait(int listener, char *peer, unsigned size) {
  wait_fd(listener, POLLIN);
  int fd = tkt_accept(listener, peer, size);
  assert_true(fd >= 0);
  return fd;
}

struct pair {
  int listener;
  struct tkt_stream *client, *server;
};

static struct pair connect_pair(const char *host) {
  struct pair p;
  uint16_t port;
  const char *reason = NULL;
  p.listener = listen_at(host, &port);
  struct tkt_address a = at(host, port);
  p.client = tkt_tcp_connect(&a, &reason);
  assert_non_null(p.client);
  assert_int_equal(establish(p.client), 0);
  assert_int_equal(establish(p.client), 0);
  char peer[64];
  p.server = tkt_tcp_accepted(accept_wait(p.listener, peer, sizeof peer));
  assert_non_null(p.server);
  assert_int_equal(p.server->ops->establish(p.server), 0);
  assert_non_null(strrchr(peer, ':'));
  return p;
}

static void drop_pair(struct pair *p) {
  tkt_stream_destroy(p->client);
  tkt_stream_destroy(p->server);
  close(p->listener);
}

static ssize_t read_wait(struct tkt_stream *s, uint8_t *into, size_t room) {
  ssize_t n = s->ops->read(s, into, room);
  if (n != TKT_STREAM_AGAIN) return n;
  wait_fd(s->fd, POLLIN);
  return s->ops->read(s, into, room);
}

static void bytes_cross_both_ways_and_half_close_leaves_reading(void **state) {
  (void)state;
  struct pair p = connect_pair("127.0.0.1");
  uint8_t in[64];
  assert_int_equal(p.client->ops->read(p.client, in, sizeof in), TKT_STREAM_AGAIN);
  assert_int_equal(p.client->ops->write(p.client, (const uint8_t *)"hello", 5), 5);
  assert_int_equal(read_wait(p.server, in, sizeof in), 5);
  assert_memory_equal(in, "hello", 5);
  p.client->ops->shut_write(p.client);
  assert_int_equal(read_wait(p.server, in, sizeof in), TKT_STREAM_EOF);
  assert_int_equal(p.server->ops->write(p.server, (const uint8_t *)"late", 4), 4);
  assert_int_equal(read_wait(p.client, in, sizeof in), 4);
  assert_memory_equal(in, "late", 4);
  drop_pair(&p);
}

static void v6_literal_connects(void **state) {
  (void)state;
  struct tkt_address a = at("::1", 0);
  uint16_t port;
  int fd = tkt_listen(&a, &port);
  if (fd < 0) skip(); /* no IPv6 on this machine */
  close(fd);
  struct pair p = connect_pair("::1");
  drop_pair(&p);
}

static void options_are_set_on_both_ends(void **state) {
  (void)state;
  struct pair p = connect_pair("127.0.0.1");
  struct tkt_stream *ends[] = {p.client, p.server};
  for (int i = 0; i < 2; i++) {
    int value = 0;
    socklen_t len = sizeof value;
    assert_int_equal(getsockopt(ends[i]->fd, IPPROTO_TCP, TCP_NODELAY, &value, &len), 0);
    assert_int_not_equal(value, 0);
    assert_int_equal(getsockopt(ends[i]->fd, SOL_SOCKET, SO_KEEPALIVE, &value, &len), 0);
    assert_int_not_equal(value, 0);
    assert_int_equal(getsockopt(ends[i]->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &len), 0);
    assert_int_equal(value, TKT_TCP_USER_TIMEOUT_MS);
    assert_true(fcntl(ends[i]->fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(ends[i]->fd, F_GETFL) & O_NONBLOCK);
  }
  assert_true(fcntl(p.listener, F_GETFD) & FD_CLOEXEC);
  drop_pair(&p);
}

static void refused_connection_says_so(void **state) {
  (void)state;
  uint16_t port;
  close(listen_at("127.0.0.1", &port));
  struct tkt_address a = at("127.0.0.1", port);
  const char *reason = NULL;
  struct tkt_stream *s = tkt_tcp_connect(&a, &reason);
  if (s) {
    assert_int_equal(establish(s), TKT_STREAM_BROKEN);
    reason = s->reason;
    tkt_stream_destroy(s);
  }
  assert_string_equal(reason, "connection refused");
}

static void localhost_finds_a_server_on_either_family(void **state) {
  (void)state;
  const char *hosts[] = {"127.0.0.1", "::1"};
  for (int i = 0; i < 2; i++) {
    struct tkt_address a = at(hosts[i], 0);
    uint16_t port;
    int listener = tkt_listen(&a, &port);
    if (listener < 0) continue;
    struct tkt_address name = at("LocalHost", port);
    const char *reason = NULL;
    struct tkt_stream *s = tkt_tcp_connect(&name, &reason);
    assert_non_null(s);
    assert_int_equal(establish(s), 0);
    close(accept_wait(listener, NULL, 0));
    tkt_stream_destroy(s);
    close(listener);
  }
}

static void localhost_with_no_server_is_refused(void **state) {
  (void)state;
  uint16_t port;
  close(listen_at("127.0.0.1", &port));
  struct tkt_address a = at("localhost", port);
  const char *reason = NULL;
  struct tkt_stream *s = tkt_tcp_connect(&a, &reason);
  if (s) {
    assert_int_equal(establish(s), TKT_STREAM_BROKEN);
    assert_non_null(s->reason);
    tkt_stream_destroy(s);
  } else {
    assert_non_null(reason);
  }
}

static void names_are_refused_by_a_clear_sentence(void **state) {
  (void)state;
  const char *hosts[] = {"locks.example", "127.0.0.256", "1.2.3", "0x7f.1"};
  for (int i = 0; i < 4; i++) {
    struct tkt_address a = at(hosts[i], 5225);
    const char *reason = NULL;
    assert_null(tkt_tcp_connect(&a, &reason));
    assert_non_null(strstr(reason, "neither a numeric address nor localhost"));
    uint16_t port;
    assert_int_equal(tkt_listen(&a, &port), -EADDRNOTAVAIL);
  }
}

static void port_in_use_is_an_error(void **state) {
  (void)state;
  uint16_t port, again;
  int fd = listen_at("127.0.0.1", &port);
  struct tkt_address a = at("127.0.0.1", port);
  assert_int_equal(tkt_listen(&a, &again), -EADDRINUSE);
  assert_int_equal(tkt_accept(fd, NULL, 0), -EAGAIN);
  close(fd);
}

static void reset_is_broken_and_write_raises_no_signal(void **state) {
  (void)state;
  struct pair p = connect_pair("127.0.0.1");
  struct linger hard = {.l_onoff = 1};
  setsockopt(p.server->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  tkt_stream_destroy(p.server);
  p.server = NULL;
  uint8_t in[8];
  assert_int_equal(read_wait(p.client, in, sizeof in), TKT_STREAM_BROKEN);
  assert_string_equal(p.client->reason, "connection reset by the peer");
  assert_int_equal(p.client->ops->write(p.client, in, sizeof in), TKT_STREAM_BROKEN);
  drop_pair(&p);
}

static void full_socket_takes_a_part_and_then_says_again(void **state) {
  (void)state;
  struct pair p = connect_pair("127.0.0.1");
  static uint8_t block[1 << 20];
  ssize_t n = 0, total = 0;
  while ((n = p.client->ops->write(p.client, block, sizeof block)) > 0)
    total += n;
  assert_int_equal(n, TKT_STREAM_AGAIN);
  assert_true(total > 0);
  drop_pair(&p);
}

static void clocks_move_forward_and_entropy_differs(void **state) {
  (void)state;
  int64_t a = tkt_clock_now(), b = tkt_clock_now();
  assert_true(b >= a);
  assert_true(tkt_clock_unix_us() > INT64_C(1700000000000000));
  uint8_t x[32] = {0}, y[32] = {0};
  assert_true(tkt_entropy(x, sizeof x));
  assert_true(tkt_entropy(y, sizeof y));
  assert_memory_not_equal(x, y, sizeof x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_cross_both_ways_and_half_close_leaves_reading),
      cmocka_unit_test(v6_literal_connects),
      cmocka_unit_test(options_are_set_on_both_ends),
      cmocka_unit_test(refused_connection_says_so),
      cmocka_unit_test(localhost_finds_a_server_on_either_family),
      cmocka_unit_test(localhost_with_no_server_is_refused),
      cmocka_unit_test(names_are_refused_by_a_clear_sentence),
      cmocka_unit_test(port_in_use_is_an_error),
      cmocka_unit_test(reset_is_broken_and_write_raises_no_signal),
      cmocka_unit_test(full_socket_takes_a_part_and_then_says_again),
      cmocka_unit_test(clocks_move_forward_and_entropy_differs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
