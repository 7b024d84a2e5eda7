#include "server/commit.h"

#include "server/grant.h"
#include "server/lock_table.h"
#include "server/release.h"

#include <stdlib.h>

/* Room a new batch starts with, and the most that a decided one keeps for later. */
enum { ENTRIES_FIRST = 64, ENTRIES_KEPT = 4096 };

struct tkt_entry {
  struct tkt_grant *grant; /* NULL: unstaged */
  uint8_t kind;
  uint8_t lease_s;
};

struct tkt_batch {
  struct tkt_list node;
  struct tkt_batch *next_spare;
  uint64_t number;
  size_t count;  /* entries */
  size_t staged; /* of which not unstaged */
  size_t keys;   /* at most that many keys in all */
  size_t cap;
  struct tkt_entry *entries;
};

static struct tkt_batch *new_batch(void) {
  struct tkt_batch *batch = calloc(1, sizeof *batch);
  if (batch) tkt_list_init(&batch->node);
  return batch;
}

static void free_batch(struct tkt_batch *batch) {
  if (!batch) return;
  free(batch->entries);
  free(batch);
}

static void recycle(struct tkt_server *server, struct tkt_batch *batch) {
  batch->count = batch->staged = batch->keys = 0;
  if (batch->cap > ENTRIES_KEPT) {
    free(batch->entries);
    batch->entries = NULL;
    batch->cap = 0;
  }
  batch->next_spare = server->spare;
  server->spare = batch;
}

bool tkt_commit_init(struct tkt_server *server) {
  tkt_list_init(&server->pending);
  server->open = new_batch();
  server->spare = new_batch();
  return server->open && server->spare;
}

static void forget_entries(struct tkt_server *server, struct tkt_batch *batch) {
  for (size_t i = 0; i < batch->count; i++) {
    struct tkt_grant *grant = batch->entries[i].grant;
    if (!grant || grant->state != TKT_GRANT_VOID) continue;
    grant->changes--;
    tkt_grant_settle_void(server, grant);
  }
  free_batch(batch);
}

void tkt_commit_free(struct tkt_server *server) {
  struct tkt_list *node;
  while ((node = tkt_list_shift(&server->pending)))
    forget_entries(server, TKT_CONTAINER(node, struct tkt_batch, node));
  if (server->open) forget_entries(server, server->open);
  server->open = NULL;
  while (server->spare) {
    struct tkt_batch *next = server->spare->next_spare;
    free_batch(server->spare);
    server->spare = next;
  }
  free(server->changes);
  free(server->spans);
  server->changes = NULL;
  server->spans = NULL;
}

/* Grows *array to hold `need` elements. */
static bool make_room(void **array, size_t *cap, size_t need, size_t element) {
  if (need <= *cap) return true;
  size_t larger = *cap ? *cap * 2 : ENTRIES_FIRST;
  while (larger < need)
    larger *= 2;
  void *grown = realloc(*array, larger * element);
  if (!grown) return false;
  *array = grown;
  *cap = larger;
  return true;
}

/* Room for handing over is made here, so that handing over cannot fail. */
static bool grow(struct tkt_server *server, struct tkt_batch *batch, size_t count, size_t keys) {
  void *entries = batch->entries, *changes = server->changes, *spans = server->spans;
  bool ok = make_room(&entries, &batch->cap, count, sizeof *batch->entries) &&
            make_room(&changes, &server->changes_cap, count, sizeof *server->changes) &&
            make_room(&spans, &server->spans_cap, keys, sizeof *server->spans);
  batch->entries = entries;
  server->changes = changes;
  server->spans = spans;
  return ok;
}

static inline bool has_room(const struct tkt_server *server, const struct tkt_batch *batch,
                            size_t count, size_t keys) {
  return count <= batch->cap && count <= server->changes_cap && keys <= server->spans_cap;
}

/* Out of the way of the many calls that find room. */
static __attribute__((noinline)) bool stage_in_more_room(struct tkt_server *server,
                                                         enum tkt_change_kind kind,
                                                         struct tkt_grant *grant, uint8_t lease_s,
                                                         size_t *entry_out) {
  struct tkt_batch *batch = server->open;
  return grow(server, batch, batch->count + 1, batch->keys + grant->key_count) &&
         tkt_commit_stage(server, kind, grant, lease_s, entry_out);
}

