#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

struct item {
  int value;
  struct tkt_list node;
};

static int value_of(struct tkt_list *node) {
  return TKT_CONTAINER(node, struct item, node)->value;
}

static void make(struct item *items, int count) {
  for (int i = 0; i < count; i++) {
    items[i].value = i;
    tkt_list_init(&items[i].node);
  }
}

/* The list reads `expected` forward and backward. */
static void assert_order(struct tkt_list *head, const int *expected, int count) {
  struct tkt_list *at = head->next;
  for (int i = 0; i < count; i++, at = at->next) {
    assert_ptr_not_equal(at, head);
    assert_int_equal(value_of(at), expected[i]);
  }
  assert_ptr_equal(at, head);
  at = head->prev;
  for (int i = count; i-- > 0; at = at->prev)
    assert_int_equal(value_of(at), expected[i]);
  assert_ptr_equal(at, head);
}

static void order_of_append_and_prepend(void **state) {
  (void)state;
  struct tkt_list head;
  struct item items[4];
  tkt_list_init(&head);
  make(items, 4);
  assert_true(tkt_list_empty(&head));
  assert_null(tkt_list_first(&head));
  assert_null(tkt_list_shift(&head));
  tkt_list_append(&head, &items[1].node);
  tkt_list_append(&head, &items[2].node);
  tkt_list_prepend(&head, &items[0].node);
  tkt_list_insert_before(&items[1].node, &items[3].node);
  assert_false(tkt_list_empty(&head));
  assert_order(&head, (const int[]){0, 3, 1, 2}, 4);
  assert_int_equal(value_of(tkt_list_first(&head)), 0);
}

static void remove_leaves_the_node_unlinked_and_may_repeat(void **state) {
  (void)state;
  struct tkt_list head;
  struct item items[3];
  tkt_list_init(&head);
  make(items, 3);
  for (int i = 0; i < 3; i++)
    tkt_list_append(&head, &items[i].node);
  assert_true(tkt_list_linked(&items[1].node));
  tkt_list_remove(&items[1].node);
  tkt_list_remove(&items[1].node);
  assert_false(tkt_list_linked(&items[1].node));
  assert_order(&head, (const int[]){0, 2}, 2);
  assert_ptr_equal(tkt_list_shift(&head), &items[0].node);
  assert_ptr_equal(tkt_list_shift(&head), &items[2].node);
  assert_true(tkt_list_empty(&head));
}

static void splice_moves_everything_in_order(void **state) {
  (void)state;
  struct tkt_list a, b;
  struct item items[4];
  tkt_list_init(&a);
  tkt_list_init(&b);
  make(items, 4);
  tkt_list_splice(&a, &b); /* nothing to nothing */
  assert_true(tkt_list_empty(&a));
  tkt_list_append(&b, &items[0].node);
  tkt_list_append(&b, &items[1].node);
  tkt_list_splice(&a, &b); /* to an empty one */
  assert_true(tkt_list_empty(&b));
  assert_order(&a, (const int[]){0, 1}, 2);
  tkt_list_append(&b, &items[2].node);
  tkt_list_append(&b, &items[3].node);
  tkt_list_splice(&a, &b);
  assert_order(&a, (const int[]){0, 1, 2, 3}, 4);
  tkt_list_splice(&a, &b);
  assert_order(&a, (const int[]){0, 1, 2, 3}, 4);
}

static void walk_allows_removing_the_current_node(void **state) {
  (void)state;
  struct tkt_list head;
  struct item items[6];
  tkt_list_init(&head);
  make(items, 6);
  for (int i = 0; i < 6; i++)
    tkt_list_append(&head, &items[i].node);
  int seen = 0;
  TKT_LIST_EACH(at, next, &head) {
    assert_int_equal(value_of(at), seen++);
    if (value_of(at) % 2 == 0) tkt_list_remove(at);
  }
  assert_int_equal(seen, 6);
  assert_order(&head, (const int[]){1, 3, 5}, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(order_of_append_and_prepend),
      cmocka_unit_test(remove_leaves_the_node_unlinked_and_may_repeat),
      cmocka_unit_test(splice_moves_everything_in_order),
      cmocka_unit_test(walk_allows_removing_the_current_node),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
