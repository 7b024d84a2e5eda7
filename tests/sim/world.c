#include "sim.h"

#include "actor.h"
#include "client_host.h"
#include "cluster.h"
#include "heap.h"
#include "invariants.h"
#include "legacy.h"
#include "network.h"
#include "server_host.h"

#include <string.h>

enum {
  SIM_TURNS_AT_ONE_INSTANT = 20000, /* more is an engine that spins */
  SIM_STEPS_TO_SETTLE = 400000,
};
/* More than all clients and the server may ever need for this workload. */
#define SIM_HEAP_BOUND (2u << 20)

int64_t sim_local(const struct sim *sim, const struct sim_clock *clock) {
  return clock->offset + sim->now + sim->now / 1000000 * clock->ppm +
         sim->now % 1000000 * clock->ppm / 1000000;
}

static int64_t reading(const struct sim_clock *clock, int64_t world) {
  return clock->offset + world + world / 1000000 * clock->ppm +
         world % 1000000 * clock->ppm / 1000000;
}

int64_t sim_world(const struct sim_clock *clock, int64_t local) {
  int64_t rate = 1000000 + clock->ppm;
  int64_t elapsed = local - clock->offset;
  int64_t world = elapsed / rate * 1000000 + elapsed % rate * 1000000 / rate;
  while (reading(clock, world) >= local)
    world--;
  while (reading(clock, world) < local)
    world++;
  return world;
}

uint64_t sim_below(struct sim *sim, uint64_t bound) {
  return tkt_random_below(&sim->random, bound);
}

int64_t sim_between(struct sim *sim, int64_t low, int64_t high) {
  return high <= low ? low : low + (int64_t)sim_below(sim, (uint64_t)(high - low) + 1);
}

bool sim_chance(struct sim *sim, unsigned in, unsigned of) {
  return in > 0 && sim_below(sim, of) < in;
}

void sim_fault_until(struct sim *sim, int64_t until) {
  if (until > sim->last_fault) sim->last_fault = until;
}

void sim_pause(struct sim *sim) {
  if (!sim->calm && sim_chance(sim, sim->profile.pause, 10000)) {
    int64_t nap = sim_between(sim, TKT_MS, 4 * TKT_S);
    sim_note(sim, "everything stands still for %.3f s inside a turn", (double)nap / 1e9);
    sim->now += nap;
    sim->last_pause = sim->now;
    sim_fault_until(sim, sim->now);
  } else if (sim_chance(sim, 1, 4)) {
    sim->now += sim_between(sim, 0, 30 * TKT_US);
  }
}

static struct sim_conn *some_conn(struct sim *sim) {
  unsigned from = (unsigned)sim_below(sim, sim->conn_high);
  for (unsigned i = 0; i < sim->conn_high; i++) {
    struct sim_conn *conn = &sim->conns[(from + i) % sim->conn_high];
    if (conn->used) return conn;
  }
  return NULL;
}

static void inject_faults(struct sim *sim) {
  const struct sim_profile *p = &sim->profile;
  struct sim_conn *conn;
  if (sim_chance(sim, p->reset, 10000) && (conn = some_conn(sim))) {
    sim_note(sim, "fault: conn %u is reset", conn->id);
    sim_fault_until(sim, sim->now);
    sim_reset(sim, conn);
  }
  if (sim_chance(sim, p->stall, 10000) && (conn = some_conn(sim))) {
    int64_t until = sim->now + sim_between(sim, 50 * TKT_MS, 12 * TKT_S);
    enum sim_side side = sim_chance(sim, 1, 2) ? SIM_CLIENT_SIDE : SIM_SERVER_SIDE;
    sim_note(sim, "fault: conn %u stalls from side %d until %.3f", conn->id, (int)side,
             (double)until / 1e9);
    sim_fault_until(sim, until);
    sim_stall(sim, conn, side, until);
  }
  if (sim_chance(sim, p->sleep, 10000)) {
    unsigned who = (unsigned)sim_below(sim, p->clients + 1);
    int64_t until = sim->now + sim_between(sim, 50 * TKT_MS, 12 * TKT_S);
    sim_note(sim, "fault: host %u sleeps until %.3f", who, (double)until / 1e9);
    sim_fault_until(sim, until);
    if (who == p->clients)
      sim->server.asleep_until = until;
    else
      sim->clients[who].asleep_until = until;
  }
  if (sim_chance(sim, p->elect, 10000)) sim_cluster_elect(sim);
  if (sim_chance(sim, p->restart, 10000) && sim->server.engine && !sim->server.draining) {
    if (sim_chance(sim, 1, 2))
      sim_server_drain(sim);
    else
      sim_server_kill(sim);
  }
}

