#include "daemon/connection.h"

#include "net/tls.h"

#include <stdlib.h>
#include <unistd.h>

static void set_interest(struct tkt_loop *loop, struct tkt_connection *c) {
  unsigned wanted =
      (c->eof ? 0u : (unsigned)TKT_POLL_READ) | (c->blocked ? (unsigned)TKT_POLL_WRITE : 0u);
  if (c->dead || c->handshake || wanted == c->interest) return;
  if (tkt_poller_change(&loop->poller, c->stream->fd, wanted, &c->source) == 0)
    c->interest = wanted;
}

/* Out of the poller at once: a broken socket would be ready for ever. */
static void break_off(struct tkt_loop *loop, struct tkt_connection *c, int64_t now) {
  if (c->dead) return;
  c->dead = true;
  tkt_poller_remove(&loop->poller, c->stream->fd);
  loop->unsettled = true;
  tkt_server_gone(loop->server, c->peer, now);
}

static void read_what_came(struct tkt_loop *loop, struct tkt_connection *c, int64_t now) {
  struct tkt_stream *stream = c->stream;
  for (int reads = 0; reads < TKT_LOOP_READS_PER_TURN || stream->unread; reads++) {
    ssize_t n = stream->ops->read(stream, loop->read_buffer, TKT_LOOP_READ_SIZE);
    if (n > 0) {
      if (!c->shut)
        tkt_server_input(loop->server, c->peer, tkt_span(loop->read_buffer, (size_t)n), now);
      /* Drained; if not, the next turn sees it. */
      if (n < TKT_LOOP_READ_SIZE && !stream->unread) return;
    } else if (n == TKT_STREAM_AGAIN) {
      return;
    } else if (n == TKT_STREAM_EOF) {
      c->eof = true;
      set_interest(loop, c);
      tkt_server_eof(loop->server, c->peer, now);
      return;
    } else {
      break_off(loop, c, now);
      return;
    }
  }
}

/* A handshake costs as much CPU as hundreds of requests: it waits outside the poller for its turn,
 * so that a crowd of them delays those who have theirs behind them by a bounded time. */
static void queue_handshake(struct tkt_loop *loop, struct tkt_connection *c) {
  tkt_poller_remove(&loop->poller, c->stream->fd);
  c->interest = 0;
  tkt_list_append(&loop->handshakes, &c->writable);
}

static void ready(struct tkt_loop *loop, struct tkt_source *source, unsigned events, int64_t now) {
  struct tkt_connection *c = TKT_CONTAINER(source, struct tkt_connection, source);
  if (c->handshake) {
    queue_handshake(loop, c);
    return;
  }
  if (events & TKT_POLL_WRITE) {
    c->blocked = false;
    tkt_list_remove(&c->writable);
    tkt_list_append(&loop->writable, &c->writable);
  }
  if (!c->eof && events & (TKT_POLL_READ | TKT_POLL_BROKEN)) {
    read_what_came(loop, c, now);
  } else if (events & TKT_POLL_BROKEN) {
    /* The peer ended before and now it cannot even hear: nothing is left to wait for. */
    break_off(loop, c, now);
  }
}

static void handshake_failed(struct tkt_loop *loop, struct tkt_connection *c, int64_t now) {
  loop->handshakes_failed++;
  loop->handshake_fault = c->stream->reason;
  tkt_log_fields(loop->log, TKT_LOG_DEBUG, "handshake failed",
                 TKT_FIELD_TEXT("reason", c->stream->reason));
  break_off(loop, c, now);
}

void tkt_connection_shake_hands(struct tkt_loop *loop, struct tkt_connection *c, int64_t now) {
  int rc = c->stream->ops->establish(c->stream);
  c->interest = rc == TKT_STREAM_AGAIN ? c->stream->interest : (unsigned)TKT_POLL_READ;
  /* Back first, for break_off takes it out again. */
  int added = tkt_poller_add(&loop->poller, c->stream->fd, c->interest, &c->source);
  if (rc == TKT_STREAM_BROKEN) {
    handshake_failed(loop, c, now);
  } else if (added != 0) {
    break_off(loop, c, now);
  } else if (rc == 0) {
    c->handshake = false;
    tkt_list_append(&loop->writable, &c->writable); /* the greeting waits */
    /* What came with the end of the handshake may lie inside the stream already. */
    read_what_came(loop, c, now);
  }
}

