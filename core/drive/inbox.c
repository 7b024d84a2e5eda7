#include "drive/inbox.h"

enum tkt_pushed tkt_inbox_push(struct tkt_inbox *inbox, struct tkt_inbox_node *node,
                               unsigned commands) {
  if (atomic_fetch_or(&node->commands, commands) != 0) return TKT_PUSH_JOINED;
  struct tkt_inbox_node *top = atomic_load_explicit(&inbox->top, memory_order_relaxed);
  do
    node->next = top;
  while (!atomic_compare_exchange_weak(&inbox->top, &top, node));
  return top ? TKT_PUSH_ADDED : TKT_PUSH_FIRST;
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
