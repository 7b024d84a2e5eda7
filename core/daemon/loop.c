#include "daemon/loop.h"

#include "daemon/connection.h"
#include "net/clock.h"
#include "net/listener.h"
#include "net/tls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tkt_loop_open(struct tkt_loop *loop, struct tkt_server *server, struct tkt_log *log) {
  memset(loop, 0, sizeof *loop);
  loop->server = server;
  loop->log = log;
  loop->accept_resume = TKT_NEVER;
  tkt_list_init(&loop->connections);
  tkt_list_init(&loop->writable);
  tkt_list_init(&loop->handshakes);
  loop->read_buffer = malloc(TKT_LOOP_READ_SIZE);
  if (!loop->read_buffer) return -ENOMEM;
  int rc = tkt_poller_open(&loop->poller);
  if (rc != 0) {
    free(loop->read_buffer);
    loop->read_buffer = NULL;
  }
  return rc;
}

/* --- accepting ----------------------------------------------------------------------------------
 */

static void watch_listeners(struct tkt_loop *loop, unsigned events) {
  for (size_t i = 0; i < loop->listener_count; i++)
    tkt_poller_change(&loop->poller, loop->listeners[i].fd, events, &loop->listeners[i].source);
}

/* The waiting connection cannot be taken and stays ready: looking again and again would burn the
 * CPU that the living sessions need. */
static void pause_accepting(struct tkt_loop *loop, int error, int64_t now) {
  watch_listeners(loop, 0);
  loop->accept_resume = now + TKT_LOOP_ACCEPT_PAUSE_NS;
  tkt_log_fields(loop->log, TKT_LOG_WARNING, "no connection can be accepted for now",
                 TKT_FIELD_TEXT("reason", strerror(error)),
                 TKT_FIELD_NUMBER("connections", loop->connection_count));
}

static void accept_ready(struct tkt_loop *loop, struct tkt_source *source, unsigned events,
                         int64_t now) {
  struct tkt_listener *listener = TKT_CONTAINER(source, struct tkt_listener, source);
  (void)events;
  for (int i = 0; i < TKT_LOOP_ACCEPTS_PER_TURN && loop->accept_resume == TKT_NEVER; i++) {
    char from[64];
    int fd = tkt_accept(listener->fd, from, sizeof from);
    if (fd >= 0) {
      bool taken = tkt_connection_open(loop, fd, &listener->spec, now);
      tkt_log_fields(loop->log, TKT_LOG_DEBUG, taken ? "connected" : "connection refused, limit",
                     TKT_FIELD_TEXT("peer", from));
    } else if (fd == -EAGAIN) {
      return;
    } else if (fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM) {
      pause_accepting(loop, -fd, now);
    } /* anything else is the end of one connection that never began */
  }
}

void tkt_loop_use_tls(struct tkt_loop *loop, struct tkt_tls *tls) {
  tkt_tls_free(loop->tls);
  loop->tls = tls;
}

int tkt_loop_listen(struct tkt_loop *loop, const struct tkt_listen_spec *spec) {
  if (loop->listener_count == TKT_LISTENERS_MAX) return -E2BIG;
  struct tkt_listener *listener = &loop->listeners[loop->listener_count];
  listener->spec = *spec;
  listener->source.ready = accept_ready;
  listener->fd = tkt_listen(&spec->address, &listener->port);
  if (listener->fd < 0) return listener->fd;
  int rc = tkt_poller_add(&loop->poller, listener->fd, TKT_POLL_READ, &listener->source);
  if (rc != 0) {
    close(listener->fd);
    return rc;
  }
  loop->listener_count++;
  return 0;
}

void tkt_loop_stop_listening(struct tkt_loop *loop) {
  for (size_t i = 0; i < loop->listener_count; i++) {
    tkt_poller_remove(&loop->poller, loop->listeners[i].fd);
    close(loop->listeners[i].fd);
  }
  loop->listener_count = 0;
  loop->accept_resume = TKT_NEVER;
}

/* --- a turn -------------------------------------------------------------------------------------
 */

static void sleep_until(struct tkt_loop *loop, int64_t wake_by, struct tkt_poll_event *events,
                        int *count_out) {
  int64_t due = tkt_server_next_deadline(loop->server);
  if (loop->accept_resume < due) due = loop->accept_resume;
  if (wake_by < due) due = wake_by;
  bool block = !loop->unsettled && tkt_list_empty(&loop->handshakes) && due > tkt_clock_now();
  if (block) tkt_poller_arm(&loop->poller, due);
  *count_out = tkt_poller_wait(&loop->poller, events, TKT_POLL_ROOM, block);
}

static void shake_hands(struct tkt_loop *loop, int64_t now) {
  int64_t end = now + TKT_LOOP_HANDSHAKE_NS;
  for (int i = 0; i < TKT_LOOP_HANDSHAKES_PER_TURN; i++) {
    if (i > 0 && tkt_clock_now() >= end) return;
    struct tkt_list *node = tkt_list_shift(&loop->handshakes);
    if (!node) return;
    tkt_connection_shake_hands(loop, TKT_CONTAINER(node, struct tkt_connection, writable), now);
  }
}

static void settle(struct tkt_loop *loop, int64_t now) {
  loop->unsettled = false;
  struct tkt_list *node;
  while ((node = tkt_list_shift(&loop->writable)))
    tkt_connection_settle(loop, TKT_CONTAINER(node, struct tkt_connection, writable), now);
  struct tkt_peer *peer;
  while ((peer = tkt_server_next_dirty(loop->server)))
    tkt_connection_settle(loop, tkt_peer_connection(peer), now);
}

void tkt_loop_turn(struct tkt_loop *loop, int64_t wake_by) {
  struct tkt_poll_event events[TKT_POLL_ROOM];
  int count = 0;
  sleep_until(loop, wake_by, events, &count);
  int64_t now = tkt_clock_now();
  for (int i = 0; i < count; i++) {
    struct tkt_source *source = events[i].source;
    source->ready(loop, source, events[i].events, now);
  }
  shake_hands(loop, now);
  if (loop->accept_resume <= now) {
    loop->accept_resume = TKT_NEVER;
    watch_listeners(loop, TKT_POLL_READ);
  }
  /* Read again: a lease begins after its request was read. */
  now = tkt_clock_now();
  tkt_server_turn(loop->server, now);
  settle(loop, now);
}

void tkt_loop_close(struct tkt_loop *loop) {
  if (!loop->read_buffer) return;
  tkt_loop_stop_listening(loop);
  int64_t now = tkt_clock_now();
  struct tkt_list *node;
  while ((node = tkt_list_first(&loop->connections)))
    tkt_connection_close(loop, TKT_CONTAINER(node, struct tkt_connection, node), now);
  tkt_poller_close(&loop->poller);
  tkt_loop_use_tls(loop, NULL);
  free(loop->read_buffer);
  loop->read_buffer = NULL;
}