/* Hosts: the clients, the server, the legacy clients. */
static int64_t host_wake(const struct sim *sim, unsigned host) {
  unsigned clients = sim->profile.clients;
  if (host < clients) return sim_client_wake(sim, &sim->clients[host]);
  if (host == clients) return sim_server_wake(sim);
  return sim_legacy_wake(sim, &sim->legacies[host - clients - 1]);
}

static void host_turn(struct sim *sim, unsigned host) {
  unsigned clients = sim->profile.clients;
  if (host < clients)
    sim_client_turn(sim, &sim->clients[host]);
  else if (host == clients)
    sim_server_turn(sim);
  else
    sim_legacy_turn(sim, &sim->legacies[host - clients - 1]);
}

/* Moves time to the next host that has something to do and lets it take a turn. False: nothing is
 * to be done before `limit`; time stands there then. */
static bool step(struct sim *sim, int64_t limit) {
  unsigned hosts = sim->profile.clients + 1 + sim->profile.legacies;
  unsigned from = (unsigned)sim_below(sim, hosts), who = hosts;
  int64_t wake = TKT_NEVER;
  for (unsigned i = 0; i < hosts; i++) {
    unsigned host = (from + i) % hosts;
    int64_t at = host_wake(sim, host);
    if (at < wake) {
      wake = at;
      who = host;
    }
  }
  if (wake > limit || who == hosts) {
    if (limit != TKT_NEVER && limit > sim->now) sim->now = limit;
    return false;
  }
  sim->step++;
  uint64_t refused = heap_refused();
  if (wake > sim->now) {
    sim->now = wake;
    sim->idle_turns = 0;
  } else if (++sim->idle_turns > SIM_TURNS_AT_ONE_INSTANT) {
    sim_fail(sim, "host %u spins", who);
  }
  host_turn(sim, who);
  if (heap_refused() != refused) sim_fault_until(sim, sim->now);
  if (!sim->failed) invariants_step(sim);
  size_t used = heap_in_use() - sim->heap_before;
  if (used > SIM_HEAP_BOUND) sim_fail(sim, "the engines use %zu bytes", used);
  return true;
}

static void start(struct sim *sim, const struct sim_options *options, size_t heap_before) {
  memset(sim, 0, sizeof *sim);
  sim->heap_before = heap_before;
  sim->options = *options;
  sim->fingerprint = UINT64_C(0xcbf29ce484222325);
  uint64_t seed[4] = {options->seed, 0x7469636b, 0x6574696e, 0x67};
  tkt_random_init(&sim->random, seed);
  for (int i = 0; i < 8; i++)
    tkt_random_u64(&sim->random);
  sim_choose_profile(sim);
  for (unsigned i = 0; i < SIM_KEYS; i++) {
    /* One of the longest keys there may be, the others short. */
    size_t len = i == 1 ? TKT_KEY_MAX : 2 + i;
    memset(sim->key_bytes[i], 'k', len);
    sim->key_bytes[i][len - 1] = (uint8_t)('0' + i);
    sim->keys[i] = tkt_span(sim->key_bytes[i], len);
  }
  sim->now = TKT_S;
  int ppm = sim->profile.drift_ppm;
  sim->server.clock =
      (struct sim_clock){sim_between(sim, 0, 1000 * TKT_S), sim_between(sim, -ppm, ppm)};
  if (options->plant == SIM_PLANT_FAST_SERVER) sim->server.clock.ppm = 100000;
  if (sim->profile.nodes) sim_cluster_init(sim);
  sim_server_start(sim);
  sim_note(sim, "%s: %u clients, %u actors, %u keys", sim->profile.name, sim->profile.clients,
           sim->profile.actors, sim->profile.keys);
  for (unsigned i = 0; i < sim->profile.clients; i++) {
    struct sim_client *client = &sim->clients[i];
    client->index = i;
    client->clock =
        (struct sim_clock){sim_between(sim, 0, 1000 * TKT_S), sim_between(sim, -ppm, ppm)};
    if (options->plant == SIM_PLANT_SLOW_CLOCK) client->clock.ppm = -100000;
    client->cancel_keeps = !sim->profile.hurry && sim_chance(sim, 1, 2);
    sim_actors_init(sim, client);
    sim_client_open(sim, client);
  }
  for (unsigned i = 0; i < sim->profile.legacies; i++)
    sim_legacy_init(sim, &sim->legacies[i], i);
}

