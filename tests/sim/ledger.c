#include "ledger.h"

#define TOKEN(t) ((unsigned long long)(t))

int ledger_key(const struct sim *sim, struct tkt_span key) {
  for (unsigned i = 0; i < sim->profile.keys; i++)
    if (tkt_span_equal(sim->keys[i], key)) return (int)i;
  return -1;
}

unsigned ledger_keys(const struct sim *sim, const struct tkt_span *keys, size_t count) {
  unsigned mask = 0;
  for (size_t i = 0; i < count; i++) {
    int key = ledger_key(sim, keys[i]);
    if (key < 0 || (mask & 1u << key)) return 0;
    mask |= 1u << key;
  }
  return mask;
}

uint64_t ledger_name(const struct sim_conn *conn, uint64_t id) {
  return conn->wire == 2 ? id : (uint64_t)conn->id << 32 | (id & UINT32_MAX);
}

struct sim_grant *ledger_grant(struct sim *sim, uint64_t token) {
  size_t low = 0, high = sim->grant_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (sim->grants[middle].token < token)
      low = middle + 1;
    else
      high = middle;
  }
  return low < sim->grant_count && sim->grants[low].token == token ? &sim->grants[low] : NULL;
}

struct sim_request *ledger_request(struct sim *sim, uint64_t owner) {
  for (size_t i = sim->request_count; i > 0; i--)
    if (sim->requests[i - 1].owner == owner) return &sim->requests[i - 1];
  return NULL;
}

bool ledger_live(const struct sim *sim, const struct sim_grant *grant) {
  return grant->run == sim->server.run && sim->server.engine && grant->fate == SIM_DONE &&
         !grant->released && sim->now < grant->until;
}

/* A grant may be emitted only where nothing else can still hold the key. */
static void check_free(struct sim *sim, unsigned keys, uint64_t token, uint64_t batch) {
  for (size_t i = sim->settled_grants; i < sim->grant_count; i++) {
    const struct sim_grant *g = &sim->grants[i];
    if (!(g->keys & keys) || g->run != sim->server.run || g->released || g->fate == SIM_FAILED)
      continue;
    if (g->release_emitted && g->batch == batch) continue;
    bool over = g->fate != SIM_UNDECIDED && sim->now >= g->until;
    if (!over)
      sim_fail(sim, "server grants k%x to token %llu while token %llu occupies it (fate %d)", keys,
               TOKEN(token), TOKEN(g->token), (int)g->fate);
  }
}

static void emitted_grant(struct sim *sim, uint64_t batch, const struct tkt_change *change) {
  unsigned keys = ledger_keys(sim, change->keys, change->key_count);
  if (keys == 0) {
    sim_fail(sim, "server grants a key nobody asked for");
    return;
  }
  if (sim->grant_count > 0 && sim->grants[sim->grant_count - 1].token >= change->token)
    sim_fail(sim, "token %llu is granted after token %llu", TOKEN(change->token),
             TOKEN(sim->grants[sim->grant_count - 1].token));
  check_free(sim, keys, change->token, batch);
  if (sim->grant_count == SIM_GRANTS || sim->failed) return;
  sim_note(sim, "server grants k%x token %llu in batch %llu", keys, TOKEN(change->token),
           (unsigned long long)batch);
  sim->grants[sim->grant_count++] = (struct sim_grant){.token = change->token,
                                                       .keys = keys,
                                                       .run = sim->server.run,
                                                       .lease_ns = change->lease_ns,
                                                       .until = TKT_NEVER,
                                                       .client = -1,
                                                       .duty_at = TKT_NEVER};
  sim->server.commits_this_turn++;
}

static void emitted_extension(struct sim *sim, const struct tkt_change *change) {
  struct sim_grant *g = ledger_grant(sim, change->token);
  sim_note(sim, "server extends token %llu", TOKEN(change->token));
  if (!sim->profile.legacies)
    sim_fail(sim, "server extends token %llu, yet no client asks again", TOKEN(change->token));
  else if (!g || g->run != sim->server.run || g->released || g->release_emitted)
    sim_fail(sim, "server extends token %llu, which is over", TOKEN(change->token));
}

