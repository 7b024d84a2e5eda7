/* Intrusive hash table that grows and shrinks one bucket at a time (linear hashing), so that no
 * single insert pays for moving a million entries.
 *
 * The table stores nodes, the caller owns the objects and compares them:
 *
 *   for (n = tkt_table_bucket(&t, hash); n; n = n->next)
 *     if (n->hash == hash && same(object_of(n), wanted)) ...
 */
#ifndef TKT_BASE_TABLE_H
#define TKT_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tkt_table_node {
  struct tkt_table_node *next;
  uint64_t hash;
};

/* Buckets live in segments whose sizes double: 60 of them are more than memory holds. */
enum { TKT_TABLE_SEGMENTS = 60 };

struct tkt_table {
  size_t count;   /* nodes */
  size_t buckets; /* in use; 0 before the first insert */
  uint64_t mask;  /* low mask: buckets - 1 rounded down to the level */
  struct tkt_table_node **segments[TKT_TABLE_SEGMENTS];
};

/* Zeroed memory is an empty table as well. */
void tkt_table_init(struct tkt_table *table);

/* Frees the segments; the objects are the caller's. */
void tkt_table_release(struct tkt_table *table);

/* Head of the chain where `hash` would stand, or NULL. */
struct tkt_table_node *tkt_table_bucket(const struct tkt_table *table, uint64_t hash);

/* Adds `node` (its hash set here). False where memory ran out: nothing changed. Does not look for
 * an equal object. */
bool tkt_table_insert(struct tkt_table *table, struct tkt_table_node *node, uint64_t hash);

/* Takes out `node`, which must be in the table. */
void tkt_table_remove(struct tkt_table *table, struct tkt_table_node *node);

/* Calls `visit` for every node, in no order; it may not insert or remove, except through
 * tkt_table_drain. */
void tkt_table_each(const struct tkt_table *table,
                    void (*visit)(struct tkt_table_node *node, void *context), void *context);

/* Takes out some node and returns it; NULL when the table is empty. For tearing down. */
struct tkt_table_node *tkt_table_drain(struct tkt_table *table);

#endif
