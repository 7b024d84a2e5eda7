#include "actor.h"

#include "client_host.h"

#include "invariants.h"
#include "ledger.h"

#include <string.h>

#define TOKEN(t) ((unsigned long long)(t))

static int64_t local(const struct sim *sim, const struct sim_client *client) {
  return sim_local(sim, &client->clock);
}

static void idle(struct sim *sim, struct sim_actor *a, int64_t after) {
  a->state = SIM_IDLE;
  a->pending = false;
  a->cancel_at = TKT_NEVER;
  a->cancelled = a->expect_ok = a->expect_wrong = false;
  a->ticket = NULL;
  a->due = sim->now + after;
}

static int64_t pause_between(struct sim *sim) {
  if (sim->profile.hurry) return sim_between(sim, 0, 50 * TKT_MS);
  return sim_chance(sim, 1, 3) ? 0 : sim_between(sim, 0, 2 * TKT_S);
}

void sim_actors_init(struct sim *sim, struct sim_client *client) {
  for (unsigned i = 0; i < SIM_ACTORS; i++) {
    client->actors[i].client = client->index;
    client->actors[i].index = i;
    idle(sim, &client->actors[i], sim_between(sim, 0, TKT_S));
  }
}

static void begin(struct sim *sim, struct sim_client *client, struct sim_actor *a,
                  enum sim_actor_state state, int64_t limit) {
  memset(&a->call, 0, sizeof a->call);
  a->state = state;
  a->pending = true;
  a->cancelled = false;
  a->cancel_at = TKT_NEVER;
  a->due = TKT_NEVER;
  a->started = local(sim, client);
  a->began = sim->now;
  a->bound = a->started + limit;
}

/* Instants around the send boundary: at once, within a round trip, while it queues. */
static void plan_cancel(struct sim *sim, struct sim_actor *a) {
  if (!sim->profile.cancels || !sim_chance(sim, sim->profile.hurry ? 4 : 1, 5)) return;
  switch (sim_below(sim, 3)) {
  case 0:
    a->cancel_at = sim->now;
    break;
  case 1:
    a->cancel_at = sim->now + sim_between(sim, 0, 3 * sim->profile.latency_max);
    break;
  default:
    a->cancel_at = sim->now + sim_between(sim, 0, 3 * TKT_S);
  }
}

/* The keys of a mask, for acquires in any order. */
static size_t spell(const struct sim *sim, unsigned keys, struct tkt_span *out) {
  size_t count = 0;
  for (unsigned i = SIM_KEYS; i-- > 0;)
    if (keys & 1u << i) out[count++] = sim->keys[i];
  return count;
}

/* One key mostly, else some of them. */
static unsigned some_keys(struct sim *sim, const struct sim_client *client) {
  unsigned all = (1u << sim->profile.keys) - 1;
  unsigned sets = client->wire == 3 ? 40 : 2;
  if (sim->profile.keys > 1 && sim->profile.framed && sim_chance(sim, sets, 100)) {
    unsigned keys = 1 + (unsigned)sim_below(sim, all);
    if (client->wire == 3 || (keys & (keys - 1))) return keys;
  }
  return 1u << sim_below(sim, sim->profile.keys);
}

static void start_acquire(struct sim *sim, struct sim_client *client, struct sim_actor *a,
                          unsigned keys, int64_t wait, int64_t lease, int64_t budget) {
  struct tkt_span spans[SIM_KEYS];
  struct tkt_acquire_args args = {.keys = spans,
                                  .key_count = spell(sim, keys, spans),
                                  .wait_ns = wait,
                                  .lease_ns = lease,
                                  .budget_ns = budget};
  char why[TKT_REFUSAL_SIZE];
  enum tkt_outcome checked = tkt_acquire_check(&args, &a->plan, why);
  if (checked != TKT_OK) {
    sim_fail(sim, "a good acquire is refused (%d): %s", checked, why);
    return;
  }
  a->keys = keys;
  begin(sim, client, a, SIM_ACQUIRING, a->plan.wait_s * TKT_S + 5 * TKT_S);
  sim_note(sim, "c%u a%u acquires k%x wait %u lease %u", client->index, a->index, keys,
           a->plan.wait_s, a->plan.lease_s);
  tkt_client_acquire(client->engine, &a->call, &a->plan, local(sim, client));
}