static void emitted_end(struct sim *sim, uint64_t batch, const struct tkt_change *change) {
  struct sim_grant *g = ledger_grant(sim, change->token);
  bool expire = change->kind == TKT_CHANGE_EXPIRE;
  sim_note(sim, "server %s token %llu in batch %llu", expire ? "expires" : "releases",
           TOKEN(change->token), (unsigned long long)batch);
  if (!g || g->run != sim->server.run) {
    sim_fail(sim, "server ends token %llu, which it did not grant", TOKEN(change->token));
    return;
  }
  if (g->released) sim_fail(sim, "server ends token %llu a second time", TOKEN(g->token));
  if (expire && sim->now < g->until)
    sim_fail(sim, "server expires token %llu %.6f s early", TOKEN(g->token),
             (double)(g->until - sim->now) / 1e9);
  if (!expire && g->fate == SIM_UNKNOWN && !g->release_sent)
    sim_fail(sim, "server takes back token %llu, of which nobody can say whether it is stored",
             TOKEN(g->token));
  g->release_emitted = true;
  g->expired = expire;
  g->batch = batch;
  g->release_fate = SIM_UNDECIDED;
}

void ledger_emitted(struct sim *sim, uint64_t batch, const struct tkt_change *changes,
                    size_t count) {
  for (size_t i = 0; i < count; i++) {
    switch (changes[i].kind) {
    case TKT_CHANGE_GRANT:
      emitted_grant(sim, batch, &changes[i]);
      break;
    case TKT_CHANGE_EXTEND:
      emitted_extension(sim, &changes[i]);
      break;
    case TKT_CHANGE_RELEASE:
    case TKT_CHANGE_EXPIRE:
      emitted_end(sim, batch, &changes[i]);
      break;
    }
  }
}

void ledger_decided(struct sim *sim, const struct sim_batch *batch, enum tkt_commit result) {
  enum sim_fate fate = result == TKT_COMMIT_DONE     ? SIM_DONE
                       : result == TKT_COMMIT_FAILED ? SIM_FAILED
                                                     : SIM_UNKNOWN;
  const struct sim_clock *clock = &sim->server.clock;
  for (size_t i = 0; i < batch->count; i++) {
    struct sim_grant *g = ledger_grant(sim, batch->changes[i].token);
    if (!g) continue;
    if (batch->changes[i].kind == TKT_CHANGE_EXTEND) {
      if (fate == SIM_FAILED) continue;
      /* A stored extension names token and keys: the grant is stored with it. */
      if (fate == SIM_DONE && g->fate == SIM_UNKNOWN) g->fate = SIM_DONE;
      int64_t until = sim_world(clock, sim_local(sim, clock) + batch->changes[i].lease_ns);
      if (until > g->until) g->until = until;
    } else if (batch->changes[i].kind == TKT_CHANGE_GRANT) {
      g->fate = fate;
      g->decided_at = sim->now;
      if (fate != SIM_FAILED) g->until = sim_world(clock, sim_local(sim, clock) + g->lease_ns);
      if (g->client >= 0 && fate == SIM_FAILED)
        sim_fail(sim, "token %llu was told before its commit failed", TOKEN(g->token));
    } else {
      g->release_fate = fate;
      g->release_emitted = fate == SIM_UNDECIDED;
      if (fate == SIM_DONE) g->released = true;
    }
  }
}

void ledger_session_over(struct sim *sim, struct sim_conn *conn) {
  if (tkt_parser_mid_frame(&conn->taps[SIM_TAP_REPLIED])) sim->partly_told = true;
  for (size_t i = sim->settled_requests; i < sim->request_count; i++)
    if (sim->requests[i].conn == conn->id) sim->requests[i].over = true;
}

void ledger_client_left(struct sim *sim, const struct sim_conn *conn) {
  for (size_t i = sim->settled_requests; i < sim->request_count; i++) {
    struct sim_request *r = &sim->requests[i];
    if (r->conn != conn->id) continue;
    r->left = true;
    r->hurt = conn->faulted || sim->last_fault >= conn->dialled_at;
    /* S3: a session closed for a cancel is read to its end. */
    if (sim->profile.quiet && !r->answered)
      sim_fail(sim, "c%u leaves conn %u with a request unanswered", r->client, conn->id);
  }
}

static bool waits(const struct sim *sim, const struct sim_request *r) {
  return !r->over && r->arrival && r->run == sim->server.run;
}

/* Among the requests that wait for exactly these keys, the one that came first. */
static struct sim_request *first_waiting(struct sim *sim, unsigned keys) {
  struct sim_request *first = NULL;
  for (size_t i = sim->settled_requests; i < sim->request_count; i++) {
    struct sim_request *r = &sim->requests[i];
    if (r->keys == keys && waits(sim, r) && (!first || r->arrival < first->arrival)) first = r;
  }
  return first;
}

