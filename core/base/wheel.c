#include "base/wheel.h"

#include <string.h>

static uint64_t slot_mask(void) {
  return TKT_WHEEL_SLOTS - 1;
}

static unsigned shift_of(unsigned level) {
  return level * TKT_WHEEL_BITS;
}

void tkt_wheel_init(struct tkt_wheel *wheel, int64_t now) {
  memset(wheel, 0, sizeof *wheel);
  wheel->tick = now > 0 ? (uint64_t)now >> TKT_WHEEL_TICK_BITS : 0;
  for (int l = 0; l < TKT_WHEEL_LEVELS; l++)
    for (int s = 0; s < TKT_WHEEL_SLOTS; s++)
      tkt_list_init(&wheel->slots[l][s]);
  tkt_list_init(&wheel->due);
}

void tkt_timer_init(struct tkt_timer *timer, unsigned kind) {
  memset(timer, 0, sizeof *timer);
  tkt_list_init(&timer->node);
  timer->kind = kind & 63;
}

/* The level whose slots still tell the due tick apart from the present one: that of the highest
 * differing bit. A timer moves down as the present approaches. One beyond the reach of the wheel
 * stands as far ahead as a slot is unambiguous, and is placed again when its turn comes there. */
static void place(struct tkt_wheel *wheel, struct tkt_timer *timer) {
  uint64_t tick = timer->tick;
  if (tick < wheel->tick) {
    tkt_list_append(&wheel->due, &timer->node);
    return;
  }
  uint64_t reach = wheel->tick + (UINT64_C(1) << (TKT_WHEEL_LEVELS * TKT_WHEEL_BITS)) / 2;
  if (tick > reach) tick = reach;
  uint64_t differ = tick ^ wheel->tick;
  unsigned level =
      differ ? (63u - (unsigned)__builtin_clzll(differ)) / (unsigned)TKT_WHEEL_BITS : 0;
  if (level >= TKT_WHEEL_LEVELS) level = TKT_WHEEL_LEVELS - 1;
  unsigned slot = (unsigned)(tick >> shift_of(level) & slot_mask());
  wheel->occupied[level] |= UINT64_C(1) << slot;
  tkt_list_append(&wheel->slots[level][slot], &timer->node);
}

void tkt_wheel_set(struct tkt_wheel *wheel, struct tkt_timer *timer, int64_t due) {
  tkt_wheel_cancel(wheel, timer);
  if (due == TKT_NEVER) return;
  uint64_t up = (UINT64_C(1) << TKT_WHEEL_TICK_BITS) - 1;
  timer->tick = due > 0 ? ((uint64_t)due + up) >> TKT_WHEEL_TICK_BITS : 0;
  wheel->armed++;
  place(wheel, timer);
}

void tkt_wheel_cancel(struct tkt_wheel *wheel, struct tkt_timer *timer) {
  if (!tkt_timer_armed(timer)) return;
  tkt_list_remove(&timer->node);
  wheel->armed--;
}

/* Start tick of the earliest slot that may hold timers; UINT64_MAX for none. Slots of the top level
 * that lie behind the present belong to the next turn of the wheel. */
static uint64_t earliest(const struct tkt_wheel *wheel, unsigned *level_out, unsigned *slot_out) {
  uint64_t best = UINT64_MAX;
  for (unsigned level = 0; level < TKT_WHEEL_LEVELS; level++) {
    uint64_t bits = wheel->occupied[level];
    if (!bits) continue;
    uint64_t position = wheel->tick >> shift_of(level);
    unsigned here = (unsigned)(position & slot_mask());
    uint64_t ahead = bits >> here << here;
    uint64_t turn = position - here;
    if (!ahead) {
      ahead = bits;
      turn += TKT_WHEEL_SLOTS;
    }
    unsigned slot = (unsigned)__builtin_ctzll(ahead);
    uint64_t start = (turn + slot) << shift_of(level);
    if (start < wheel->tick) start = wheel->tick;
    if (start < best || (start == best && level > *level_out)) {
      best = start;
      *level_out = level;
      *slot_out = slot;
    }
  }
  return best;
}

int64_t tkt_wheel_next(const struct tkt_wheel *wheel) {
  if (wheel->armed == 0) return TKT_NEVER;
  if (!tkt_list_empty(&wheel->due)) return 0;
  unsigned level = 0, slot = 0;
  uint64_t tick = earliest(wheel, &level, &slot);
  return tick > INT64_MAX >> TKT_WHEEL_TICK_BITS ? TKT_NEVER
                                                 : (int64_t)(tick << TKT_WHEEL_TICK_BITS);
}

struct tkt_timer *tkt_wheel_pop(struct tkt_wheel *wheel, int64_t now) {
  uint64_t present = now > 0 ? (uint64_t)now >> TKT_WHEEL_TICK_BITS : 0;
  while (tkt_list_empty(&wheel->due)) {
    if (wheel->armed == 0) {
      if (wheel->tick <= present) wheel->tick = present + 1;
      return NULL;
    }
    unsigned level = 0, slot = 0;
    uint64_t tick = earliest(wheel, &level, &slot);
    if (tick == UINT64_MAX || tick > present) {
      if (wheel->tick <= present) wheel->tick = present + 1;
      return NULL;
    }
    wheel->tick = tick;
    struct tkt_list moving;
    tkt_list_init(&moving);
    tkt_list_splice(&moving, &wheel->slots[level][slot]);
    wheel->occupied[level] &= ~(UINT64_C(1) << slot);
    if (level == 0) {
      tkt_list_splice(&wheel->due, &moving);
      wheel->tick = tick + 1;
    } else {
      for (struct tkt_list *node; (node = tkt_list_shift(&moving));)
        place(wheel, TKT_CONTAINER(node, struct tkt_timer, node));
    }
  }
  struct tkt_timer *timer = TKT_CONTAINER(tkt_list_shift(&wheel->due), struct tkt_timer, node);
  wheel->armed--;
  return timer;
}
