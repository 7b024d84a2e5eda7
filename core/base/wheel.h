/* Hierarchical timer wheel: arming and cancelling are O(1) for any number of timers.
 *
 * Ticks are 2^20 ns (about 1 ms). A timer never fires early: its due time is rounded up to a tick.
 * The kind lets one engine tell its timers apart without a callback. */
#ifndef TKT_BASE_WHEEL_H
#define TKT_BASE_WHEEL_H

#include "base/list.h"
#include "base/time.h"

enum { TKT_WHEEL_TICK_BITS = 20, TKT_WHEEL_BITS = 6, TKT_WHEEL_LEVELS = 6 };
enum { TKT_WHEEL_SLOTS = 1 << TKT_WHEEL_BITS };

struct tkt_timer {
  struct tkt_list node;
  uint64_t kind : 6;  /* the owner's own numbering */
  uint64_t tick : 58; /* due */
};

struct tkt_wheel {
  uint64_t tick; /* every slot before this one is empty */
  size_t armed;
  uint64_t occupied[TKT_WHEEL_LEVELS]; /* a bit a slot that may hold timers */
  struct tkt_list slots[TKT_WHEEL_LEVELS][TKT_WHEEL_SLOTS];
  struct tkt_list due;
};

void tkt_wheel_init(struct tkt_wheel *wheel, int64_t now);

/* An unarmed timer of this kind (0..63). */
void tkt_timer_init(struct tkt_timer *timer, unsigned kind);

static inline bool tkt_timer_armed(const struct tkt_timer *timer) {
  return tkt_list_linked(&timer->node);
}

/* Arms or re-arms for the instant `due` (ns); one in the past fires at the next pop. TKT_NEVER
 * cancels. */
void tkt_wheel_set(struct tkt_wheel *wheel, struct tkt_timer *timer, int64_t due);

/* Harmless where the timer is not armed. */
void tkt_wheel_cancel(struct tkt_wheel *wheel, struct tkt_timer *timer);

/* An instant (ns) at which it is worth calling pop again: never later than the earliest due timer,
 * possibly earlier (a slot of a coarse level has to be sorted out first). TKT_NEVER: nothing armed.
 */
int64_t tkt_wheel_next(const struct tkt_wheel *wheel);

/* Disarms and returns one timer that is due at `now`, NULL when none is left. */
struct tkt_timer *tkt_wheel_pop(struct tkt_wheel *wheel, int64_t now);

#endif
