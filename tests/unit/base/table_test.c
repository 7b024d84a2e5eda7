#include "base/hash.h"
#include "base/random.h"
#include "base/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MANY = 100000 };

struct entry {
  struct tkt_table_node node;
  uint64_t number;
  uint64_t hash;
  bool present; /* the reference model */
};

static struct entry *entry_of(struct tkt_table_node *node) {
  return (struct entry *)(void *)((char *)node - offsetof(struct entry, node));
}

static struct entry *make_entries(size_t count, uint64_t salt) {
  struct entry *entries = calloc(count, sizeof *entries);
  assert_non_null(entries);
  for (size_t i = 0; i < count; i++) {
    entries[i].number = i;
    entries[i].hash = tkt_hash_u64(i + (salt << 32));
  }
  return entries;
}

static void insert(struct tkt_table *t, struct entry *entry) {
  assert_false(entry->present);
  assert_true(tkt_table_insert(t, &entry->node, entry->hash));
  entry->present = true;
}

static void take_out(struct tkt_table *t, struct entry *entry) {
  assert_true(entry->present);
  tkt_table_remove(t, &entry->node);
  entry->present = false;
}

static bool holds(const struct tkt_table *t, const struct entry *entry) {
  for (struct tkt_table_node *n = tkt_table_bucket(t, entry->hash); n; n = n->next)
    if (n->hash == entry->hash && entry_of(n)->number == entry->number) return entry_of(n) == entry;
  return false;
}

static size_t longest_chain(const struct tkt_table *t, const struct entry *entries, size_t count) {
  size_t longest = 0;
  for (size_t i = 0; i < count; i++) {
    if (!entries[i].present) continue;
    size_t chain = 0;
    for (struct tkt_table_node *n = tkt_table_bucket(t, entries[i].node.hash); n; n = n->next)
      chain++;
    if (chain > longest) longest = chain;
  }
  return longest;
}

static void count_node(struct tkt_table_node *node, void *context) {
  struct entry *entry = entry_of(node);
  assert_true(entry->present);
  ++*(size_t *)context;
}

/* Every present entry is found, no absent one is, `each` sees each once. */
static void assert_equals_model(const struct tkt_table *t, const struct entry *entries,
                                size_t count) {
  size_t present = 0;
  for (size_t i = 0; i < count; i++) {
    present += entries[i].present;
    if (holds(t, &entries[i]) != entries[i].present) fail_msg("entry %zu", i);
  }
  assert_int_equal(t->count, present);
  size_t visited = 0;
  tkt_table_each(t, count_node, &visited);
  assert_int_equal(visited, present);
}

static void an_empty_table_finds_nothing(void **state) {
  (void)state;
  struct tkt_table t;
  tkt_table_init(&t);
  assert_null(tkt_table_bucket(&t, 1));
  assert_null(tkt_table_drain(&t));
  size_t visited = 0;
  tkt_table_each(&t, count_node, &visited);
  assert_int_equal(visited, 0);
  tkt_table_release(&t);
}

static void assert_no_sparser_than_a_quarter(const struct tkt_table *t) {
  if (t->buckets > 16 && t->count < t->buckets / 4)
    fail_msg("%zu nodes in %zu buckets", t->count, t->buckets);
}

static void grows_and_shrinks_with_its_content(void **state) {
  (void)state;
  struct entry *entries = make_entries(MANY, 0);
  struct tkt_table t = {0};
  for (size_t i = 0; i < MANY; i++)
    insert(&t, &entries[i]);
  assert_true(t.buckets >= MANY);
  assert_equals_model(&t, entries, MANY);
  assert_in_range(longest_chain(&t, entries, MANY), 1, 16);

  for (size_t i = 0; i < MANY; i++) { /* in an order that is not that of insertion */
    take_out(&t, &entries[(i * 7919) % MANY]);
    assert_no_sparser_than_a_quarter(&t);
    if (i % 10000 == 9999) assert_equals_model(&t, entries, MANY);
  }
  assert_int_equal(t.count, 0);
  assert_int_equal(t.buckets, 16);
  size_t segments = 0;
  for (size_t s = 0; s < TKT_TABLE_SEGMENTS; s++)
    segments += t.segments[s] != NULL;
  assert_int_equal(segments, 7); /* 8 KiB stay, so that it may fill again without the allocator */
  tkt_table_release(&t);
  free(entries);
}

/* Equal hashes share a chain however large the table is. */
static void equal_hashes_are_told_apart_by_the_caller(void **state) {
  (void)state;
  struct entry *entries = make_entries(1000, 0);
  struct tkt_table t = {0};
  for (size_t i = 0; i < 1000; i++) {
    entries[i].hash = i & 3;
    insert(&t, &entries[i]);
  }
  for (size_t i = 0; i < 1000; i += 3)
    take_out(&t, &entries[i]);
  assert_equals_model(&t, entries, 1000);
  while (tkt_table_drain(&t))
    continue;
  tkt_table_release(&t);
  free(entries);
}

/* Many small tables, each grown and shrunk over the powers of two several times: a bucket lost at
 * one of them is often an empty one. */
static void random_operations_equal_the_model(void **state) {
  (void)state;
  enum { COUNT = 600, SALTS = 40, PHASES = 10 };
  struct tkt_random random;
  tkt_random_init(&random, (const uint64_t[4]){42, 0, 0, 0});
  for (uint64_t salt = 1; salt <= SALTS; salt++) {
    struct entry *entries = make_entries(COUNT, salt);
    struct tkt_table t = {0};
    for (int phase = 0; phase < PHASES; phase++) {
      uint64_t inserts_of_ten = phase % 2 ? tkt_random_below(&random, 3) : 9;
      for (int op = 0; op < COUNT * 4; op++) {
        struct entry *entry = &entries[tkt_random_below(&random, COUNT)];
        bool wanted = tkt_random_below(&random, 10) < inserts_of_ten;
        if (wanted && !entry->present) insert(&t, entry);
        if (!wanted && entry->present) take_out(&t, entry);
        assert_no_sparser_than_a_quarter(&t);
        if (op % 100 == 0) assert_equals_model(&t, entries, COUNT);
      }
      assert_equals_model(&t, entries, COUNT);
    }
    while (tkt_table_drain(&t))
      continue;
    assert_int_equal(t.buckets, 16);
    tkt_table_release(&t);
    free(entries);
  }
}

static void drain_gives_each_node_once(void **state) {
  (void)state;
  struct entry *entries = make_entries(MANY, 0);
  struct tkt_table t = {0};
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < MANY; i++)
      insert(&t, &entries[i]);
    size_t drained = 0;
    for (struct tkt_table_node *node; (node = tkt_table_drain(&t)); drained++) {
      assert_true(entry_of(node)->present);
      entry_of(node)->present = false;
      if (drained == MANY / 2) assert_equals_model(&t, entries, MANY);
    }
    assert_int_equal(drained, MANY);
    assert_int_equal(t.count, 0);
  }
  tkt_table_release(&t);
  free(entries);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_empty_table_finds_nothing),
      cmocka_unit_test(grows_and_shrinks_with_its_content),
      cmocka_unit_test(equal_hashes_are_told_apart_by_the_caller),
      cmocka_unit_test(random_operations_equal_the_model),
      cmocka_unit_test(drain_gives_each_node_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
