/* What can be seen of a running server. */
#include "server/lock_table.h"
#include "server/state.h"
#include "server/tokens.h"

struct tkt_server_stats tkt_server_stats(const struct tkt_server *server) {
  struct tkt_server_stats stats = server->stats;
  stats.next_token = server->next_token;
  return stats;
}

struct holder_visit {
  bool (*visit)(void *context, const struct tkt_holder *holder);
  void *context;
  bool stopped;
};

static void visit_lock(struct tkt_table_node *node, void *context) {
  struct holder_visit *v = context;
  struct tkt_lock *lock = TKT_CONTAINER(node, struct tkt_lock, node);
  for (struct tkt_grant *grant = lock->holds; grant && !v->stopped;
       grant = tkt_hold_of(grant, lock)->next) {
    struct tkt_holder holder = {
        .key = tkt_lock_text(lock),
        .token = grant->token,
        .until = grant->until,
        .in_commit = grant->state == TKT_GRANT_COMMITTING || grant->removal != TKT_REMOVAL_NONE,
    };
    v->stopped = !v->visit(v->context, &holder);
  }
}

void tkt_server_each_holder(const struct tkt_server *server,
                            bool (*visit)(void *context, const struct tkt_holder *holder),
                            void *context) {
  struct holder_visit v = {visit, context, false};
  tkt_table_each(&server->locks, visit_lock, &v);
}

void tkt_server_each_token(const struct tkt_server *server,
                           void (*visit)(void *context, const char *label, uint64_t accepted),
                           void *context) {
  for (size_t i = 0; i < tkt_tokens_count(server->tokens); i++)
    visit(context, tkt_tokens_label(server->tokens, i), tkt_tokens_accepted(server->tokens, i));
}
