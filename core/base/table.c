#include "base/table.h"

#include <stdlib.h>
#include <string.h>

/* Segment 0 holds buckets 0..15; segment s > 0 holds 16*2^(s-1) .. 16*2^s - 1. */
enum { FIRST_BITS = 4, FIRST_BUCKETS = 1 << FIRST_BITS };

/* Below one node in SPARSE buckets the table shrinks. A node less allows SPARSE buckets less, so as
 * many merges a remove keep pace, and a table emptied node by node ends small. */
enum { SPARSE = 4, MERGES_A_REMOVE = SPARSE };

/* Segments that stay once allocated, 8 KiB in all: a table that fills and empties all the time, as
 * that of a busy server's free keys does, shall not do so through the allocator. */
enum { SEGMENTS_KEPT = 7 };

static size_t segment_of(size_t bucket) {
  return bucket < FIRST_BUCKETS
             ? 0
             : (size_t)(64 - __builtin_clzll((unsigned long long)bucket)) - FIRST_BITS;
}

static size_t segment_start(size_t segment) {
  return segment == 0 ? 0 : (size_t)FIRST_BUCKETS << (segment - 1);
}

static size_t segment_size(size_t segment) {
  return segment == 0 ? FIRST_BUCKETS : segment_start(segment);
}

static struct tkt_table_node **slot(const struct tkt_table *t, size_t bucket) {
  size_t s = segment_of(bucket);
  return &t->segments[s][bucket - segment_start(s)];
}

/* `mask` is 2^level - 1 with 2^level <= buckets < 2^(level+1): a bucket beyond the end has not been
 * split off yet and its nodes still stand in its lower twin. */
static size_t index_of(const struct tkt_table *t, uint64_t hash) {
  size_t i = (size_t)(hash & (t->mask << 1 | 1));
  return i < t->buckets ? i : (size_t)(hash & t->mask);
}

void tkt_table_init(struct tkt_table *table) {
  memset(table, 0, sizeof *table);
}

void tkt_table_release(struct tkt_table *table) {
  for (size_t s = 0; s < TKT_TABLE_SEGMENTS; s++)
    free(table->segments[s]);
  tkt_table_init(table);
}

struct tkt_table_node *tkt_table_bucket(const struct tkt_table *table, uint64_t hash) {
  return table->buckets ? *slot(table, index_of(table, hash)) : NULL;
}

/* One more bucket, split off its lower twin. Failing to grow only makes chains longer. */
static void split_one(struct tkt_table *t) {
  size_t fresh = t->buckets;
  size_t s = segment_of(fresh);
  if (!t->segments[s]) {
    t->segments[s] = calloc(segment_size(s), sizeof *t->segments[s]);
    if (!t->segments[s]) return;
  }
  size_t twin = fresh & t->mask;
  t->buckets++;
  struct tkt_table_node **from = slot(t, twin), **to = slot(t, fresh);
  while (*from) {
    struct tkt_table_node *node = *from;
    if ((node->hash & (t->mask << 1 | 1)) == fresh) {
      *from = node->next;
      node->next = *to;
      *to = node;
    } else {
      from = &node->next;
    }
  }
  if (t->buckets == (t->mask + 1) * 2) t->mask = t->mask << 1 | 1;
}

/* Folds the last bucket back into its twin; frees a segment once it is wholly unused and one more
 * split would not need it right away. */
static void merge_one(struct tkt_table *t) {
  if (t->buckets == t->mask + 1) t->mask >>= 1;
  size_t last = t->buckets - 1;
  struct tkt_table_node **from = slot(t, last), **to = slot(t, last & t->mask);
  while (*to)
    to = &(*to)->next;
  *to = *from;
  *from = NULL;
  t->buckets--;
  size_t s = segment_of(last);
  if (s + 1 >= SEGMENTS_KEPT && s + 1 < TKT_TABLE_SEGMENTS && last == segment_start(s) &&
      t->segments[s + 1]) {
    free(t->segments[s + 1]);
    t->segments[s + 1] = NULL;
  }
}

bool tkt_table_insert(struct tkt_table *table, struct tkt_table_node *node, uint64_t hash) {
  if (table->buckets == 0) {
    if (!table->segments[0]) table->segments[0] = calloc(FIRST_BUCKETS, sizeof *table->segments[0]);
    if (!table->segments[0]) return false;
    table->buckets = FIRST_BUCKETS;
    table->mask = FIRST_BUCKETS - 1;
  }
  node->hash = hash;
  struct tkt_table_node **head = slot(table, index_of(table, hash));
  node->next = *head;
  *head = node;
  if (++table->count > table->buckets) split_one(table);
  return true;
}

void tkt_table_remove(struct tkt_table *table, struct tkt_table_node *node) {
  struct tkt_table_node **link = slot(table, index_of(table, node->hash));
  while (*link != node)
    link = &(*link)->next;
  *link = node->next;
  node->next = NULL;
  table->count--;
  for (int i = 0; i < MERGES_A_REMOVE; i++) {
    if (table->buckets <= FIRST_BUCKETS || table->count >= table->buckets / SPARSE) break;
    merge_one(table);
  }
}

void tkt_table_each(const struct tkt_table *table,
                    void (*visit)(struct tkt_table_node *node, void *context), void *context) {
  for (size_t b = 0; b < table->buckets; b++)
    for (struct tkt_table_node *node = *slot(table, b), *next; node; node = next) {
      next = node->next;
      visit(node, context);
    }
}

struct tkt_table_node *tkt_table_drain(struct tkt_table *table) {
  while (table->buckets) {
    struct tkt_table_node **head = slot(table, table->buckets - 1);
    struct tkt_table_node *node = *head;
    if (node) {
      *head = node->next;
      node->next = NULL;
      table->count--;
      return node;
    }
    if (table->buckets <= FIRST_BUCKETS) {
      for (size_t b = 0; b < table->buckets; b++) {
        head = slot(table, b);
        if (!*head) continue;
        node = *head;
        *head = node->next;
        node->next = NULL;
        table->count--;
        return node;
      }
      return NULL;
    }
    merge_one(table);
  }
  return NULL;
}
