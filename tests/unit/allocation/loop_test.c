/* The daemon's loop with each allocation refused in turn, over real sockets on loopback: it starts
 * or says why not, a connection it has no memory for is closed, and it serves again once memory is
 * back. The client below allocates nothing. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/loop.h"
#include "net/clock.h"
#include "unit/allocation/allocator.h"
#include "wire/proof.h"
#include "wire/wire2.h"

enum { INPUT_MAX = 4096, TURNS_MAX = 4000, TRIES_AFTERWARDS = 3 * ALLOCATOR_A_FEW };

struct world {
  struct tkt_log log;
  struct tkt_server *server;
  struct tkt_loop loop;
};

struct caller {
  int fd;
  size_t len;
  bool ended;
  uint8_t input[INPUT_MAX];
};

static bool nonce(void *context, uint8_t *out, size_t len) {
  (void)context;
  return tkt_entropy(out, len);
}

static bool open_world(struct world *w) {
  *w = (struct world){.log = {.fd = -1}};
  struct tkt_server_config config = {.limits = tkt_server_limits_default,
                                     .first_token = 7,
                                     .storage = &tkt_memory_storage,
                                     .nonce = nonce};
  w->server = tkt_server_new(&config, tkt_clock_now());
  if (!w->server) return false;
  int rc = tkt_loop_open(&w->loop, w->server, &w->log);
  if (rc != 0) {
    assert_int_equal(rc, -ENOMEM);
    tkt_server_free(w->server);
    return false;
  }
  struct tkt_listen_spec spec;
  char why[1024];
  assert_true(tkt_listen_spec_parse("127.0.0.1:0", &spec, why));
  assert_int_equal(tkt_loop_listen(&w->loop, &spec), 0);
  return true;
}

static void close_world(struct world *w) {
  tkt_loop_close(&w->loop);
  tkt_server_free(w->server);
}

static void dial(struct world *w, struct caller *c) {
  struct sockaddr_in to = {.sin_family = AF_INET,
                           .sin_port = htons(w->loop.listeners[0].port),
                           .sin_addr = {htonl(INADDR_LOOPBACK)}};
  *c = (struct caller){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  assert_true(c->fd >= 0);
  assert_int_equal(connect(c->fd, (struct sockaddr *)(void *)&to, sizeof to), 0);
}

/* Turns until a whole line beyond `from` is there: its end, or 0 where the connection ended. */
static size_t line_after(struct world *w, struct caller *c, size_t from) {
  for (int i = 0; i < TURNS_MAX && !c->ended; i++) {
    const uint8_t *lf = c->len > from ? memchr(c->input + from, '\n', c->len - from) : NULL;
    if (lf) return (size_t)(lf - c->input) + 1;
    tkt_loop_turn(&w->loop, tkt_clock_now() + 5 * TKT_MS);
    ssize_t n = recv(c->fd, c->input + c->len, INPUT_MAX - c->len, MSG_DONTWAIT);
    if (n > 0) c->len += (size_t)n;
    c->ended = n == 0 || (n < 0 && errno != EAGAIN);
  }
  assert_true(c->ended); /* a line comes, or the end does */
  return 0;
}

/* One acquire from connect to release; false where the server ended the connection before. */
static bool served(struct world *w, struct caller *c) {
  struct tkt_msg msg;
  size_t used = 0;
  char proof[TKT_WIRE2_PROOF_LEN + 1];
  size_t greeting = line_after(w, c, 0);
  if (!greeting) return false;
  assert_int_equal(tkt_wire2.decode(TKT_PHASE_GREETING, tkt_span(c->input, greeting), &msg, &used),
                   TKT_DECODE_OK);
  assert_true(tkt_wire2_proof(tkt_span("", 0), msg.nonce, proof));
  proof[TKT_WIRE2_PROOF_LEN] = '\n';
  if (send(c->fd, proof, sizeof proof, MSG_NOSIGNAL) < 0) return false;
  size_t accepted = line_after(w, c, greeting);
  if (!accepted) return false;
  static const char acquire[] = "A\0\1\0\5ownersowkey\n";
  static const char reply[] = "\0ownersowkey\n"; /* behind the token, which is below 256 */
  if (send(c->fd, acquire, sizeof acquire - 1, MSG_NOSIGNAL) < 0) return false;
  size_t replied = line_after(w, c, accepted + 9);
  if (!replied) return false;
  if (c->input[accepted] == 'B') return false;
  assert_int_equal(c->input[accepted], 'A');
  assert_int_equal(replied - accepted, 9 + sizeof reply - 2);
  assert_memory_equal(c->input + accepted + 9, reply + 1, sizeof reply - 2);
  uint8_t release[13] = {'R'};
  memcpy(release + 1, c->input + accepted + 1, 8);
  memcpy(release + 9, "key\n", 4);
  if (send(c->fd, release, sizeof release, MSG_NOSIGNAL) < 0) return false;
  size_t end = line_after(w, c, replied + 9);
  if (!end) return false;
  assert_int_equal(c->input[replied], 'R');
  return true;
}

static bool call_once(struct world *w) {
  struct caller c;
  dial(w, &c);
  bool ok = served(w, &c);
  close(c.fd);
  return ok;
}

/* Connections whose end the loop has not noticed. */
static void settle(struct world *w) {
  for (int i = 0; i < TURNS_MAX && w->loop.connection_count; i++)
    tkt_loop_turn(&w->loop, tkt_clock_now() + 5 * TKT_MS);
  assert_int_equal(w->loop.connection_count, 0);
}

static void whole_flow(void *context) {
  struct world *w = context;
  if (!open_world(w)) {
    assert_true(allocator_restore());
    return;
  }
  for (int i = 0; i < 3; i++)
    call_once(w);
  bool again = false;
  for (int i = 0; i < TRIES_AFTERWARDS && !again; i++)
    again = call_once(w);
  assert_true(again);
  settle(w);
  close_world(w);
}

static void loop_survives_every_refused_allocation(void **state) {
  (void)state;
  static struct world world;
  size_t n = allocator_try_each(whole_flow, &world);
  print_message("%zu allocations\n", n);
  assert_in_range(n, 10, 100000);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(loop_survives_every_refused_allocation)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
