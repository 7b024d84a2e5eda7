/* The loop with real sockets on loopback, driven turn by turn in the test's own thread. */
#include "daemon/loop.h"

#include "daemon/connection.h"
#include "net/clock.h"
#include "wire/proof.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { INPUT_MAX = 1 << 16, TURNS_MAX = 4000 };

struct world {
  struct tkt_log log;
  struct tkt_server *server;
  struct tkt_loop loop;
};

struct peer {
  int fd;
  size_t len;
  bool ended; /* end of stream */
  int error;  /* of the last read */
  uint8_t input[INPUT_MAX];
};

static bool nonce(void *context, uint8_t *out, size_t len) {
  (void)context;
  return tkt_entropy(out, len);
}

static struct world *open_world(struct tkt_server_limits limits) {
  struct world *w = calloc(1, sizeof *w);
  assert_non_null(w);
  w->log.fd = -1;
  struct tkt_server_config config = {
      .limits = limits, .first_token = 7, .storage = &tkt_memory_storage, .nonce = nonce};
  w->server = tkt_server_new(&config, tkt_clock_now());
  assert_non_null(w->server);
  assert_int_equal(tkt_loop_open(&w->loop, w->server, &w->log), 0);
  struct tkt_listen_spec spec;
  char why[1024];
  assert_true(tkt_listen_spec_parse("127.0.0.1:0", &spec, why));
  assert_int_equal(tkt_loop_listen(&w->loop, &spec), 0);
  return w;
}

static void close_world(struct world *w) {
  tkt_loop_close(&w->loop);
  tkt_server_free(w->server);
  free(w);
}

static struct peer *dial(struct world *w) {
  struct peer *p = calloc(1, sizeof *p);
  assert_non_null(p);
  struct sockaddr_in to = {.sin_family = AF_INET,
                           .sin_port = htons(w->loop.listeners[0].port),
                           .sin_addr = {htonl(INADDR_LOOPBACK)}};
  p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(p->fd >= 0);
  assert_int_equal(connect(p->fd, (struct sockaddr *)(void *)&to, sizeof to), 0);
  assert_int_equal(fcntl(p->fd, F_SETFL, O_NONBLOCK), 0);
  return p;
}

static void hang_up(struct peer *p) {
  close(p->fd);
  free(p);
}

static void look(struct peer *p) {
  while (!p->ended && !p->error && p->len < INPUT_MAX) {
    ssize_t n = recv(p->fd, p->input + p->len, INPUT_MAX - p->len, 0);
    if (n > 0) {
      p->len += (size_t)n;
    } else if (n == 0) {
      p->ended = true;
    } else if (errno == EAGAIN) {
      return;
    } else {
      p->error = errno;
    }
  }
}

/* Turns until `p` has `len` bytes, or has ended where len is SIZE_MAX. */
static void turn_until(struct world *w, struct peer *p, size_t len) {
  for (int i = 0; i < TURNS_MAX; i++) {
    look(p);
    if (p->len >= len || p->ended || p->error) return;
    tkt_loop_turn(&w->loop, tkt_clock_now() + 5 * TKT_MS);
  }
  fail_msg("%zu bytes after %d turns", p->len, TURNS_MAX);
}

static void say(struct peer *p, const void *bytes, size_t len) {
  assert_int_equal(send(p->fd, bytes, len, MSG_NOSIGNAL), len);
}

/* Reads the greeting, sends the proof, waits for the sign of acceptance; input is empty then. */
static void enter(struct world *w, struct peer *p) {
  char proof[TKT_WIRE2_PROOF_LEN + 1];
  size_t line = 0;
  while (line == 0) {
    turn_until(w, p, p->len + 1);
    const uint8_t *lf = memchr(p->input, '\n', p->len);
    if (lf) line = (size_t)(lf - p->input) + 1;
  }
  const uint8_t *space = memchr(p->input, ' ', line);
  assert_non_null(space);
  struct tkt_span text = tkt_span(space + 1, (size_t)(p->input + line - 1 - (space + 1)));
  assert_true(tkt_wire2_proof(tkt_span("", 0), text, proof));
  proof[TKT_WIRE2_PROOF_LEN] = '\n';
  say(p, proof, sizeof proof);
  turn_until(w, p, line + 1);
  assert_int_equal(p->input[line], '\n');
  p->len = 0;
}

