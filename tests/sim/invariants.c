#include "invariants.h"

#include "ledger.h"
#include "peek.h"

/* The first try, and the pauses that are shorter than the longest one (M11). */
enum { SIM_FIRST_PAUSES = 6 };

#define TOKEN(t) ((unsigned long long)(t))

static bool believed(const struct sim *sim, const struct sim_ticket *t) {
  return t->believed && sim_local(sim, t->clock) < t->valid_until;
}

/* A later run of the server does not know the holders of an earlier one, unless it waited for them.
 * Tokens still tell old from new. */
static bool may_overlap(const struct sim *sim, const struct sim_ticket *a,
                        const struct sim_ticket *b) {
  return a->run != b->run && !sim->profile.restart_waits;
}

static void check_beliefs(struct sim *sim) {
  if (sim->profile.lies) return;
  while (sim->settled_tickets < sim->ticket_count &&
         !believed(sim, &sim->tickets[sim->settled_tickets]))
    sim->settled_tickets++;
  for (size_t i = sim->settled_tickets; i < sim->ticket_count; i++) {
    struct sim_ticket *a = &sim->tickets[i];
    if (!believed(sim, a)) continue;
    for (size_t j = i + 1; j < sim->ticket_count; j++) {
      struct sim_ticket *b = &sim->tickets[j];
      if ((b->keys & a->keys) && believed(sim, b) && !may_overlap(sim, a, b))
        sim_fail(sim, "mutual exclusion: c%u holds k%x by token %llu, c%u by token %llu", a->client,
                 a->keys, TOKEN(a->token), b->client, TOKEN(b->token));
    }
    const struct sim_grant *g = ledger_grant(sim, a->token);
    if (g && g->run == sim->server.run && sim->server.engine && !ledger_live(sim, g))
      sim_fail(sim, "c%u believes in token %llu of k%x, the server does not hold it", a->client,
               TOKEN(a->token), a->keys);
  }
}

/* R3, G3: a background release leaves within 5 s where nothing keeps it. */
static void check_duties(struct sim *sim) {
  if (sim->profile.lies) return;
  for (size_t i = sim->settled_grants; i < sim->grant_count; i++) {
    const struct sim_grant *g = &sim->grants[i];
    if (g->duty_at == TKT_NEVER || g->release_sent || !ledger_live(sim, g)) continue;
    if (sim->now <= g->duty_at + 5 * TKT_S + SIM_SLACK) continue;
    if (sim->profile.quiet || sim->last_fault + 15 * TKT_S < g->duty_at)
      sim_fail(sim, "c%d never released token %llu of k%x, which nobody took", g->client,
               TOKEN(g->token), g->keys);
  }
}

/* A grant of which no byte was told is taken back when its session is gone; stalls last less. */
static void check_untold(struct sim *sim) {
  if (sim->profile.commit_fail + sim->profile.commit_unknown + sim->profile.memory > 0 ||
      sim->partly_told)
    return;
  for (size_t i = sim->settled_grants; i < sim->grant_count; i++) {
    const struct sim_grant *g = &sim->grants[i];
    if (g->told || !ledger_live(sim, g) || sim->now <= g->decided_at + 14 * TKT_S) continue;
    if (sim->server.asleep_until > g->decided_at || sim->last_pause > g->decided_at) continue;
    sim_fail(sim, "server keeps token %llu of k%x, which it told nobody", TOKEN(g->token), g->keys);
  }
}

void invariants_step(struct sim *sim) {
  check_untold(sim);
  check_beliefs(sim);
  check_duties(sim);
}

static void check_call(struct sim *sim, const struct sim_client *client, unsigned actor,
                       int64_t bound, const char *what) {
  if (client->ticked_at > bound + SIM_SLACK)
    sim_fail(sim, "c%u a%u: %s is %.6f s beyond its bound", client->index, actor, what,
             (double)(client->ticked_at - bound) / 1e9);
  int64_t next = tkt_client_next_deadline(client->engine);
  if (next > bound + SIM_SLACK)
    sim_fail(sim, "c%u a%u: no timer stands for the bound of %s", client->index, actor, what);
}

void invariants_after_tick(struct sim *sim, const struct sim_client *client) {
  for (unsigned i = 0; i < sim->profile.actors; i++) {
    const struct sim_actor *a = &client->actors[i];
    if (a->pending)
      check_call(sim, client, i, a->bound,
                 a->state == SIM_ACQUIRING   ? "an acquire"
                 : a->state == SIM_RELEASING ? "a release"
                                             : "a call");
    if (a->second_pending) check_call(sim, client, i, a->second_bound, "a joined release");
  }
  if (client->closing && client->close_call.outcome == TKT_PENDING)
    check_call(sim, client, 99, client->close_bound, "the close");
}