/* Faults end; what is under way comes to its end. */
static void settle(struct sim *sim) {
  sim->calm = true;
  sim_note(sim, "calm from here on");
  for (unsigned i = 0; i < sim->conn_high; i++)
    for (int side = 0; side < 2; side++)
      if (sim->conns[i].pipes[side].stall_until > sim->now)
        sim->conns[i].pipes[side].stall_until = sim->now;
  sim->server.asleep_until = sim->now;
  if (sim->profile.nodes) sim_cluster_calm(sim);
  for (unsigned i = 0; i < sim->profile.clients; i++)
    sim->clients[i].asleep_until = sim->now;
  if (sim->server.draining) sim_server_kill(sim);
  int64_t limit = sim->now + 600 * TKT_S;
  uint64_t first = sim->step;
  for (;;) {
    bool idle = sim->server.engine;
    for (unsigned i = 0; i < sim->profile.clients; i++)
      idle = idle && sim->clients[i].engine && sim_actors_idle(sim, &sim->clients[i]);
    for (unsigned i = 0; i < sim->profile.legacies; i++)
      idle = idle && sim_legacy_idle(&sim->legacies[i]);
    if (idle || sim->failed) return;
    if (!step(sim, limit) || sim->step - first > SIM_STEPS_TO_SETTLE) {
      sim_fail(sim, "the calls under way never end");
      return;
    }
  }
}

static void run_for(struct sim *sim, int64_t duration) {
  int64_t limit = sim->now + duration;
  while (!sim->failed && step(sim, limit)) {
  }
}

/* Every key can be had by somebody again, and all of them together. */
static void final_acquires(struct sim *sim) {
  unsigned honest = sim->profile.clients - sim->profile.impostor;
  for (unsigned key = 0; key <= sim->profile.keys && !sim->failed; key++) {
    struct sim_client *client = &sim->clients[key % honest];
    bool all = key == sim->profile.keys; /* at once */
    /* Tight limits may forbid so many keys. */
    if (all && (client->wire == 2 || sim->profile.small_limits)) return;
    sim_actor_final(sim, client, all ? (1u << key) - 1 : 1u << key);
    while (!sim->failed && !sim_actors_idle(sim, client))
      if (!step(sim, TKT_NEVER)) sim_fail(sim, "an acquire in the calm never ends");
    run_for(sim, 5 * TKT_S); /* the release is stored */
  }
}

static void close_all(struct sim *sim) {
  int64_t limit = sim->now + 6 * TKT_S;
  for (unsigned i = 0; i < sim->profile.clients; i++)
    sim_client_close(sim, &sim->clients[i], TKT_NEVER);
  for (;;) {
    bool closed = true;
    for (unsigned i = 0; i < sim->profile.clients; i++)
      closed = closed && !sim->clients[i].engine;
    if (closed || sim->failed) break;
    if (!step(sim, limit)) sim_fail(sim, "a client does not close within 5 s");
  }
  if (sim->failed) return;
  for (unsigned i = 0; i < sim->profile.legacies; i++)
    sim_legacy_close(sim, &sim->legacies[i]);
  sim_server_drain(sim);
  limit = sim->now + 6 * TKT_S;
  while (!sim->failed && !tkt_server_drained(sim->server.engine))
    if (!step(sim, limit)) sim_fail(sim, "the server does not drain");
}

static void finish(struct sim *sim) {
  for (unsigned i = 0; i < sim->profile.legacies; i++)
    sim_legacy_close(sim, &sim->legacies[i]);
  for (unsigned i = 0; i < sim->profile.clients; i++)
    sim_client_free(sim, &sim->clients[i]);
  sim_server_free(sim);
  sim_network_free(sim);
}

bool sim_run(struct sim *sim, const struct sim_options *options) {
  heap_fail_one_in(0, 0);
  size_t before = heap_in_use();
  start(sim, options, before);
  heap_fail_one_in(sim->profile.memory, options->seed);
  while (!sim->failed && sim->step < options->steps) {
    inject_faults(sim);
    if (!step(sim, TKT_NEVER)) sim_fail(sim, "nothing is left to happen");
  }
  heap_fail_one_in(0, 0);
  if (!sim->failed) settle(sim);
  /* Background releases and half-closed sessions have their own few seconds. */
  if (!sim->failed) run_for(sim, 12 * TKT_S);
  if (!sim->failed) invariants_quiescent(sim);
  /* Under tight limits, leases nobody can end have to run out first. */
  if (!sim->failed && sim->profile.small_limits) run_for(sim, 30 * TKT_S);
  if (!sim->failed) final_acquires(sim);
  if (!sim->failed) run_for(sim, invariants_last_lease(sim) - sim->now + 2 * TKT_S);
  if (!sim->failed) invariants_empty(sim);
  if (!sim->failed) close_all(sim);
  finish(sim);
  if (!sim->failed && heap_in_use() != before)
    sim_fail(sim, "%zd bytes are left after everything was freed",
             (ssize_t)(heap_in_use() - before));
  return !sim->failed;
}
