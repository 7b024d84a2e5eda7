#include "server/server.h"

#include "server/commit.h"
#include "server/grant.h"
#include "server/lock_table.h"
#include "server/peer.h"
#include "server/release.h"
#include "server/replies.h"
#include "server/tokens.h"
#include "server/waiter.h"

#include <stdlib.h>

struct tkt_server *tkt_server_new(const struct tkt_server_config *config, int64_t now) {
  struct tkt_server *server = calloc(1, sizeof *server);
  if (!server) return NULL;
  server->now = now;
  server->limits = config->limits;
  server->secret = config->hash_secret;
  server->storage = config->storage;
  server->nonce = config->nonce;
  server->nonce_context = config->nonce_context;
  server->next_token = config->first_token ? config->first_token : 1;
  tkt_list_init(&server->peers);
  tkt_list_init(&server->dirty);
  tkt_list_init(&server->broken);
  tkt_wheel_init(&server->wheel, now);
  tkt_pool_init(&server->peer_pool, sizeof(struct tkt_peer), SIZE_MAX);
  tkt_locks_init(server);
  tkt_waiters_init(server);
  tkt_grants_init(server);
  tkt_releases_init(server);
  server->tokens = tkt_tokens_new(config->tokens, config->token_count);
  if (!tkt_commit_init(server) || !server->tokens) {
    tkt_server_free(server);
    return NULL;
  }
  return server;
}

/* A hold left when the server goes: its waiter, if any, has no session any more. */
static void drop_grants(struct tkt_table_node *node, void *context) {
  struct tkt_server *server = context;
  struct tkt_lock *lock = TKT_CONTAINER(node, struct tkt_lock, node);
  while (lock->holds) {
    struct tkt_grant *grant = lock->holds;
    if (grant->waiter) tkt_waiter_discard(server, grant->waiter);
    if (grant->removal == TKT_REMOVAL_NONE) tkt_wheel_cancel(&server->wheel, &grant->lease);
    for (size_t i = 0; i < grant->key_count; i++)
      tkt_lock_vacate(grant->holds[i].lock, grant);
    grant->state = TKT_GRANT_VOID;
    grant->changes = 0;
    grant->replies = 0;
    tkt_grant_settle_void(server, grant);
  }
}

void tkt_server_free(struct tkt_server *server) {
  if (!server) return;
  struct tkt_list *node;
  while ((node = tkt_list_first(&server->peers)))
    tkt_server_closed(server, TKT_CONTAINER(node, struct tkt_peer, of_server), server->now);
  tkt_commit_free(server);
  tkt_table_each(&server->locks, drop_grants, server);
  tkt_locks_free(server);
  tkt_waiters_free(server);
  tkt_grants_free(server);
  tkt_releases_free(server);
  tkt_pool_release(&server->peer_pool);
  tkt_outputs_free(server);
  tkt_tokens_free(server->tokens);
  free(server);
}

static void run_timers(struct tkt_server *server) {
  struct tkt_timer *timer;
  while ((timer = tkt_wheel_pop(&server->wheel, server->now))) {
    switch ((enum tkt_timer_kind)timer->kind) {
    case TKT_TIMER_WAIT:
      tkt_waiter_time_out(server, TKT_CONTAINER(timer, struct tkt_waiter, timer));
      break;
    case TKT_TIMER_LEASE:
      tkt_grant_lapse(server, TKT_CONTAINER(timer, struct tkt_grant, lease));
      break;
    case TKT_TIMER_PEER:
      tkt_peer_timer(server, TKT_CONTAINER(timer, struct tkt_peer, timer));
      break;
    }
  }
}

void tkt_server_turn(struct tkt_server *server, int64_t now) {
  tkt_server_clock(server, now);
  tkt_peers_reap(server);
  run_timers(server);
  tkt_peers_reap(server);
  tkt_waiters_advance(server);
  tkt_commit_emit(server);
  tkt_peers_reap(server);
}

int64_t tkt_server_next_deadline(const struct tkt_server *server) {
  if (server->ready_first || !tkt_list_empty(&server->broken) || tkt_commit_waiting(server))
    return server->now;
  return tkt_wheel_next(&server->wheel);
}

void tkt_server_drain(struct tkt_server *server, int64_t now) {
  tkt_server_clock(server, now);
  server->draining = true;
  TKT_LIST_EACH(node, next, &server->peers) {
    struct tkt_peer *peer = TKT_CONTAINER(node, struct tkt_peer, of_server);
    if (peer->state == TKT_PEER_HANDSHAKE) tkt_peer_abort(server, peer);
    tkt_peer_end(server, peer, TKT_WIRE_ERROR_UNKNOWN);
  }
}

bool tkt_server_drained(const struct tkt_server *server) {
  return tkt_list_empty(&server->peers) && !tkt_commit_pending(server);
}

bool tkt_server_replace_tokens(struct tkt_server *server, const struct tkt_client_token *tokens,
                               size_t count) {
  struct tkt_tokens *fresh = tkt_tokens_new(tokens, count);
  if (!fresh) return false;
  tkt_tokens_inherit(fresh, server->tokens);
  tkt_tokens_free(server->tokens);
  server->tokens = fresh;
  return true;
}