static struct tkt_stream *accepted(struct tkt_loop *loop, int fd,
                                   const struct tkt_listen_spec *spec) {
  struct tkt_stream *plain = tkt_tcp_accepted(fd);
  if (!plain) close(fd);
  return plain && spec->tls ? tkt_tls_accept(loop->tls, plain) : plain;
}

bool tkt_connection_open(struct tkt_loop *loop, int fd, const struct tkt_listen_spec *spec,
                         int64_t now) {
  struct tkt_connection *c = calloc(1, sizeof *c);
  struct tkt_stream *stream = accepted(loop, fd, spec);
  if (!c || !stream) {
    tkt_stream_destroy(stream);
    free(c);
    return false;
  }
  c->stream = stream;
  c->source.ready = ready;
  c->interest = TKT_POLL_READ;
  c->handshake = spec->tls;
  tkt_list_init(&c->node);
  tkt_list_init(&c->writable);
  if (tkt_poller_add(&loop->poller, stream->fd, c->interest, &c->source) == 0)
    c->peer = tkt_server_accept(loop->server, spec->wire, c, now);
  if (!c->peer) {
    tkt_poller_remove(&loop->poller, stream->fd);
    tkt_stream_destroy(stream);
    free(c);
    return false;
  }
  tkt_list_append(&loop->connections, &c->node);
  loop->connection_count++;
  return true;
}

void tkt_connection_close(struct tkt_loop *loop, struct tkt_connection *c, int64_t now) {
  tkt_server_closed(loop->server, c->peer, now);
  if (!c->dead) tkt_poller_remove(&loop->poller, c->stream->fd);
  tkt_stream_destroy(c->stream);
  tkt_list_remove(&c->node);
  tkt_list_remove(&c->writable);
  free(c);
  loop->connection_count--;
  loop->unsettled = true;
  if (loop->accept_resume != TKT_NEVER) loop->accept_resume = now; /* a descriptor is free again */
}

/* True: some bytes left, look again at what the engine wants. */
static bool write_output(struct tkt_loop *loop, struct tkt_connection *c, int64_t now) {
  struct tkt_span output = tkt_peer_output(c->peer);
  if (c->stream->hands_over_whole) tkt_server_handed(loop->server, c->peer, output.len);
  ssize_t n = c->stream->ops->write(c->stream, output.data, output.len);
  if (n == TKT_STREAM_BROKEN) {
    break_off(loop, c, now);
    return true;
  }
  if (n > 0) tkt_server_sent(loop->server, c->peer, (size_t)n);
  c->blocked = n < 0 || (size_t)n < output.len;
  set_interest(loop, c);
  return n > 0;
}

/* Ends what we send; reading goes on. */
static void say_goodbye(struct tkt_loop *loop, struct tkt_connection *c) {
  c->shut = true;
  c->goodbye_due = !c->stream->ops->shut_write(c->stream);
  c->blocked = c->goodbye_due;
  set_interest(loop, c);
}

void tkt_connection_settle(struct tkt_loop *loop, struct tkt_connection *c, int64_t now) {
  for (;;) {
    unsigned wants = tkt_peer_wants(c->peer);
    if (wants & TKT_PEER_WRITE && !c->blocked && !c->dead && !c->handshake) {
      if (write_output(loop, c, now)) continue;
      wants = tkt_peer_wants(c->peer);
    }
    if (wants & TKT_PEER_CLOSE) {
      tkt_connection_close(loop, c, now);
      return;
    }
    if (c->goodbye_due && !c->blocked && !c->dead) say_goodbye(loop, c);
    if (wants & TKT_PEER_SHUT && !c->shut && !c->dead) {
      say_goodbye(loop, c);
      /* An end of the peer that came before was an end of its requests; now it ends all. */
      continue;
    }
    set_interest(loop, c);
    return;
  }
}