static void random_acquire(struct sim *sim, struct sim_client *client, struct sim_actor *a) {
  int64_t wait = sim_chance(sim, 1, 4) ? 0 : sim_between(sim, 1, 6 * TKT_S);
  if (sim_chance(sim, 1, 3)) wait = sim_between(sim, 1, 6) * TKT_S;
  int64_t lease = sim_between(sim, 1, 8 * TKT_S);
  if (sim_chance(sim, 1, 2)) lease = sim_between(sim, 1, 20) * TKT_S;
  if (sim->profile.lease_max) lease = sim_between(sim, 1, sim->profile.lease_max) * TKT_S;
  int64_t rounded = (lease + TKT_S - 1) / TKT_S * TKT_S;
  int64_t budget = sim_chance(sim, 1, 2) ? 0 : sim_between(sim, 0, rounded);
  start_acquire(sim, client, a, some_keys(sim, client), wait, lease, budget);
  plan_cancel(sim, a);
}

void sim_actor_final(struct sim *sim, struct sim_client *client, unsigned keys) {
  struct sim_actor *a = &client->actors[0];
  start_acquire(sim, client, a, keys, 250 * TKT_S, 250 * TKT_S, 0);
  a->expect_ok = true;
  client->kick_at = sim->now;
}

static void exact(struct sim *sim, struct sim_client *client, struct sim_actor *a, unsigned keys,
                  uint64_t token, bool wrong) {
  begin(sim, client, a, SIM_OTHER, 5 * TKT_S);
  a->release_token = token;
  a->expect_wrong = wrong;
  struct tkt_span spans[SIM_KEYS], sorted[TKT_KEY_SET_MAX];
  char why[TKT_REFUSAL_SIZE];
  size_t count = spell(sim, keys, spans);
  if (tkt_release_check(spans, count, token, sorted, &count, why) != TKT_OK)
    sim_fail(sim, "a good release is refused: %s", why);
  sim_note(sim, "c%u a%u releases k%x token %llu exactly%s", client->index, a->index, keys,
           TOKEN(token), wrong ? " (wrong)" : "");
  tkt_client_release_exact(client->engine, &a->call, sorted, count, token, local(sim, client));
}

/* A release that must change nothing: a token of another key, or one that does not exist. */
static void wrong_release(struct sim *sim, struct sim_client *client, struct sim_actor *a) {
  if (sim->grant_count == 0) {
    idle(sim, a, TKT_MS);
    return;
  }
  const struct sim_grant *g = &sim->grants[sim->grant_count - 1];
  unsigned all = (1u << sim->profile.keys) - 1;
  unsigned keys = 1 + (unsigned)sim_below(sim, all); /* some of the set, more, or others */
  if (client->wire == 2) keys = 1u << sim_below(sim, sim->profile.keys);
  bool other_keys = keys != g->keys;
  exact(sim, client, a, keys, other_keys ? g->token : g->token + (UINT64_C(1) << 40), true);
}

static void wait_ready(struct sim *sim, struct sim_client *client, struct sim_actor *a) {
  int64_t timeout = sim_between(sim, 0, 4 * TKT_S);
  begin(sim, client, a, SIM_OTHER, timeout);
  a->release_token = 0;
  sim_note(sim, "c%u a%u waits %.3f s for a session", client->index, a->index,
           (double)timeout / 1e9);
  tkt_client_wait_ready(client->engine, &a->call, timeout, local(sim, client));
  plan_cancel(sim, a);
}

static void act_idle(struct sim *sim, struct sim_client *client, struct sim_actor *a) {
  if (sim->calm) {
    a->due = TKT_NEVER;
    return;
  }
  uint64_t dice = sim_below(sim, 100);
  if (dice < 85)
    random_acquire(sim, client, a);
  else if (dice < 92)
    wrong_release(sim, client, a);
  else if (dice < 97)
    wait_ready(sim, client, a);
  else if (dice < 98 && sim->profile.closes) {
    sim_client_close(sim, client, sim->now);
    idle(sim, a, pause_between(sim));
  } else
    idle(sim, a, pause_between(sim));
}

