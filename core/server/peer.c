#include "server/peer.h"

#include "server/grant.h"
#include "server/release.h"
#include "server/replies.h"
#include "server/waiter.h"

/* How long a refused client waits for its verdict. */
#define REFUSAL_DELAY_NS (1 * TKT_S)
/* A session to which nothing was said for so long gets a sign of life. */
#define KEEPALIVE_NS (10 * TKT_S)
/* For the last output of a session to be taken. */
#define LAST_WRITE_NS (3 * TKT_S)
/* For what a peer still sends after our end of stream. */
#define LINGER_NS (1 * TKT_S)

static struct tkt_waiter *waiter_of(struct tkt_list *node) {
  return TKT_CONTAINER(node, struct tkt_waiter, of_peer);
}

void tkt_peer_break(struct tkt_server *server, struct tkt_peer *peer) {
  server->stats.slow_readers++;
  tkt_list_append(&server->broken, &peer->broken);
}

void tkt_peers_reap(struct tkt_server *server) {
  struct tkt_list *node;
  while ((node = tkt_list_shift(&server->broken)))
    tkt_peer_abort(server, TKT_CONTAINER(node, struct tkt_peer, broken));
}

static void say_alive(struct tkt_server *server, struct tkt_peer *peer) {
  tkt_say_alive(server, peer);
  tkt_wheel_set(&server->wheel, &peer->timer, server->now + KEEPALIVE_NS);
}

void tkt_peer_open(struct tkt_server *server, struct tkt_peer *peer) {
  peer->state = TKT_PEER_OPEN;
  peer->authenticated = true;
  peer->parser.phase = TKT_PHASE_REQUESTS;
  server->stats.sessions_unauthenticated--;
  if (tkt_peer_is_framed(peer)) tkt_say_accepted(server, peer);
  say_alive(server, peer);
}

void tkt_peer_refuse(struct tkt_server *server, struct tkt_peer *peer) {
  server->stats.auth_failed++;
  peer->state = TKT_PEER_REFUSED;
  tkt_wheel_set(&server->wheel, &peer->timer, server->now + REFUSAL_DELAY_NS);
}

/* A grant decided in this very turn is not in commit yet: the end of the session comes first. */
static bool still_staged(const struct tkt_waiter *waiter) {
  return waiter->staged && waiter->grant->state == TKT_GRANT_COMMITTING &&
         waiter->grant->changes == 1;
}

static void withdraw_waiters(struct tkt_server *server, struct tkt_peer *peer, bool tell) {
  struct tkt_list *first;
  while ((first = tkt_list_first(&peer->queued)))
    tkt_waiter_withdraw(server, waiter_of(first), tell);
  TKT_LIST_EACH(node, next, &peer->committing) {
    if (still_staged(waiter_of(node))) tkt_waiter_withdraw(server, waiter_of(node), tell);
  }
}

static void begin_end(struct tkt_server *server, struct tkt_peer *peer, enum tkt_wire_error error) {
  tkt_wheel_cancel(&server->wheel, &peer->timer);
  peer->state = TKT_PEER_ENDING;
  peer->error = error;
  withdraw_waiters(server, peer, true);
  tkt_peer_progress(server, peer);
}

void tkt_peer_end(struct tkt_server *server, struct tkt_peer *peer, enum tkt_wire_error error) {
  if (peer->state == TKT_PEER_OPEN) begin_end(server, peer, error);
}

static void close_now(struct tkt_server *server, struct tkt_peer *peer) {
  tkt_wheel_cancel(&server->wheel, &peer->timer);
  peer->state = TKT_PEER_CLOSED;
  tkt_peer_touch(server, peer);
}

void tkt_peer_progress(struct tkt_server *server, struct tkt_peer *peer) {
  if (peer->state != TKT_PEER_ENDING || tkt_peer_is_broken(peer)) return;
  if (!tkt_list_empty(&peer->committing) || !tkt_list_empty(&peer->releasing)) return;
  if (peer->error != TKT_WIRE_ERROR_UNKNOWN) {
    enum tkt_wire_error error = peer->error;
    peer->error = TKT_WIRE_ERROR_UNKNOWN;
    if (!tkt_say_last(server, peer, error)) return;
  }
  if (tkt_buf_len(&peer->out) > 0) {
    if (!tkt_timer_armed(&peer->timer))
      tkt_wheel_set(&server->wheel, &peer->timer, server->now + LAST_WRITE_NS);
  } else if (peer->eof) {
    close_now(server, peer);
  } else {
    peer->state = TKT_PEER_LINGERING;
    tkt_wheel_set(&server->wheel, &peer->timer, server->now + LINGER_NS);
  }
  tkt_peer_touch(server, peer);
}

void tkt_peer_abort(struct tkt_server *server, struct tkt_peer *peer) {
  if (peer->state == TKT_PEER_CLOSED) return;
  tkt_list_remove(&peer->broken);
  close_now(server, peer);
  withdraw_waiters(server, peer, false);
  struct tkt_list *node;
  while ((node = tkt_list_first(&peer->committing)))
    tkt_waiter_enlist(server, waiter_of(node), NULL, TKT_WAITER_COMMITTING);
  while ((node = tkt_list_first(&peer->releasing)))
    tkt_release_drop(server, TKT_CONTAINER(node, struct tkt_release, of_peer));
  while ((node = tkt_list_first(&peer->answered)))
    tkt_grant_forget(server, waiter_of(node));
  tkt_output_return(server, peer);
}

void tkt_peer_timer(struct tkt_server *server, struct tkt_peer *peer) {
  switch (peer->state) {
  case TKT_PEER_REFUSED:
    begin_end(server, peer, TKT_WIRE_ERROR_AUTH_FAILED);
    break;
  case TKT_PEER_OPEN:
    if (server->now - peer->last_output >= KEEPALIVE_NS && tkt_buf_len(&peer->out) == 0) {
      say_alive(server, peer);
    } else {
      int64_t from = tkt_buf_len(&peer->out) ? server->now : peer->last_output;
      tkt_wheel_set(&server->wheel, &peer->timer, from + KEEPALIVE_NS);
    }
    break;
  case TKT_PEER_ENDING:
    if (tkt_list_linked(&peer->dirty)) { /* slept through it: the output was not even offered yet */
      tkt_wheel_set(&server->wheel, &peer->timer, server->now + LAST_WRITE_NS);
      break;
    }
    tkt_peer_abort(server, peer);
    break;
  case TKT_PEER_HANDSHAKE:
  case TKT_PEER_LINGERING:
    tkt_peer_abort(server, peer);
    break;
  case TKT_PEER_CLOSED:
    break;
  }
}

void tkt_peer_free(struct tkt_server *server, struct tkt_peer *peer) {
  tkt_list_remove(&peer->of_server);
  tkt_list_remove(&peer->dirty);
  tkt_parser_release(&peer->parser);
  server->stats.sessions--;
  if (!peer->authenticated) server->stats.sessions_unauthenticated--;
  peer->gone = true;
  if (peer->moved_away == 0) tkt_pool_give(&server->peer_pool, peer);
}

void tkt_peer_unmark(struct tkt_server *server, struct tkt_peer *peer) {
  if (--peer->moved_away == 0 && peer->gone) tkt_pool_give(&server->peer_pool, peer);
}