bool tkt_commit_stage(struct tkt_server *server, enum tkt_change_kind kind, struct tkt_grant *grant,
                      uint8_t lease_s, size_t *entry_out) {
  struct tkt_batch *batch = server->open;
  size_t count = batch->count + 1, keys = batch->keys + grant->key_count;
  if (!has_room(server, batch, count, keys))
    return stage_in_more_room(server, kind, grant, lease_s, entry_out);
  batch->entries[batch->count] = (struct tkt_entry){grant, (uint8_t)kind, lease_s};
  if (entry_out) *entry_out = batch->count;
  batch->count = count;
  batch->staged++;
  batch->keys = keys;
  return true;
}

void tkt_commit_raise(struct tkt_server *server, size_t entry, uint8_t lease_s) {
  struct tkt_entry *staged = &server->open->entries[entry];
  if (lease_s > staged->lease_s) staged->lease_s = lease_s;
}

void tkt_commit_unstage(struct tkt_server *server, size_t entry) {
  server->open->entries[entry].grant = NULL;
  server->open->staged--;
}

static size_t describe(struct tkt_server *server, const struct tkt_batch *batch) {
  size_t count = 0;
  struct tkt_span *span = server->spans;
  for (size_t i = 0; i < batch->count; i++) {
    struct tkt_grant *grant = batch->entries[i].grant;
    if (!grant) continue;
    struct tkt_change *change = &server->changes[count++];
    change->kind = (enum tkt_change_kind)batch->entries[i].kind;
    change->token = grant->token;
    change->lease_ns = tkt_lease_kept(batch->entries[i].lease_s);
    change->keys = span;
    change->key_count = grant->key_count;
    for (size_t k = 0; k < grant->key_count; k++)
      *span++ = tkt_lock_text(grant->holds[k].lock);
    if (change->kind == TKT_CHANGE_GRANT || change->kind == TKT_CHANGE_EXTEND) {
      grant->waiter->staged = false;
    } else {
      grant->removal = TKT_REMOVAL_IN_COMMIT;
    }
  }
  return count;
}

/* In the order of the changes: so a session reads its R before the A that the release made
 * possible. */
static void decide(struct tkt_server *server, struct tkt_batch *batch, enum tkt_commit result) {
  for (size_t i = 0; i < batch->count; i++) {
    struct tkt_entry entry = batch->entries[i];
    if (!entry.grant) continue;
    if (entry.kind == TKT_CHANGE_GRANT || entry.kind == TKT_CHANGE_EXTEND) {
      tkt_grant_decided(server, entry.grant, (enum tkt_change_kind)entry.kind, entry.lease_s,
                        result);
    } else {
      tkt_release_decided(server, entry.grant, result);
    }
  }
  recycle(server, batch);
}

/* Without a spare batch the open one stays: every other one is with the storage, and the first
 * that comes back lets this one go. */
static bool can_emit(struct tkt_server *server) {
  if (!server->spare) server->spare = new_batch();
  return server->spare != NULL;
}

void tkt_commit_emit(struct tkt_server *server) {
  struct tkt_batch *batch = server->open;
  if (batch->staged == 0) {
    batch->count = batch->keys = 0;
    return;
  }
  if (!can_emit(server)) return;
  server->open = server->spare;
  server->spare = server->spare->next_spare;
  size_t count = describe(server, batch);
  batch->number = ++server->batches;
  enum tkt_commit result =
      server->storage->commit(server->storage, batch->number, server->changes, count);
  if (result == TKT_COMMIT_PENDING) {
    tkt_list_append(&server->pending, &batch->node);
  } else {
    decide(server, batch, result);
  }
}

void tkt_server_committed(struct tkt_server *server, uint64_t number, enum tkt_commit result,
                          int64_t now) {
  tkt_server_clock(server, now);
  TKT_LIST_EACH(node, next, &server->pending) {
    struct tkt_batch *batch = TKT_CONTAINER(node, struct tkt_batch, node);
    if (batch->number != number) continue;
    tkt_list_remove(&batch->node);
    decide(server, batch, result);
    return;
  }
}

bool tkt_commit_waiting(const struct tkt_server *server) {
  return server->open->staged > 0 && (server->spare || tkt_list_empty(&server->pending));
}

bool tkt_commit_pending(const struct tkt_server *server) {
  return server->open->staged > 0 || !tkt_list_empty(&server->pending);
}