void invariants_hint(struct sim *sim, const struct sim_client *client) {
  int hint = peek_hint(client->engine);
  if (hint < 0) return;
  if (!(client->ever_named & 1u << hint))
    sim_fail(sim, "c%u follows node %d, which nobody named", client->index, hint);
  if (client->naming == SIM_NAMED_NOBODY ||
      (client->naming == SIM_NAMED_NODE && client->named != (unsigned)hint))
    sim_fail(sim, "c%u follows node %d on, though it was told otherwise", client->index, hint);
}

void invariants_taken(struct sim *sim, struct sim_actor *actor, const struct tkt_ticket *ticket) {
  uint64_t token = tkt_ticket_token(ticket);
  int64_t valid_until = tkt_ticket_valid_until(ticket);
  const struct sim_clock *clock = &sim->clients[actor->client].clock;
  int64_t now = sim_local(sim, clock);
  struct sim_grant *g = ledger_grant(sim, token);
  if (sim->profile.lies) return;
  if (!g || g->fate != SIM_DONE || !g->told || !g->delivered) {
    sim_fail(sim, "c%u takes token %llu, which the server did not tell", actor->client,
             TOKEN(token));
    return;
  }
  unsigned keys = 0;
  for (size_t i = 0; i < tkt_ticket_key_count(ticket); i++)
    keys |= 1u << ledger_key(sim, tkt_ticket_key(ticket, i));
  if (keys != actor->keys || g->keys != actor->keys)
    sim_fail(sim, "c%u takes token %llu for other keys than asked", actor->client, TOKEN(token));
  if (g->client != (int)actor->client)
    sim_fail(sim, "c%u takes token %llu of c%d", actor->client, TOKEN(token), g->client);
  if (g->handed_out) sim_fail(sim, "token %llu is handed out twice", TOKEN(token));
  g->handed_out = true;
  g->duty_at = TKT_NEVER;
  if (valid_until - now <= 0 || valid_until - now < actor->plan.budget_ns)
    sim_fail(sim, "c%u takes token %llu with %.6f s left and a budget of %.6f s", actor->client,
             TOKEN(token), (double)(valid_until - now) / 1e9, (double)actor->plan.budget_ns / 1e9);
  const struct sim_request *r = ledger_request(sim, g->owner);
  if (r && (valid_until > r->sent_local + r->lease_s * TKT_S || r->lease_s != actor->plan.lease_s))
    sim_fail(sim, "c%u believes in token %llu longer than a lease after its sending", actor->client,
             TOKEN(token));
  if (g->run == sim->server.run && sim->options.plant == SIM_PLANT_NONE &&
      sim_world(clock, valid_until) > g->until)
    sim_fail(sim, "c%u believes in token %llu longer than the server", actor->client, TOKEN(token));
}

/* S2: an acquire that ended with a final answer has no request left in flight. The wire does not
 * say whose a request is; key and lease tell nearly as well. */
static void check_none_left(struct sim *sim, const struct sim_actor *actor) {
  const struct sim_client *client = &sim->clients[actor->client];
  uint32_t open = client->unanswered[actor->keys][actor->plan.lease_s];
  uint32_t allowed = client->unknown[actor->keys][actor->plan.lease_s];
  for (unsigned i = 0; i < sim->profile.actors; i++) {
    const struct sim_actor *a = &client->actors[i];
    if (a->pending && a->state == SIM_ACQUIRING && a->keys == actor->keys &&
        a->plan.lease_s == actor->plan.lease_s)
      allowed++;
  }
  if (open > allowed)
    sim_fail(sim, "c%u a%u: an acquire ended as %d, a request of its kind has no answer",
             actor->client, actor->index, actor->call.outcome);
}

/* S6: an acquire never sent ends with its wait; so it does unless its host could not run. */
static void check_punctual(struct sim *sim, const struct sim_actor *actor, int64_t now) {
  const struct sim_client *client = &sim->clients[actor->client];
  enum tkt_outcome outcome = actor->call.outcome;
  if (outcome != TKT_TIMEOUT && outcome != TKT_NOT_CONNECTED && outcome != TKT_CLIENT_CAPACITY)
    return;
  if (actor->call.detail.attempts > 0 || actor->plan.wait_s == 0) return;
  if (client->asleep_until > actor->began || sim->last_pause >= actor->began) return;
  int64_t bound = actor->started + actor->plan.wait_s * TKT_S;
  if (now > bound + SIM_SLACK)
    sim_fail(sim, "c%u a%u: an acquire never sent ends %.6f s after its wait", actor->client,
             actor->index, (double)(now - bound) / 1e9);
}

