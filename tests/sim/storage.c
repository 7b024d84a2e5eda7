#include "storage.h"

#include "ledger.h"

static bool share_token(const struct sim_batch *a, const struct sim_batch *b) {
  for (size_t i = 0; i < a->count; i++)
    for (size_t j = 0; j < b->count; j++)
      if (a->changes[i].token == b->changes[j].token) return true;
  return false;
}

/* Decidable: no earlier batch that names one of its tokens still pends. */
static bool decidable(const struct sim_storage *storage, size_t index) {
  for (size_t i = 0; i < index; i++)
    if (share_token(&storage->batches[i], &storage->batches[index])) return false;
  return true;
}

static enum tkt_commit choose_result(struct sim *sim) {
  if (sim->calm) return TKT_COMMIT_DONE;
  if (sim_chance(sim, sim->profile.commit_fail, 1000)) return TKT_COMMIT_FAILED;
  if (sim_chance(sim, sim->profile.commit_unknown, 1000)) return TKT_COMMIT_UNKNOWN;
  return TKT_COMMIT_DONE;
}

static const char *result_name(enum tkt_commit result) {
  return result == TKT_COMMIT_DONE ? "done" : result == TKT_COMMIT_FAILED ? "failed" : "unknown";
}

static enum tkt_commit commit(struct tkt_storage *base, uint64_t number,
                              const struct tkt_change *changes, size_t count) {
  struct sim_storage *storage = (struct sim_storage *)(void *)base;
  struct sim *sim = storage->sim;
  struct sim_batch scratch;
  bool room = storage->pending < SIM_BATCHES;
  struct sim_batch *batch = room ? &storage->batches[storage->pending] : &scratch;
  if (count == 0) sim_fail(sim, "the server committed an empty batch");
  if (count > SIM_CHANGES_A_BATCH) {
    sim_fail(sim, "a batch of %zu changes, more than the workload can cause", count);
    count = SIM_CHANGES_A_BATCH;
  }
  batch->number = number;
  batch->count = count;
  for (size_t i = 0; i < count; i++) {
    batch->changes[i].kind = changes[i].kind;
    batch->changes[i].token = changes[i].token;
    batch->changes[i].lease_ns = changes[i].lease_ns;
  }
  ledger_emitted(sim, number, changes, count);
  batch->result = choose_result(sim);
  if (batch->result != TKT_COMMIT_DONE) sim_fault_until(sim, sim->now);
  bool later =
      sim->profile.commit_delay_max > 0 && room &&
      (!decidable(storage, storage->pending) || sim_chance(sim, sim->profile.commit_later, 1000));
  if (!later && room && !decidable(storage, storage->pending)) later = true;
  if (later) {
    batch->due = sim->now + sim_between(sim, 0, sim->profile.commit_delay_max);
    storage->pending++;
    sim_note(sim, "server batch %llu pends", (unsigned long long)number);
    return TKT_COMMIT_PENDING;
  }
  if (batch->result != TKT_COMMIT_DONE)
    sim_note(sim, "server batch %llu %s at once", (unsigned long long)number,
             result_name(batch->result));
  ledger_decided(sim, batch, batch->result);
  if (sim->options.plant == SIM_PLANT_EARLY_REPLY) return TKT_COMMIT_DONE;
  return batch->result;
}

void sim_storage_init(struct sim *sim) {
  sim->server.storage.base.commit = commit;
  sim->server.storage.sim = sim;
  sim->server.storage.pending = 0;
}

void sim_storage_decide(struct sim *sim, int64_t server_now) {
  struct sim_storage *storage = &sim->server.storage;
  for (;;) {
    size_t ready[SIM_BATCHES], count = 0;
    for (size_t i = 0; i < storage->pending; i++)
      if (storage->batches[i].due <= sim->now && decidable(storage, i)) ready[count++] = i;
    if (count == 0) return;
    size_t index = ready[sim_below(sim, count)];
    struct sim_batch batch = storage->batches[index];
    for (size_t i = index + 1; i < storage->pending; i++)
      storage->batches[i - 1] = storage->batches[i];
    storage->pending--;
    sim_note(sim, "server batch %llu %s", (unsigned long long)batch.number,
             result_name(batch.result));
    if (batch.result != TKT_COMMIT_DONE) sim_fault_until(sim, sim->now);
    ledger_decided(sim, &batch, batch.result);
    tkt_server_committed(sim->server.engine, batch.number, batch.result, server_now);
  }
}

int64_t sim_storage_due(const struct sim *sim) {
  const struct sim_storage *storage = &sim->server.storage;
  int64_t due = TKT_NEVER;
  for (size_t i = 0; i < storage->pending; i++)
    if (storage->batches[i].due < due && decidable(storage, i)) due = storage->batches[i].due;
  return due;
}
