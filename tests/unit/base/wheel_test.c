#include "base/random.h"
#include "base/wheel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define TICK (INT64_C(1) << TKT_WHEEL_TICK_BITS)

static void a_timer_fires_once_at_its_tick(void **state) {
  (void)state;
  struct tkt_wheel w;
  struct tkt_timer t;
  tkt_wheel_init(&w, 0);
  tkt_timer_init(&t, 7);
  assert_int_equal(tkt_wheel_next(&w), TKT_NEVER);
  assert_null(tkt_wheel_pop(&w, 5 * TICK));
  tkt_wheel_set(&w, &t, 10 * TICK);
  assert_true(tkt_timer_armed(&t));
  assert_null(tkt_wheel_pop(&w, 10 * TICK - 1));
  assert_ptr_equal(tkt_wheel_pop(&w, 10 * TICK), &t);
  assert_int_equal(t.kind, 7);
  assert_false(tkt_timer_armed(&t));
  assert_null(tkt_wheel_pop(&w, 10 * TICK));
  assert_int_equal(w.armed, 0);
  assert_int_equal(tkt_wheel_next(&w), TKT_NEVER);
}

static void a_due_time_between_ticks_rounds_up(void **state) {
  (void)state;
  struct tkt_wheel w;
  struct tkt_timer t;
  tkt_wheel_init(&w, 0);
  tkt_timer_init(&t, 0);
  tkt_wheel_set(&w, &t, 3 * TICK + 1);
  assert_null(tkt_wheel_pop(&w, 4 * TICK - 1));
  assert_ptr_equal(tkt_wheel_pop(&w, 4 * TICK), &t);
}

static void a_past_instant_fires_at_the_next_pop(void **state) {
  (void)state;
  struct tkt_wheel w;
  struct tkt_timer t;
  tkt_wheel_init(&w, 100 * TKT_S);
  tkt_timer_init(&t, 0);
  const int64_t past[] = {INT64_MIN, -1, 0, TKT_S, 100 * TKT_S};
  for (size_t i = 0; i < sizeof past / sizeof *past; i++) {
    assert_null(tkt_wheel_pop(&w, 101 * TKT_S));
    tkt_wheel_set(&w, &t, past[i]);
    assert_true(tkt_wheel_next(&w) <= 101 * TKT_S);
    assert_ptr_equal(tkt_wheel_pop(&w, 101 * TKT_S), &t);
  }
}

static void cancel_and_never_disarm(void **state) {
  (void)state;
  struct tkt_wheel w;
  struct tkt_timer t;
  tkt_wheel_init(&w, 0);
  tkt_timer_init(&t, 0);
  tkt_wheel_cancel(&w, &t);
  tkt_wheel_set(&w, &t, TKT_S);
  tkt_wheel_cancel(&w, &t);
  tkt_wheel_cancel(&w, &t);
  assert_int_equal(tkt_wheel_next(&w), TKT_NEVER);
  tkt_wheel_set(&w, &t, TKT_S);
  tkt_wheel_set(&w, &t, TKT_NEVER);
  assert_false(tkt_timer_armed(&t));
  assert_null(tkt_wheel_pop(&w, 1000 * TKT_S));
  tkt_wheel_set(&w, &t, 0); /* already due, then called off */
  tkt_wheel_cancel(&w, &t);
  assert_null(tkt_wheel_pop(&w, 1001 * TKT_S));
  assert_int_equal(w.armed, 0);
}

/* Up to the last instant there is: nothing fires early, nothing is lost. */
static void far_instants_are_kept_exactly(void **state) {
  (void)state;
  const int64_t day = 86400 * TKT_S;
  const int64_t dues[] = {day,        100 * day,     417 * day,        418 * day,
                          1000 * day, 20000 * day,   INT64_MAX - TICK, INT64_MAX - 2 * TICK,
                          833 * day,  INT64_MAX / 2, INT64_MAX / 4 * 3};
  for (size_t i = 0; i < sizeof dues / sizeof *dues; i++) {
    struct tkt_wheel w;
    struct tkt_timer t;
    tkt_wheel_init(&w, 12345 * TKT_S);
    tkt_timer_init(&t, 0);
    tkt_wheel_set(&w, &t, dues[i]);
    int wakes = 0;
    for (int64_t next; (next = tkt_wheel_next(&w)) < dues[i]; wakes++) {
      assert_null(tkt_wheel_pop(&w, next));
      assert_true(tkt_wheel_next(&w) > next);
    }
    assert_in_range(wakes, 0, 1000);
    assert_null(tkt_wheel_pop(&w, dues[i] - 1));
    assert_ptr_equal(tkt_wheel_pop(&w, dues[i] + TICK - 1), &t);
  }
}