void invariants_acquired(struct sim *sim, struct sim_actor *actor) {
  const struct sim_client *client = &sim->clients[actor->client];
  enum tkt_outcome outcome = actor->call.outcome;
  bool allowed = true;
  int64_t now = sim_local(sim, &client->clock);
  switch (outcome) {
  case TKT_OK:
  case TKT_INSUFFICIENT_LEASE:
    break;
  case TKT_TIMEOUT:
    allowed = actor->plan.wait_s == 0 || now >= actor->started + (actor->plan.wait_s - 1) * TKT_S;
    break;
  case TKT_BUSY:
  case TKT_NOT_CONNECTED:
    allowed = !sim->profile.quiet;
    break;
  case TKT_CANCELLED:
    allowed = actor->cancelled;
    break;
  case TKT_INDETERMINATE:
    allowed = !sim->profile.quiet || actor->cancelled || client->closing ||
              (client->cancels > 0 && !client->cancel_keeps);
    break;
  case TKT_CLIENT_CAPACITY:
    allowed = sim->profile.small_limits;
    break;
  case TKT_CLOSED:
    allowed = client->closing;
    break;
  case TKT_NO_MEMORY:
    allowed = sim->profile.memory > 0;
    break;
  case TKT_AUTH:
    allowed = sim->profile.impostor && actor->client == sim->profile.clients - 1;
    break;
  default:
    allowed = false;
  }
  if (ledger_is_set(actor->keys) && client->wire == 2) /* said before it was sent */
    allowed = actor->call.detail.attempts == 0 &&
              (allowed || outcome == TKT_UNSUPPORTED || outcome == TKT_NOT_CONNECTED) &&
              outcome != TKT_OK;
  /* M11: two servers that name each other cannot make it ask more often than the pauses allow. */
  uint32_t most = SIM_FIRST_PAUSES + (uint32_t)((now - actor->started) / (100 * TKT_MS));
  if (actor->call.detail.attempts > most)
    sim_fail(sim, "c%u a%u: an acquire was sent %u times in %.3f s", actor->client, actor->index,
             actor->call.detail.attempts, (double)(now - actor->started) / 1e9);
  check_punctual(sim, actor, now);
  if (sim->profile.lies)
    allowed = outcome != TKT_PENDING && outcome != TKT_FORKED && outcome != TKT_NO_MEMORY;
  else
    check_none_left(sim, actor);
  if (!allowed)
    sim_fail(sim, "c%u a%u: an acquire (wait %u s) ends as %d after %.6f s", actor->client,
             actor->index, actor->plan.wait_s, outcome, (double)(now - actor->started) / 1e9);
  if (actor->expect_ok && outcome != TKT_OK)
    sim_fail(sim, "c%u cannot have k%x though all is calm: %d", actor->client, actor->keys,
             outcome);
  if (actor->cancelled && outcome != TKT_OK && outcome != TKT_PENDING && actor->call.ticket)
    sim_fail(sim, "c%u a%u: an acquire that ended as %d has a ticket", actor->client, actor->index,
             outcome);
}