static void ask(struct peer *p, uint16_t wait, uint64_t owner, const char *key) {
  uint8_t frame[64] = {'A'};
  size_t len = strlen(key);
  tkt_store16(frame + 1, wait);
  tkt_store16(frame + 3, 10);
  tkt_store64(frame + 5, owner);
  memcpy(frame + 13, key, len);
  frame[13 + len] = '\n';
  say(p, frame, 14 + len);
}

static void give(struct peer *p, uint64_t token, const char *key) {
  uint8_t frame[64] = {'R'};
  size_t len = strlen(key);
  tkt_store64(frame + 1, token);
  memcpy(frame + 9, key, len);
  frame[9 + len] = '\n';
  say(p, frame, 10 + len);
}

static void expect_granted(struct world *w, struct peer *p, uint64_t token, uint64_t owner,
                           const char *key) {
  size_t len = strlen(key);
  turn_until(w, p, 18 + len);
  assert_int_equal(p->len, 18 + len);
  assert_int_equal(p->input[0], 'A');
  assert_int_equal(tkt_load64(p->input + 1), token);
  assert_int_equal(tkt_load64(p->input + 9), owner);
  assert_memory_equal(p->input + 17, key, len);
  p->len = 0;
}

static void a_release_and_the_next_grant_leave_in_one_turn(void **state) {
  (void)state;
  struct world *w = open_world(tkt_server_limits_default);
  struct peer *a = dial(w), *b = dial(w);
  enter(w, a);
  enter(w, b);
  ask(a, 0, 11, "key");
  expect_granted(w, a, 7, 11, "key");
  ask(b, 5, 22, "key");
  while (tkt_server_stats(w->server).waiters == 0)
    tkt_loop_turn(&w->loop, TKT_NEVER);
  give(a, 7, "key");
  while (tkt_server_stats(w->server).releases == 0)
    tkt_loop_turn(&w->loop, TKT_NEVER);
  look(a);
  look(b);
  assert_int_equal(a->len, 13);
  assert_int_equal(a->input[0], 'R');
  expect_granted(w, b, 8, 22, "key");
  hang_up(a);
  hang_up(b);
  close_world(w);
}

static void half_close_is_told_t_and_then_ended(void **state) {
  (void)state;
  struct world *w = open_world(tkt_server_limits_default);
  struct peer *a = dial(w), *b = dial(w);
  enter(w, a);
  enter(w, b);
  ask(a, 0, 11, "key");
  expect_granted(w, a, 7, 11, "key");
  ask(b, 200, 22, "key");
  assert_int_equal(shutdown(b->fd, SHUT_WR), 0);
  turn_until(w, b, SIZE_MAX);
  assert_true(b->ended);
  assert_int_equal(b->len, 13);
  assert_int_equal(b->input[0], 'T');
  assert_int_equal(w->loop.connection_count, 1);
  hang_up(a);
  hang_up(b);
  close_world(w);
}

/* The peer goes on sending while the server ends the session: closing over those bytes would reset
 * the connection, and the reason would be lost with it. */
static void an_error_survives_what_the_peer_still_sends(void **state) {
  (void)state;
  struct world *w = open_world(tkt_server_limits_default);
  struct peer *p = dial(w);
  static uint8_t noise[200000];
  enter(w, p);
  memset(noise, 'z', sizeof noise);
  say(p, noise, sizeof noise);
  turn_until(w, p, 8);
  send(p->fd, noise, sizeof noise, MSG_NOSIGNAL);
  turn_until(w, p, SIZE_MAX);
  assert_int_equal(p->error, 0);
  assert_true(p->ended);
  assert_int_equal(p->len, strlen("Ebad_op\n"));
  assert_memory_equal(p->input, "Ebad_op\n", p->len);
  hang_up(p);
  while (w->loop.connection_count > 0)
    tkt_loop_turn(&w->loop, tkt_clock_now() + 5 * TKT_MS);
  close_world(w);
}