static void an_instant_in_the_last_tick_of_the_clock_is_never(void **state) {
  (void)state;
  struct tkt_wheel w;
  struct tkt_timer t;
  tkt_wheel_init(&w, INT64_MAX - 10 * TICK);
  tkt_timer_init(&t, 0);
  tkt_wheel_set(&w, &t, INT64_MAX - 1);
  for (int64_t next; (next = tkt_wheel_next(&w)) != TKT_NEVER;) {
    assert_true(next > INT64_MAX - 10 * TICK);
    assert_null(tkt_wheel_pop(&w, next));
  }
  tkt_wheel_cancel(&w, &t);
}

/* Each boundary between levels, from each side, seen from different positions. */
static void level_boundaries(void **state) {
  (void)state;
  for (int level = 1; level <= TKT_WHEEL_LEVELS; level++) {
    const int64_t edge = INT64_C(1) << (level * TKT_WHEEL_BITS);
    for (int64_t start = edge - 2; start <= edge + 2; start++)
      for (int64_t ahead = 0; ahead < 4; ahead++)
        for (int64_t turn = 0; turn < 2; turn++) {
          struct tkt_wheel w;
          struct tkt_timer t;
          const int64_t due = start + ahead + turn * (edge - 2);
          tkt_wheel_init(&w, start * TICK);
          tkt_timer_init(&t, 0);
          tkt_wheel_set(&w, &t, due * TICK);
          assert_true(tkt_wheel_next(&w) <= due * TICK);
          if (ahead || turn) assert_null(tkt_wheel_pop(&w, due * TICK - 1));
          assert_true(tkt_wheel_next(&w) <= due * TICK);
          assert_ptr_equal(tkt_wheel_pop(&w, due * TICK), &t);
        }
  }
}

/* What pop gives before now's tick comes in the order of ticks. */
static void pops_come_in_order_of_their_ticks(void **state) {
  (void)state;
  enum { COUNT = 2000 };
  static struct tkt_timer timers[COUNT];
  struct tkt_wheel w;
  struct tkt_random random;
  tkt_random_init(&random, (const uint64_t[4]){3, 0, 0, 0});
  tkt_wheel_init(&w, 777 * TKT_S);
  for (int i = 0; i < COUNT; i++) {
    tkt_timer_init(&timers[i], 0);
    tkt_wheel_set(&w, &timers[i], 777 * TKT_S + (int64_t)tkt_random_below(&random, 100000 * TKT_S));
  }
  uint64_t before = 0;
  int popped = 0;
  for (struct tkt_timer *t; (t = tkt_wheel_pop(&w, 200000 * TKT_S)); popped++) {
    assert_true(t->tick >= before);
    before = t->tick;
  }
  assert_int_equal(popped, COUNT);
}

/* --- against a model: an array of due times ------------------------------------------------------
 */

enum { TIMERS = 200 };

struct model {
  struct tkt_wheel wheel;
  struct tkt_timer timers[TIMERS];
  int64_t due[TIMERS]; /* TKT_NEVER: not armed */
  int64_t now;
  uint64_t used; /* so many of the timers; few, and the wheel is empty now and then */
  struct tkt_random random;
};

static int64_t earliest_due(const struct model *m) {
  int64_t best = TKT_NEVER;
  for (int i = 0; i < TIMERS; i++)
    if (m->due[i] < best) best = m->due[i];
  return best;
}

