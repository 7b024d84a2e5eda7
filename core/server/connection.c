/* A session as its driver sees it: bytes in, bytes out, wishes. */
#include "server/grant.h"
#include "server/peer.h"
#include "server/replies.h"
#include "server/requests.h"
#include "server/tokens.h"
#include "server/waiter.h"

static bool admits(const struct tkt_server *server) {
  return !server->draining && server->stats.sessions < server->limits.sessions &&
         server->stats.sessions_unauthenticated < server->limits.unauthenticated;
}

static bool greet(struct tkt_server *server, struct tkt_peer *peer) {
  uint8_t bytes[TKT_NONCE_BYTES];
  if (!server->nonce(server->nonce_context, bytes, sizeof bytes)) return false;
  if (tkt_peer_is_framed(peer)) {
    memcpy(peer->nonce, bytes, sizeof bytes);
    peer->nonce_len = sizeof bytes;
  } else {
    tkt_nonce_text(bytes, (char *)peer->nonce);
    peer->nonce_len = TKT_NONCE_TEXT;
  }
  struct tkt_msg msg;
  msg.kind = TKT_MSG_GREETING;
  msg.text = tkt_span_str("single");
  msg.mode = TKT_WIRE_SINGLE;
  msg.slot = TKT_SLOT_NONE;
  msg.nonce = tkt_span(peer->nonce, peer->nonce_len);
  return tkt_say(server, peer, &msg);
}

static void init_lists(struct tkt_peer *peer) {
  struct tkt_list *lists[] = {&peer->of_server,  &peer->dirty,    &peer->broken,   &peer->queued,
                              &peer->committing, &peer->answered, &peer->releasing};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    tkt_list_init(lists[i]);
}

struct tkt_peer *tkt_server_accept(struct tkt_server *server, const struct tkt_wire *wire,
                                   void *connection, int64_t now) {
  tkt_server_clock(server, now);
  struct tkt_peer *peer = admits(server) ? tkt_pool_take(&server->peer_pool) : NULL;
  if (!peer) {
    server->stats.sessions_refused++;
    return NULL;
  }
  init_lists(peer);
  tkt_timer_init(&peer->timer, TKT_TIMER_PEER);
  tkt_parser_init(&peer->parser, wire, TKT_PHASE_PROOF);
  peer->connection = connection;
  tkt_list_append(&server->peers, &peer->of_server);
  server->stats.sessions++;
  server->stats.sessions_unauthenticated++;
  if (!greet(server, peer)) {
    server->stats.sessions_refused++;
    tkt_peer_abort(server, peer);
    tkt_peer_free(server, peer);
    return NULL;
  }
  server->stats.sessions_accepted++;
  tkt_wheel_set(&server->wheel, &peer->timer, server->now + server->limits.handshake_ns);
  return peer;
}

void *tkt_peer_connection(const struct tkt_peer *peer) {
  return peer->connection;
}

static bool listens(const struct tkt_peer *peer) {
  return (peer->state == TKT_PEER_HANDSHAKE || peer->state == TKT_PEER_OPEN) &&
         !tkt_peer_is_broken(peer);
}

void tkt_server_input(struct tkt_server *server, struct tkt_peer *peer, struct tkt_span bytes,
                      int64_t now) {
  tkt_server_clock(server, now);
  if (!listens(peer)) return;
  tkt_parser_push(&peer->parser, bytes);
  while (listens(peer)) {
    struct tkt_msg msg;
    enum tkt_decode r = tkt_parser_next(&peer->parser, &msg);
    if (r == TKT_DECODE_MORE) return;
    if (r == TKT_DECODE_OK) {
      tkt_request_apply(server, peer, &msg);
    } else {
      tkt_request_fault(server, peer, r);
    }
  }
}

void tkt_server_eof(struct tkt_server *server, struct tkt_peer *peer, int64_t now) {
  tkt_server_clock(server, now);
  peer->eof = true;
  switch (peer->state) {
  case TKT_PEER_HANDSHAKE:
  case TKT_PEER_LINGERING:
    tkt_peer_abort(server, peer);
    break;
  case TKT_PEER_OPEN:
    tkt_peer_end(server, peer, TKT_WIRE_ERROR_UNKNOWN);
    break;
  case TKT_PEER_ENDING:
    tkt_peer_progress(server, peer);
    break;
  case TKT_PEER_REFUSED: /* may still read its verdict */
  case TKT_PEER_CLOSED:
    break;
  }
}

void tkt_server_gone(struct tkt_server *server, struct tkt_peer *peer, int64_t now) {
  tkt_server_clock(server, now);
  tkt_peer_abort(server, peer);
}

struct tkt_peer *tkt_server_next_dirty(struct tkt_server *server) {
  struct tkt_list *node = tkt_list_shift(&server->dirty);
  return node ? TKT_CONTAINER(node, struct tkt_peer, dirty) : NULL;
}

unsigned tkt_peer_wants(const struct tkt_peer *peer) {
  if (peer->state == TKT_PEER_CLOSED) return TKT_PEER_CLOSE;
  unsigned wants = tkt_buf_len(&peer->out) > 0 ? TKT_PEER_WRITE : 0;
  if (peer->state == TKT_PEER_LINGERING) wants |= TKT_PEER_SHUT;
  return wants;
}

struct tkt_span tkt_peer_output(const struct tkt_peer *peer) {
  return tkt_buf_span(&peer->out);
}

/* Grants of which a byte before `upto` names the token are known to somebody from now on. */
static void mark_told(struct tkt_server *server, struct tkt_peer *peer, uint64_t upto) {
  struct tkt_list *node;
  while ((node = tkt_list_first(&peer->answered))) {
    struct tkt_waiter *waiter = TKT_CONTAINER(node, struct tkt_waiter, of_peer);
    if (waiter->reply_at >= upto) return;
    waiter->grant->told = 1;
    tkt_grant_forget(server, waiter);
  }
}

void tkt_server_handed(struct tkt_server *server, struct tkt_peer *peer, size_t n) {
  if (peer->state != TKT_PEER_CLOSED) mark_told(server, peer, peer->sent + n);
}

void tkt_server_sent(struct tkt_server *server, struct tkt_peer *peer, size_t n) {
  if (peer->state == TKT_PEER_CLOSED) return;
  size_t len = tkt_buf_len(&peer->out);
  if (n > len) n = len;
  tkt_buf_consume(&peer->out, n);
  peer->sent += n;
  mark_told(server, peer, peer->sent);
  if (n < len) return;
  tkt_output_return(server, peer);
  tkt_peer_progress(server, peer);
}

void tkt_server_closed(struct tkt_server *server, struct tkt_peer *peer, int64_t now) {
  tkt_server_clock(server, now);
  tkt_peer_abort(server, peer);
  tkt_peer_free(server, peer);
}
