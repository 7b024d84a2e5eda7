#include "drive/op_store.h"

#include "drive/op.h"

#include <stdlib.h>

/* Sanitizers see each operation as an allocation of its own, so that use after free is caught. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TKT_OP_STORE_PLAIN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TKT_OP_STORE_PLAIN 1
#endif
#endif

#ifdef TKT_OP_STORE_PLAIN
static const unsigned keep_max = 0;
#else
static const unsigned keep_max = TKT_OP_STORE_MAX;
#endif

static bool enter(struct tkt_op_store *store) {
  return !atomic_flag_test_and_set_explicit(&store->busy, memory_order_acquire);
}

static void leave(struct tkt_op_store *store) {
  atomic_flag_clear_explicit(&store->busy, memory_order_release);
}

void tkt_op_store_init(struct tkt_op_store *store) {
  atomic_flag_clear(&store->busy);
  store->count = 0;
  store->kept = NULL;
}

void tkt_op_store_release(struct tkt_op_store *store) {
  for (struct tkt_op *op; (op = store->kept);) {
    store->kept = op->next;
    free(op);
  }
}

struct tkt_op *tkt_op_store_take(struct tkt_op_store *store) {
  struct tkt_op *op = NULL;
  if (enter(store)) {
    op = store->kept;
    if (op) {
      store->kept = op->next;
      store->count--;
    }
    leave(store);
  }
  return op ? op : malloc(sizeof *op);
}

void tkt_op_store_give(struct tkt_op_store *store, struct tkt_op *op) {
  if (enter(store)) {
    bool keep = store->count + 1 <= keep_max;
    if (keep) {
      op->next = store->kept;
      store->kept = op;
      store->count++;
    }
    leave(store);
    if (keep) return;
  }
  free(op);
}
