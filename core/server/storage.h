/* Where the server engine's decisions become durable: the one interface between the rules and any
 * disk or cluster. The engine owns it; storages implement it.
 *
 * The engine emits a batch of changes and withholds the replies that depend on it until the batch
 * is decided. Until then a grant occupies its keys. */
#ifndef TKT_SERVER_STORAGE_H
#define TKT_SERVER_STORAGE_H

#include "base/bytes.h"
#include "base/key.h"

#include <stddef.h>
#include <stdint.h>

enum tkt_change_kind {
  TKT_CHANGE_GRANT,   /* token now holds keys for lease_ns from the commit on */
  TKT_CHANGE_EXTEND,  /* the lease of token runs at least lease_ns from the commit on; it names the
                         keys, and stores the grant too where nobody could say whether that was */
  TKT_CHANGE_RELEASE, /* token holds nothing any more: exact release or a grant taken back */
  TKT_CHANGE_EXPIRE,  /* token holds nothing any more: its lease ended */
};

struct tkt_change {
  enum tkt_change_kind kind;
  uint64_t token;
  int64_t lease_ns; /* as kept by the server, drift allowance included */
  const struct tkt_span *keys;
  size_t key_count;
};

enum tkt_commit {
  TKT_COMMIT_PENDING = 0, /* will be reported through tkt_server_committed */
  TKT_COMMIT_DONE,
  TKT_COMMIT_FAILED,  /* surely not stored, none of the batch */
  TKT_COMMIT_UNKNOWN, /* stored or not: nobody can say */
};

struct tkt_storage {
  /* Stores `count` (at least 1) changes, all or none, in order. The spans are valid during the
   * call only. Batches are numbered from 1; several may be pending, and they are decided in any
   * order that never lets a later batch on a token be decided before an earlier one on it. */
  enum tkt_commit (*commit)(struct tkt_storage *storage, uint64_t batch,
                            const struct tkt_change *changes, size_t count);
};

/* Keeps nothing: every batch is done at once. For tests and `memory` durability. */
extern struct tkt_storage tkt_memory_storage;

#endif
