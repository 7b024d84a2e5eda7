/* Memory of operations: a bounded stack of those given back, so that a steady flow touches no
 * allocator. Any thread; nobody waits: where another thread is in it, the allocator serves. */
#ifndef TKT_DRIVE_OP_STORE_H
#define TKT_DRIVE_OP_STORE_H

#include <stdatomic.h>
#include <stddef.h>

/* Most operations kept for reuse: the default of those in flight, twice (acquire and release). */
enum { TKT_OP_STORE_MAX = 2048 };

struct tkt_op;

struct tkt_op_store {
  atomic_flag busy;
  unsigned count;
  struct tkt_op *kept;
};

void tkt_op_store_init(struct tkt_op_store *store);
void tkt_op_store_release(struct tkt_op_store *store);

/* Not zeroed. NULL: out of memory. */
struct tkt_op *tkt_op_store_take(struct tkt_op_store *store);
void tkt_op_store_give(struct tkt_op_store *store, struct tkt_op *op);

#endif