void invariants_released(struct sim *sim, struct sim_actor *actor, const struct tkt_call *call) {
  if (sim->profile.lies) return;
  struct sim_grant *g = ledger_grant(sim, actor->release_token);
  const struct sim_client *client = &sim->clients[actor->client];
  /* R4: whatever else is under way, a release is not held up. */
  if (sim->profile.quiet && !client->closing &&
      sim_local(sim, &client->clock) - actor->started > 500 * TKT_MS)
    sim_fail(sim, "c%u a%u: a release takes %.6f s on a quiet network", actor->client, actor->index,
             (double)(sim_local(sim, &client->clock) - actor->started) / 1e9);
  switch (call->outcome) {
  case TKT_OK:
    if (actor->expect_wrong)
      sim_fail(sim, "c%u released token %llu under a wrong key or token", actor->client,
               TOKEN(actor->release_token));
    else if (!g || !g->released || g->expired)
      sim_fail(sim, "c%u is told that token %llu is released, the server did not", actor->client,
               TOKEN(actor->release_token));
    break;
  case TKT_NOT_CURRENT:
    if (!actor->expect_wrong && g && ledger_live(sim, g))
      sim_fail(sim, "c%u is told that token %llu is not current, the server holds it",
               actor->client, TOKEN(actor->release_token));
    break;
  case TKT_NOT_CONNECTED:
  case TKT_INDETERMINATE:
    if (sim->profile.quiet && !client->closing)
      sim_fail(sim, "c%u a%u: a release ends as %d on a quiet network", actor->client, actor->index,
               call->outcome);
    break;
  case TKT_CANCELLED:
    if (!actor->cancelled)
      sim_fail(sim, "c%u a%u: a release nobody cancelled ends as cancelled", actor->client,
               actor->index);
    break;
  case TKT_CLOSED:
    if (!client->closing)
      sim_fail(sim, "c%u a%u: a release of an open client ends as closed", actor->client,
               actor->index);
    break;
  case TKT_CLIENT_CAPACITY:
    if (!sim->profile.small_limits || actor->state != SIM_OTHER)
      sim_fail(sim, "c%u a%u: a release finds no capacity", actor->client, actor->index);
    break;
  case TKT_NO_MEMORY:
    /* The release of a ticket has its memory since the grant (R4). */
    if (!sim->profile.memory || actor->state != SIM_OTHER)
      sim_fail(sim, "c%u a%u: a release finds no memory", actor->client, actor->index);
    break;
  case TKT_INVALID_ARGUMENT:
    if (!actor->expect_wrong || client->wire != 3)
      sim_fail(sim, "c%u a%u: a release is refused for good", actor->client, actor->index);
    break;
  default:
    sim_fail(sim, "c%u a%u: a release ends as %d", actor->client, actor->index, call->outcome);
  }
}

/* A live grant is known where its holder detached it, or the engine that had it was closed. The
 * others must come from a fault: a connection that broke, or a client told that it cannot know. */
void invariants_quiescent(struct sim *sim) {
  if (sim->profile.lies) return;
  for (unsigned i = 0; i < sim->conn_high; i++)
    if (sim->conns[i].used && sim->conns[i].must_end && sim->conns[i].peer)
      sim_fail(sim, "server withdrew the waiters of conn %u and did not end it", sim->conns[i].id);
  for (size_t i = 0; i < sim->grant_count; i++) {
    const struct sim_grant *g = &sim->grants[i];
    if (!ledger_live(sim, g)) continue;
    bool known = g->excused || (g->release_sent && !sim->profile.quiet);
    for (size_t j = 0; j < sim->ticket_count; j++)
      if (sim->tickets[j].token == g->token) known = true;
    if (known) continue;
    const struct sim_request *r = g->owner ? ledger_request(sim, g->owner) : NULL;
    /* S3: a close for whatever reason takes the replies still to come, where nothing goes wrong. */
    bool slow = sim->profile.narrow || sim->profile.commit_delay_max > TKT_S;
    if (r && r->left && !r->hurt && !slow && !g->delivered)
      sim_fail(sim, "token %llu of k%x was lost with a session that nothing happened to",
               TOKEN(g->token), g->keys);
    else if (sim->profile.quiet)
      sim_fail(sim, "token %llu of k%x is held and nobody will release it", TOKEN(g->token),
               g->keys);
    else if (g->client >= 0 && g->client < SIM_CLIENTS &&
             sim->clients[g->client].indeterminate == 0)
      sim_fail(sim, "token %llu of k%x is left over, yet c%d had no indeterminate acquire",
               TOKEN(g->token), g->keys, g->client);
  }
}

int64_t invariants_last_lease(const struct sim *sim) {
  int64_t last = sim->now;
  for (size_t i = sim->settled_grants; i < sim->grant_count; i++)
    if (ledger_live(sim, &sim->grants[i]) && sim->grants[i].until > last)
      last = sim->grants[i].until;
  return last;
}

static bool held(void *context, const struct tkt_holder *holder) {
  struct sim *sim = context;
  sim_fail(sim, "server holds token %llu though every lease has ended", TOKEN(holder->token));
  return false;
}

void invariants_empty(struct sim *sim) {
  struct tkt_server_stats stats = tkt_server_stats(sim->server.engine);
  tkt_server_each_holder(sim->server.engine, held, sim);
  if (stats.keys_held || stats.waiters)
    sim_fail(sim, "server counts %llu held keys and %llu waiters, and there are none",
             (unsigned long long)stats.keys_held, (unsigned long long)stats.waiters);
}