/* Nobody who came earlier still waits for one of the keys: so no set starves, and none is passed by
 * a later one. */
static void check_passed(struct sim *sim, const struct sim_grant *g,
                         const struct sim_request *winner) {
  for (size_t i = sim->settled_requests; i < sim->request_count; i++) {
    const struct sim_request *r = &sim->requests[i];
    if ((r->keys & g->keys) && waits(sim, r) && r->arrival < winner->arrival)
      sim_fail(sim, "k%x went to arrival %llu before arrival %llu for k%x", g->keys,
               (unsigned long long)winner->arrival, (unsigned long long)r->arrival, r->keys);
  }
}

/* Replies of a turn leave in it on a quiet network, so who still waits at its end is known. */
static void check_fairness(struct sim *sim) {
  for (size_t i = sim->settled_grants; i < sim->grant_count; i++) {
    struct sim_grant *g = &sim->grants[i];
    if (g->run != sim->server.run || g->expected_owner || g->fate == SIM_FAILED || g->released)
      continue;
    const struct sim_request *winner =
        g->owner ? ledger_request(sim, g->owner) : first_waiting(sim, g->keys);
    g->expected_owner = winner ? winner->owner : UINT64_MAX;
    if (winner) check_passed(sim, g, winner);
  }
}

struct holders {
  struct sim *sim;
  struct {
    uint64_t token;
    unsigned keys;
  } seen[64];
  size_t count;
};

static unsigned seen_keys(const struct holders *holders, uint64_t token) {
  unsigned keys = 0;
  for (size_t i = 0; i < holders->count; i++)
    if (holders->seen[i].token == token) keys |= holders->seen[i].keys;
  return keys;
}

static bool visit_holder(void *context, const struct tkt_holder *holder) {
  struct holders *holders = context;
  struct sim *sim = holders->sim;
  struct sim_grant *g = ledger_grant(sim, holder->token);
  /* Without memory for a batch, a decided grant waits to be emitted. */
  if (!g && holder->in_commit && sim->profile.memory) return true;
  if (!g || g->run != sim->server.run) {
    sim_fail(sim, "server holds token %llu, which was never granted", TOKEN(holder->token));
    return false;
  }
  unsigned keys = ledger_keys(sim, &holder->key, 1);
  if (!(g->keys & keys))
    sim_fail(sim, "server holds token %llu on another key", TOKEN(holder->token));
  if (g->released)
    sim_fail(sim, "server still holds token %llu after its release", TOKEN(holder->token));
  if (g->fate == SIM_FAILED)
    sim_fail(sim, "server holds token %llu, whose commit failed", TOKEN(holder->token));
  if (holders->count == 64) return false;
  holders->seen[holders->count].token = holder->token;
  holders->seen[holders->count++].keys = keys;
  return true;
}

static void check_holders(struct sim *sim) {
  struct holders holders = {.sim = sim};
  tkt_server_each_holder(sim->server.engine, visit_holder, &holders);
  for (size_t i = sim->settled_grants; i < sim->grant_count; i++) {
    const struct sim_grant *g = &sim->grants[i];
    unsigned seen = seen_keys(&holders, g->token);
    if (seen && seen != g->keys) /* held whole or not at all */
      sim_fail(sim, "server holds token %llu on k%x of k%x alone", TOKEN(g->token), seen, g->keys);
    if (!ledger_live(sim, g) || g->release_emitted) continue;
    if (!seen)
      sim_fail(sim, "server forgot token %llu of k%x %.6f s before its lease ends", TOKEN(g->token),
               g->keys, (double)(g->until - sim->now) / 1e9);
  }
}

void ledger_turn_end(struct sim *sim) {
  if (sim->profile.quiet) check_fairness(sim);
  check_holders(sim);
  while (sim->settled_grants < sim->grant_count) {
    const struct sim_grant *g = &sim->grants[sim->settled_grants];
    bool over = g->run != sim->server.run || g->fate == SIM_FAILED || g->released ||
                (g->fate != SIM_UNDECIDED && sim->now > g->until + 10 * TKT_S);
    if (!over) break;
    sim->settled_grants++;
  }
  while (sim->settled_requests < sim->request_count) {
    const struct sim_request *r = &sim->requests[sim->settled_requests];
    if (!r->over || !(r->answered || r->left)) break;
    sim->settled_requests++;
  }
}