/* The engine has the duty to give this grant back from now on. */
static void set_duty(struct sim *sim, const struct sim_client *client, uint64_t token) {
  struct sim_grant *g = ledger_grant(sim, token);
  if (g && client->closing) g->excused = true;
  if (g && !client->closing) g->duty_at = sim->now;
}

static void count_unknown(struct sim_client *client, const struct sim_actor *a) {
  client->indeterminate++;
  client->unknown[a->keys][a->plan.lease_s]++;
}

static void drop(struct sim *sim, struct sim_client *client, struct sim_actor *a) {
  struct sim_ticket *t = a->ticket;
  sim_note(sim, "c%u a%u drops token %llu", client->index, a->index, TOKEN(t->token));
  t->believed = t->detached && t->believed;
  struct sim_grant *g = ledger_grant(sim, t->token);
  if (g && !t->detached) set_duty(sim, client, t->token);
  tkt_client_drop(client->engine, t->ticket, local(sim, client));
  t->ticket = NULL;
}

static void cancel(struct sim *sim, struct sim_client *client, struct sim_actor *a) {
  bool granted = a->call.outcome == TKT_OK && a->call.ticket;
  uint64_t token = granted ? tkt_ticket_token(a->call.ticket) : 0;
  bool forget = sim_chance(sim, 1, 4);
  a->cancel_at = TKT_NEVER;
  a->cancelled = true;
  if (a->state == SIM_ACQUIRING || a->state == SIM_GRANTED) client->cancels++;
  sim_note(sim, "c%u a%u %s", client->index, a->index, forget ? "forgets" : "cancels");
  if (forget) {
    if (a->pending && a->state == SIM_ACQUIRING) count_unknown(client, a);
    tkt_client_forget(client->engine, &a->call, local(sim, client));
    memset(&a->call, 0xa5, sizeof a->call);
    a->pending = false;
  } else {
    tkt_client_cancel(client->engine, &a->call, local(sim, client));
    if (a->pending) a->bound = local(sim, client);
  }
  if (granted) set_duty(sim, client, token);
  if (a->pending || a->second_pending) return;
  if (a->state == SIM_RELEASING) drop(sim, client, a);
  idle(sim, a, pause_between(sim));
}

static void take(struct sim *sim, struct sim_client *client, struct sim_actor *a) {
  struct tkt_ticket *ticket = NULL;
  uint64_t token = a->call.ticket ? tkt_ticket_token(a->call.ticket) : 0;
  enum tkt_outcome result = tkt_client_take(client->engine, &a->call, local(sim, client), &ticket);
  if (result == TKT_OK && a->cancelled) sim_fail(sim, "a cancelled acquire hands out its ticket");
  if (result != TKT_OK) {
    sim_note(sim, "c%u a%u take gives %d", client->index, a->index, result);
    if (ticket) sim_fail(sim, "a take that failed gives a ticket");
    if (result != TKT_INSUFFICIENT_LEASE && !a->cancelled && !client->closing)
      sim_fail(sim, "c%u a%u: take gives %d", client->index, a->index, result);
    if (a->expect_ok)
      sim_fail(sim, "c%u cannot take k%x though all is calm", client->index, a->keys);
    if (token) set_duty(sim, client, token);
    idle(sim, a, pause_between(sim));
    return;
  }
  invariants_taken(sim, a, ticket);
  if (sim->failed || sim->ticket_count == SIM_TICKETS) return;
  struct sim_grant *g = ledger_grant(sim, tkt_ticket_token(ticket));
  struct sim_ticket *t = &sim->tickets[sim->ticket_count++];
  *t = (struct sim_ticket){.ticket = ticket,
                           .client = client->index,
                           .clock = &client->clock,
                           .run = g ? g->run : 0,
                           .keys = a->keys,
                           .token = tkt_ticket_token(ticket),
                           .valid_until = tkt_ticket_valid_until(ticket),
                           .believed = true};
  a->ticket = t;
  a->state = SIM_HOLDING;
  int64_t left = t->valid_until - local(sim, client);
  int64_t hold = sim_chance(sim, 1, 6) ? left + sim_between(sim, 0, TKT_S)
                                       : sim_between(sim, 0, left < TKT_S ? left : TKT_S);
  a->due = sim->now + (sim_chance(sim, 1, 5) ? 0 : hold);
  sim_note(sim, "c%u a%u takes k%x token %llu", client->index, a->index, a->keys, TOKEN(t->token));
  if (!sim->calm && sim_chance(sim, 1, 12)) {
    tkt_client_detach(client->engine, ticket);
    t->detached = true;
    sim_note(sim, "c%u a%u detaches token %llu", client->index, a->index, TOKEN(t->token));
    if (sim_chance(sim, 1, 2)) drop(sim, client, a);
  }
}

