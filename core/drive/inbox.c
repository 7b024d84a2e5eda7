#include "drive/inbox.h"

static enum tkt_pushed put_on_top(struct tkt_inbox *inbox, struct tkt_inbox_node *node) {
  struct tkt_inbox_node *top = atomic_load_explicit(&inbox->top, memory_order_relaxed);
  do
    node->next = top;
  while (!atomic_compare_exchange_weak(&inbox->top, &top, node));
  return top ? TKT_PUSH_ADDED : TKT_PUSH_FIRST;
}

enum tkt_pushed tkt_inbox_push(struct tkt_inbox *inbox, struct tkt_inbox_node *node,
                               unsigned commands) {
  if (atomic_fetch_or(&node->commands, commands) != 0) return TKT_PUSH_JOINED;
  return put_on_top(inbox, node);
}

enum tkt_pushed tkt_inbox_push_new(struct tkt_inbox *inbox, struct tkt_inbox_node *node,
                                   unsigned commands) {
  atomic_store_explicit(&node->commands, commands, memory_order_relaxed);
  return put_on_top(inbox, node);
}

struct tkt_inbox_node *tkt_inbox_take_all(struct tkt_inbox *inbox) {
  struct tkt_inbox_node *node = atomic_exchange(&inbox->top, NULL), *ordered = NULL;
  while (node) {
    struct tkt_inbox_node *next = node->next;
    node->next = ordered;
    ordered = node;
    node = next;
  }
  return ordered;
}
