/* Intrusive doubly linked list: no allocation, O(1) insert and remove.
 *
 * A list head and a node are the same type. An unlinked node points at itself, so removing twice
 * is harmless and "is it linked" is one comparison. */
#ifndef TKT_BASE_LIST_H
#define TKT_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct tkt_list {
  struct tkt_list *prev;
  struct tkt_list *next;
};

/* The object of `type` whose member `member` is `*ptr`. */
#define TKT_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void tkt_list_init(struct tkt_list *head) {
  head->prev = head;
  head->next = head;
}

static inline bool tkt_list_empty(const struct tkt_list *head) {
  return head->next == head;
}

/* True while `node` (initialised) stands in some list. */
static inline bool tkt_list_linked(const struct tkt_list *node) {
  return node->next != node;
}

/* Puts `node` right before `at`; with `at` the head this appends. */
static inline void tkt_list_insert_before(struct tkt_list *at, struct tkt_list *node) {
  node->prev = at->prev;
  node->next = at;
  at->prev->next = node;
  at->prev = node;
}

static inline void tkt_list_append(struct tkt_list *head, struct tkt_list *node) {
  tkt_list_insert_before(head, node);
}

static inline void tkt_list_prepend(struct tkt_list *head, struct tkt_list *node) {
  tkt_list_insert_before(head->next, node);
}

static inline void tkt_list_remove(struct tkt_list *node) {
  node->prev->next = node->next;
  node->next->prev = node->prev;
  tkt_list_init(node);
}

/* First node, or NULL where the list is empty. */
static inline struct tkt_list *tkt_list_first(const struct tkt_list *head) {
  return tkt_list_empty(head) ? NULL : head->next;
}

/* Takes the first node out and returns it, or NULL. */
static inline struct tkt_list *tkt_list_shift(struct tkt_list *head) {
  struct tkt_list *node = tkt_list_first(head);
  if (node) tkt_list_remove(node);
  return node;
}

/* Moves every node of `from` to the end of `to`, in order; `from` ends empty. */
static inline void tkt_list_splice(struct tkt_list *to, struct tkt_list *from) {
  if (tkt_list_empty(from)) return;
  from->next->prev = to->prev;
  to->prev->next = from->next;
  from->prev->next = to;
  to->prev = from->prev;
  tkt_list_init(from);
}

/* Walks forward; the current node may be removed, no other. */
#define TKT_LIST_EACH(pos, nxt, head)                                                              \
  for (struct tkt_list *pos = (head)->next, *nxt = pos->next; pos != (head);                       \
       pos = nxt, nxt = pos->next)

#endif