static void release(struct sim *sim, struct sim_client *client, struct sim_actor *a) {
  struct sim_ticket *t = a->ticket;
  begin(sim, client, a, SIM_RELEASING, 5 * TKT_S);
  a->release_token = t->token;
  a->expect_wrong = false;
  sim_note(sim, "c%u a%u releases token %llu", client->index, a->index, TOKEN(t->token));
  tkt_client_release(client->engine, &a->call, t->ticket, local(sim, client));
  if (sim_chance(sim, 1, 10)) {
    memset(&a->second, 0, sizeof a->second);
    a->second_pending = true;
    a->second_bound = a->bound;
    tkt_client_release(client->engine, &a->second, t->ticket, local(sim, client));
  }
  plan_cancel(sim, a);
}

static void act_holding(struct sim *sim, struct sim_client *client, struct sim_actor *a) {
  struct sim_ticket *t = a->ticket;
  t->believed = false;
  if (!t->ticket) {
    /* Detached and dropped: only keys and token are left. */
    if (sim_chance(sim, 1, 2))
      exact(sim, client, a, t->keys, t->token, false);
    else
      idle(sim, a, pause_between(sim));
    a->ticket = NULL;
    return;
  }
  if (sim_chance(sim, 4, 5)) {
    release(sim, client, a);
  } else {
    drop(sim, client, a);
    idle(sim, a, pause_between(sim));
  }
}

static void act(struct sim *sim, struct sim_client *client, struct sim_actor *a) {
  switch (a->state) {
  case SIM_IDLE:
    act_idle(sim, client, a);
    break;
  case SIM_GRANTED:
    take(sim, client, a);
    break;
  case SIM_HOLDING:
    act_holding(sim, client, a);
    break;
  default:
    a->due = TKT_NEVER;
  }
}

void sim_actors_act(struct sim *sim, struct sim_client *client) {
  for (unsigned i = 0; i < sim->profile.actors && !sim->failed; i++) {
    struct sim_actor *a = &client->actors[i];
    if (a->cancel_at <= sim->now && (a->pending || a->state == SIM_GRANTED)) cancel(sim, client, a);
    if (a->due <= sim->now && !sim->failed) act(sim, client, a);
    /* Sometimes before anything could be sent. */
    if (a->pending && a->cancel_at <= sim->now && sim_chance(sim, 1, 2)) cancel(sim, client, a);
  }
}

int64_t sim_actors_due(const struct sim *sim, const struct sim_client *client) {
  int64_t due = TKT_NEVER;
  for (unsigned i = 0; i < sim->profile.actors; i++) {
    const struct sim_actor *a = &client->actors[i];
    if (a->due < due) due = a->due;
    if (a->cancel_at < due && (a->pending || a->state == SIM_GRANTED)) due = a->cancel_at;
  }
  return due;
}

static void acquired(struct sim *sim, struct sim_client *client, struct sim_actor *a) {
  enum tkt_outcome outcome = a->call.outcome;
  sim_note(sim, "c%u a%u acquire k%x ends as %d", client->index, a->index, a->keys, outcome);
  sim->ended[outcome - TKT_NO_MEMORY]++;
  if (outcome == TKT_INDETERMINATE) count_unknown(client, a);
  invariants_acquired(sim, a);
  if (outcome != TKT_OK) {
    idle(sim, a, pause_between(sim));
    return;
  }
  a->state = SIM_GRANTED;
  if (a->call.ticket) {
    struct sim_grant *g = ledger_grant(sim, tkt_ticket_token(a->call.ticket));
    if (g) g->duty_at = TKT_NEVER;
    if (g && a->cancelled) set_duty(sim, client, g->token);
  } else if (!a->cancelled) {
    sim_fail(sim, "c%u a%u: a granted acquire has no ticket", client->index, a->index);
  }
  /* Mostly taken at once, sometimes after a nap in which the lease may run out. */
  a->due = sim->now + (sim_chance(sim, 3, 4) || sim->calm ? 0 : sim_between(sim, 0, 3 * TKT_S));
}