/* Pops everything due: what fires was due, and nothing that was due a tick ago is left. */
static void pop_all(struct model *m) {
  for (struct tkt_timer *t; (t = tkt_wheel_pop(&m->wheel, m->now));) {
    int i = (int)(t - m->timers);
    if (m->due[i] == TKT_NEVER) fail_msg("timer %d fired unarmed", i);
    if (m->due[i] > m->now) fail_msg("timer %d fired early", i);
    m->due[i] = TKT_NEVER;
    if (tkt_random_below(&m->random, 8) == 0) { /* re-armed from its own handler */
      m->due[i] = m->now + (int64_t)tkt_random_below(&m->random, 3 * TKT_S) + TICK;
      tkt_wheel_set(&m->wheel, t, m->due[i]);
    }
  }
  size_t armed = 0;
  for (int i = 0; i < TIMERS; i++) {
    assert_int_equal(tkt_timer_armed(&m->timers[i]), m->due[i] != TKT_NEVER);
    armed += m->due[i] != TKT_NEVER;
    if (m->due[i] <= m->now - TICK) fail_msg("timer %d did not fire", i);
  }
  assert_int_equal(m->wheel.armed, armed);
  int64_t next = tkt_wheel_next(&m->wheel), earliest = earliest_due(m);
  if (armed == 0) {
    assert_int_equal(next, TKT_NEVER);
  } else {
    assert_true(next > m->now); /* no spinning */
    assert_true(next < earliest + TICK);
  }
}

static int64_t random_span(struct tkt_random *random) {
  static const int64_t scales[] = {
      TICK, 10 * TKT_MS, TKT_S, 100 * TKT_S, 3600 * TKT_S, 86400 * TKT_S, 86400 * 600 * TKT_S};
  int64_t scale = scales[tkt_random_below(random, sizeof scales / sizeof *scales)];
  return (int64_t)tkt_random_below(random, (uint64_t)scale);
}

static void random_operations_equal_the_model(void **state) {
  (void)state;
  static struct model m;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    memset(&m, 0, sizeof m);
    tkt_random_init(&m.random, (const uint64_t[4]){seed, 0, 0, 0});
    m.now = random_span(&m.random);
    m.used = seed % 2 ? TIMERS : seed % 4 + 1;
    tkt_wheel_init(&m.wheel, m.now);
    for (int i = 0; i < TIMERS; i++) {
      tkt_timer_init(&m.timers[i], (unsigned)i);
      m.due[i] = TKT_NEVER;
    }
    for (int step = 0; step < 3000; step++) {
      for (uint64_t n = tkt_random_below(&m.random, 8); n > 0; n--) {
        int i = (int)tkt_random_below(&m.random, m.used);
        switch (tkt_random_below(&m.random, 4)) {
        case 0:
          tkt_wheel_cancel(&m.wheel, &m.timers[i]);
          m.due[i] = TKT_NEVER;
          break;
        case 1: /* now or in the past */
          m.due[i] = m.now - random_span(&m.random);
          tkt_wheel_set(&m.wheel, &m.timers[i], m.due[i]);
          break;
        default:
          m.due[i] = m.now + random_span(&m.random);
          tkt_wheel_set(&m.wheel, &m.timers[i], m.due[i]);
        }
      }
      switch (tkt_random_below(&m.random, 8)) {
      case 0: /* a jump, as after suspend */
        m.now += random_span(&m.random);
        break;
      case 1: /* exactly when the wheel asks to be woken */
        if (tkt_wheel_next(&m.wheel) != TKT_NEVER && tkt_wheel_next(&m.wheel) > m.now)
          m.now = tkt_wheel_next(&m.wheel);
        break;
      case 2: /* a nanosecond before it */
        if (tkt_wheel_next(&m.wheel) != TKT_NEVER && tkt_wheel_next(&m.wheel) > m.now)
          m.now = tkt_wheel_next(&m.wheel) - 1;
        break;
      case 3:
        break;
      default:
        m.now += (int64_t)tkt_random_below(&m.random, 5 * TICK);
      }
      pop_all(&m);
    }
    /* What is left comes too, waking only when asked to. */
    for (int wakes = 0; m.wheel.armed; wakes++) {
      m.now = tkt_wheel_next(&m.wheel);
      pop_all(&m);
      assert_in_range(wakes, 0, 100000);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_timer_fires_once_at_its_tick),
      cmocka_unit_test(a_due_time_between_ticks_rounds_up),
      cmocka_unit_test(a_past_instant_fires_at_the_next_pop),
      cmocka_unit_test(cancel_and_never_disarm),
      cmocka_unit_test(far_instants_are_kept_exactly),
      cmocka_unit_test(an_instant_in_the_last_tick_of_the_clock_is_never),
      cmocka_unit_test(level_boundaries),
      cmocka_unit_test(pops_come_in_order_of_their_ticks),
      cmocka_unit_test(random_operations_equal_the_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
