/* TLS in front of a plain server, on threads of the test: accepts, and passes bytes and half-closes
 * both ways. */
#ifndef TESTS_UNIT_ABI_TLS_RELAY_H
#define TESTS_UNIT_ABI_TLS_RELAY_H

#include "net/listener.h"
#include "net/poller.h"
#include "unit/net/tls_pair.h"

#include <pthread.h>
#include <stdatomic.h>

enum { RELAY_LINKS = 64 };

struct tls_relay {
  struct tkt_tls *tls;
  struct tkt_address to;
  int listener;
  uint16_t port;
  char address[32];
  atomic_bool stop;
  atomic_uint links; /* passed the handshake */
  pthread_t thread, link_threads[RELAY_LINKS];
  int link_count;
};

struct relay_link {
  struct tls_relay *relay;
  struct tkt_stream *near, *far; /* TLS, plain */
};

/* False: the relay stops. */
static bool relay_poll(struct tls_relay *relay, struct pollfd *fds, nfds_t count) {
  while (!atomic_load(&relay->stop))
    if (poll(fds, count, 20) != 0) return true;
  return false;
}

static bool relay_establish(struct tls_relay *relay, struct tkt_stream *s) {
  for (;;) {
    int rc = s->ops->establish(s);
    if (rc != TKT_STREAM_AGAIN) return rc == 0;
    struct pollfd p = {.fd = s->fd, .events = s->interest & TKT_POLL_WRITE ? POLLOUT : POLLIN};
    if (!relay_poll(relay, &p, 1)) return false;
  }
}

static bool relay_write(struct tls_relay *relay, struct tkt_stream *to, const uint8_t *bytes,
                        size_t len) {
  while (len > 0) {
    ssize_t n = to->ops->write(to, bytes, len);
    struct pollfd p = {.fd = to->fd, .events = POLLOUT};
    if (n == TKT_STREAM_BROKEN || (n < 0 && !relay_poll(relay, &p, 1))) return false;
    if (n > 0) {
      bytes += n;
      len -= (size_t)n;
    }
  }
  return true;
}

/* What one side has, to the other; false: both are to be closed. */
static bool relay_pass(struct tls_relay *relay, struct tkt_stream *from, struct tkt_stream *to,
                       bool *ended) {
  uint8_t bytes[TKT_TLS_READ_ROOM];
  do {
    ssize_t n = from->ops->read(from, bytes, sizeof bytes);
    if (n == TKT_STREAM_AGAIN) return true;
    if (n == TKT_STREAM_BROKEN) return false;
    if (n == TKT_STREAM_EOF) {
      *ended = true;
      struct pollfd p = {.fd = to->fd, .events = POLLOUT};
      while (!to->ops->shut_write(to))
        if (!relay_poll(relay, &p, 1)) return false;
      return true;
    }
    if (!relay_write(relay, to, bytes, (size_t)n)) return false;
  } while (from->unread);
  return true;
}

static void *relay_link_run(void *argument) {
  struct relay_link *link = argument;
  struct tls_relay *relay = link->relay;
  bool near_ended = false, far_ended = false;
  bool up = relay_establish(relay, link->near) && relay_establish(relay, link->far);
  if (up) atomic_fetch_add(&relay->links, 1);
  while (up && !(near_ended && far_ended)) {
    struct pollfd fds[] = {{.fd = near_ended ? -1 : link->near->fd, .events = POLLIN},
                           {.fd = far_ended ? -1 : link->far->fd, .events = POLLIN}};
    up = relay_poll(relay, fds, 2);
    if (up && fds[0].revents) up = relay_pass(relay, link->near, link->far, &near_ended);
    if (up && fds[1].revents) up = relay_pass(relay, link->far, link->near, &far_ended);
  }
  tkt_stream_destroy(link->near);
  tkt_stream_destroy(link->far);
  free(link);
  return NULL;
}

static void *relay_run(void *argument) {
  struct tls_relay *relay = argument;
  struct pollfd p = {.fd = relay->listener, .events = POLLIN};
  while (relay_poll(relay, &p, 1) && relay->link_count < RELAY_LINKS) {
    const char *reason;
    int fd = tkt_accept(relay->listener, NULL, 0);
    if (fd < 0) continue;
    struct relay_link *link = calloc(1, sizeof *link);
    if (!link) abort();
    link->relay = relay;
    link->near = tkt_tls_accept(relay->tls, tkt_tcp_accepted(fd));
    link->far = tkt_tcp_connect(&relay->to, &reason);
    if (!link->near || !link->far) abort();
    pthread_create(&relay->link_threads[relay->link_count++], NULL, relay_link_run, link);
  }
  return NULL;
}

/* `tls` is borrowed. */
static struct tls_relay *tls_relay_start(struct tkt_tls *tls, uint16_t to) {
  struct tls_relay *relay = calloc(1, sizeof *relay);
  struct tkt_address any = {.host = "127.0.0.1"};
  assert_non_null(relay);
  relay->tls = tls;
  relay->to = (struct tkt_address){.host = "127.0.0.1", .port = to};
  relay->listener = tkt_listen(&any, &relay->port);
  assert_true(relay->listener >= 0);
  snprintf(relay->address, sizeof relay->address, "127.0.0.1:%u", (unsigned)relay->port);
  assert_int_equal(pthread_create(&relay->thread, NULL, relay_run, relay), 0);
  return relay;
}

static void tls_relay_stop(struct tls_relay *relay) {
  atomic_store(&relay->stop, true);
  pthread_join(relay->thread, NULL);
  for (int i = 0; i < relay->link_count; i++)
    pthread_join(relay->link_threads[i], NULL);
  close(relay->listener);
  free(relay);
}

#endif