static void released(struct sim *sim, struct sim_client *client, struct sim_actor *a,
                     const struct tkt_call *call) {
  enum tkt_outcome outcome = call->outcome;
  sim_note(sim, "c%u a%u release of token %llu ends as %d", client->index, a->index,
           TOKEN(a->release_token), outcome);
  invariants_released(sim, a, call);
  sim->released[outcome - TKT_NO_MEMORY]++;
  if (a->second_pending || a->pending) return;
  bool again = outcome == TKT_INDETERMINATE || outcome == TKT_NOT_CONNECTED;
  if (again && !sim->calm && sim_chance(sim, 1, 2)) {
    release(sim, client, a);
    return;
  }
  drop(sim, client, a);
  idle(sim, a, pause_between(sim));
}

static void other_ended(struct sim *sim, struct sim_client *client, struct sim_actor *a) {
  enum tkt_outcome outcome = a->call.outcome;
  sim_note(sim, "c%u a%u call ends as %d", client->index, a->index, outcome);
  if (a->call.kind == TKT_CALL_RELEASE) {
    invariants_released(sim, a, &a->call);
  } else {
    int64_t now = local(sim, client);
    bool allowed =
        outcome == TKT_OK || (outcome == TKT_TIMEOUT && now >= a->bound) ||
        (outcome == TKT_CANCELLED && a->cancelled) || (outcome == TKT_CLOSED && client->closing) ||
        (outcome == TKT_AUTH && sim->profile.lies) ||
        (outcome == TKT_AUTH && sim->profile.impostor && client->index == sim->profile.clients - 1);
    if (!allowed)
      sim_fail(sim, "c%u a%u: a wait for readiness ends as %d", client->index, a->index, outcome);
  }
  idle(sim, a, pause_between(sim));
}

void sim_actor_done(struct sim *sim, struct sim_client *client, struct tkt_call *call) {
  for (unsigned i = 0; i < sim->profile.actors; i++) {
    struct sim_actor *a = &client->actors[i];
    if (call != &a->call && call != &a->second) continue;
    bool second = call == &a->second;
    bool *pending = second ? &a->second_pending : &a->pending;
    if (!*pending || call->outcome == TKT_PENDING) break;
    *pending = false;
    if (second) {
      released(sim, client, a, call);
    } else if (a->state == SIM_ACQUIRING) {
      acquired(sim, client, a);
    } else if (a->state == SIM_RELEASING) {
      released(sim, client, a, call);
    } else {
      other_ended(sim, client, a);
    }
    return;
  }
  sim_fail(sim, "c%u reports the end of a call that is not under way", client->index);
}

void sim_actors_closed(struct sim *sim, struct sim_client *client) {
  for (unsigned i = 0; i < sim->profile.actors; i++) {
    struct sim_actor *a = &client->actors[i];
    if (a->pending || a->second_pending)
      sim_fail(sim, "c%u a%u: a call still pends when the client is closed", client->index, i);
    /* Tickets not given back die with the engine. */
    if (a->ticket && a->ticket->ticket && sim_chance(sim, 1, 2)) drop(sim, client, a);
    if (a->ticket) {
      a->ticket->ticket = NULL;
      a->ticket->believed = false;
    }
    if (a->state == SIM_GRANTED) {
      struct sim_grant *g =
          a->call.ticket ? ledger_grant(sim, tkt_ticket_token(a->call.ticket)) : NULL;
      if (g) g->excused = true;
      if (sim_chance(sim, 1, 2)) tkt_client_forget(client->engine, &a->call, local(sim, client));
    }
    idle(sim, a, pause_between(sim));
  }
}

bool sim_actors_idle(const struct sim *sim, const struct sim_client *client) {
  for (unsigned i = 0; i < sim->profile.actors; i++)
    if (client->actors[i].state != SIM_IDLE || client->actors[i].second_pending) return false;
  return true;
}
