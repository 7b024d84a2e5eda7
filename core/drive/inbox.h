/* Where any thread leaves commands for whoever runs the engine next: an intrusive stack that many
 * push and one takes whole.
 *
 * A node stands in the inbox at most once; commands that come while it is there join it. So a
 * start, a cancel and a free of one operation need no memory beyond the operation itself. */
#ifndef TKT_DRIVE_INBOX_H
#define TKT_DRIVE_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct tkt_inbox_node {
  struct tkt_inbox_node *next;
  _Atomic unsigned commands; /* not zero: in the inbox */
};

struct tkt_inbox {
  _Atomic(struct tkt_inbox_node *) top;
};

enum tkt_pushed {
  TKT_PUSH_JOINED, /* the node was there already */
  TKT_PUSH_ADDED,  /* behind others; somebody has the duty to take them */
  TKT_PUSH_FIRST,  /* the inbox was empty: the duty is the pusher's */
};

/* Any thread. `commands` is not zero. What the node is part of must stay until it was taken. */
enum tkt_pushed tkt_inbox_push(struct tkt_inbox *inbox, struct tkt_inbox_node *node,
                               unsigned commands);

/* The same for a node nobody else knows yet. */
enum tkt_pushed tkt_inbox_push_new(struct tkt_inbox *inbox, struct tkt_inbox_node *node,
                                   unsigned commands);

static inline bool tkt_inbox_empty(struct tkt_inbox *inbox) {
  return atomic_load(&inbox->top) == NULL;
}

/* Everything, in the order it was pushed, linked by `next`. Read a node's `next` before
 * tkt_inbox_commands: after that it may be pushed anew. */
struct tkt_inbox_node *tkt_inbox_take_all(struct tkt_inbox *inbox);

static inline unsigned tkt_inbox_commands(struct tkt_inbox_node *node) {
  return atomic_exchange(&node->commands, 0);
}

#endif