static void above_the_session_limit_a_connection_is_closed_at_accept(void **state) {
  (void)state;
  struct tkt_server_limits limits = tkt_server_limits_default;
  limits.sessions = 1;
  struct world *w = open_world(limits);
  struct peer *a = dial(w);
  enter(w, a);
  struct peer *b = dial(w);
  turn_until(w, b, SIZE_MAX);
  assert_true(b->ended || b->error == ECONNRESET);
  assert_int_equal(b->len, 0);
  assert_int_equal(tkt_server_stats(w->server).sessions_refused, 1);
  ask(a, 0, 1, "key"); /* who is in stays served */
  expect_granted(w, a, 7, 1, "key");
  hang_up(a);
  hang_up(b);
  close_world(w);
}

static void a_dead_holder_leaves_its_lease_and_a_dead_waiter_nothing(void **state) {
  (void)state;
  struct world *w = open_world(tkt_server_limits_default);
  struct peer *a = dial(w), *b = dial(w);
  enter(w, a);
  enter(w, b);
  ask(a, 0, 11, "key");
  expect_granted(w, a, 7, 11, "key");
  ask(b, 200, 22, "key");
  while (tkt_server_stats(w->server).waiters == 0)
    tkt_loop_turn(&w->loop, TKT_NEVER);
  struct linger reset = {1, 0}; /* close with a reset, as a killed machine looks */
  setsockopt(a->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  setsockopt(b->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  hang_up(a);
  hang_up(b);
  while (w->loop.connection_count > 0)
    tkt_loop_turn(&w->loop, TKT_NEVER);
  assert_int_equal(tkt_server_stats(w->server).waiters, 0);
  assert_int_equal(tkt_server_stats(w->server).keys_held, 1);
  close_world(w);
}

static void without_descriptors_accepting_pauses_and_goes_on(void **state) {
  (void)state;
  struct world *w = open_world(tkt_server_limits_default);
  struct peer *a = dial(w);
  enter(w, a);
  struct peer *b = dial(w);
  struct rlimit limit, none = {0};
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  none.rlim_max = limit.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  for (int i = 0; i < 10 && w->loop.accept_resume == TKT_NEVER; i++)
    tkt_loop_turn(&w->loop, tkt_clock_now() + 5 * TKT_MS);
  bool paused = w->loop.accept_resume != TKT_NEVER;
  ask(a, 0, 1, "key"); /* the living are served meanwhile */
  expect_granted(w, a, 7, 1, "key");
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  assert_true(paused);
  enter(w, b);
  assert_true(w->loop.accept_resume == TKT_NEVER);
  hang_up(a);
  hang_up(b);
  close_world(w);
}

static bool is_blocked(const struct world *w) {
  bool any = false;
  TKT_LIST_EACH(node, next, &w->loop.connections) {
    any |= TKT_CONTAINER(node, struct tkt_connection, node)->blocked;
  }
  return any;
}

/* More replies than the socket takes: the rest leaves as the peer reads, in order and whole. */
static void a_blocked_socket_gets_the_rest_when_it_reads_again(void **state) {
  (void)state;
  enum { ASKED = 60000 };
  struct tkt_server_limits limits = tkt_server_limits_default;
  limits.output_bytes = 16 * 1024 * 1024;
  struct world *w = open_world(limits);
  int small = 16 * 1024; /* inherited by what is accepted */
  setsockopt(w->loop.listeners[0].fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  struct peer *p = dial(w), *holder = dial(w);
  enter(w, holder);
  ask(holder, 0, 1, "key");
  expect_granted(w, holder, 7, 1, "key");
  enter(w, p);
  /* Each try ends in T: 13 bytes. Sent without reading anything. */
  uint64_t owner = 1000;
  uint8_t frame[17] = {'A', 0, 0, 0, 10};
  memcpy(frame + 13, "key\n", 4);
  size_t offset = 0;
  int asked = 0;
  for (int i = 0; i < TURNS_MAX * 10 && asked < ASKED; i++) {
    tkt_store64(frame + 5, owner + (uint64_t)asked);
    ssize_t n = send(p->fd, frame + offset, sizeof frame - offset, MSG_NOSIGNAL);
    if (n > 0) offset += (size_t)n;
    if (offset == sizeof frame) {
      offset = 0;
      asked++;
      i = 0;
    }
    if (n < 0) tkt_loop_turn(&w->loop, 0);
  }
  assert_int_equal(asked, ASKED);
  while (tkt_server_stats(w->server).timeouts < ASKED)
    tkt_loop_turn(&w->loop, 0);
  assert_true(is_blocked(w));
  int answered = 0;
  size_t unread = 0;
  for (int i = 0; i < TURNS_MAX * 10 && answered < ASKED; i++) {
    look(p);
    assert_int_equal(p->error, 0);
    assert_false(p->ended);
    size_t at = 0;
    for (; p->len - at >= 13; at += 13, answered++) {
      assert_int_equal(p->input[at], 'T');
      assert_int_equal(tkt_load64(p->input + at + 1), owner + (uint64_t)answered);
    }
    unread = p->len - at;
    memmove(p->input, p->input + at, unread);
    p->len = unread;
    tkt_loop_turn(&w->loop, tkt_clock_now() + 5 * TKT_MS);
  }
  assert_int_equal(answered, ASKED);
  assert_int_equal(unread, 0);
  hang_up(p);
  hang_up(holder);
  close_world(w);
}

static void draining_tells_waiters_and_ends_every_session(void **state) {
  (void)state;
  struct world *w = open_world(tkt_server_limits_default);
  struct peer *a = dial(w), *b = dial(w), *mute = dial(w);
  enter(w, a);
  enter(w, b);
  turn_until(w, mute, 1);
  ask(a, 0, 11, "key");
  expect_granted(w, a, 7, 11, "key");
  ask(b, 200, 22, "key");
  while (tkt_server_stats(w->server).waiters == 0)
    tkt_loop_turn(&w->loop, TKT_NEVER);
  tkt_loop_stop_listening(&w->loop);
  tkt_server_drain(w->server, tkt_clock_now());
  turn_until(w, b, SIZE_MAX);
  assert_int_equal(b->len, 13);
  assert_int_equal(b->input[0], 'T');
  turn_until(w, a, SIZE_MAX);
  assert_true(a->ended);
  hang_up(a);
  hang_up(b);
  while (!tkt_server_drained(w->server))
    tkt_loop_turn(&w->loop, tkt_clock_now() + 5 * TKT_MS);
  assert_int_equal(w->loop.connection_count, 0);
  hang_up(mute);
  close_world(w);
}

static void a_port_in_use_is_an_error_and_nothing_stays_open(void **state) {
  (void)state;
  struct world *w = open_world(tkt_server_limits_default);
  struct tkt_listen_spec again = w->loop.listeners[0].spec;
  again.address.port = w->loop.listeners[0].port;
  assert_int_equal(tkt_loop_listen(&w->loop, &again), -EADDRINUSE);
  assert_int_equal(w->loop.listener_count, 1);
  struct peer *a = dial(w);
  enter(w, a);
  hang_up(a);
  close_world(w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_release_and_the_next_grant_leave_in_one_turn),
      cmocka_unit_test(half_close_is_told_t_and_then_ended),
      cmocka_unit_test(an_error_survives_what_the_peer_still_sends),
      cmocka_unit_test(above_the_session_limit_a_connection_is_closed_at_accept),
      cmocka_unit_test(a_dead_holder_leaves_its_lease_and_a_dead_waiter_nothing),
      cmocka_unit_test(without_descriptors_accepting_pauses_and_goes_on),
      cmocka_unit_test(a_blocked_socket_gets_the_rest_when_it_reads_again),
      cmocka_unit_test(draining_tells_waiters_and_ends_every_session),
      cmocka_unit_test(a_port_in_use_is_an_error_and_nothing_stays_open),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
