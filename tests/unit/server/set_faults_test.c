/* Sets and single keys of both wires over a storage that delays, fails and cannot say, sessions
 * that take little, end and die: random programs of the fuzz target, which holds that no key ever
 * has two holders, no set is granted in part, and nothing is left in the end. */
#include "fuzz/server_program.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SEEDS = 3000, PROGRAM_MAX = 1200 };

static struct tkt_random source;

static uint8_t some(uint64_t below) {
  return (uint8_t)tkt_random_below(&source, below);
}

/* Mostly requests; the rest in about the proportions that keep sessions alive for a while. */
static size_t write_program(uint8_t *out) {
  size_t len = 0, operations = 20 + some(180);
  for (uint8_t s = 0; s < SESSIONS; s++) {
    out[len++] = (uint8_t)(s << 6 | (s & 1));
    out[len++] = (uint8_t)(s << 6 | 3);
  }
  for (size_t i = 0; i < operations; i++) {
    uint8_t s = (uint8_t)(some(SESSIONS) << 6), what = some(100);
    if (what < 58) {
      out[len++] = s | 4;
      for (int n = 0; n < 3; n++)
        out[len++] = some(256);
      out[len - 3] &= (uint8_t) ~(some(16) ? 4 : 0); /* an id of the past now and then */
    } else if (what < 60) {
      out[len++] = s | 7;
    } else if (what < 62) {
      out[len++] = s | 8;
    } else if (what < 70) {
      out[len++] = s | some(2);
      out[len++] = s | 3;
    } else if (what < 79) {
      out[len++] = 9;
      out[len++] = some(256);
    } else if (what < 81) {
      out[len++] = 10;
      out[len++] = some(20);
    } else if (what < 84) {
      out[len++] = (uint8_t)(s | 11 | (some(4) ? 0 : 16));
    } else if (what < 89) {
      out[len++] = s | 12;
      out[len++] = some(256);
    } else if (what < 92) {
      out[len++] = (uint8_t)(s | 13 | some(4) << 4);
    } else if (what < 98) {
      out[len++] = (uint8_t)(14 | some(3) << 4);
    } else {
      out[len++] = 15;
    }
  }
  return len;
}

static void no_two_holders_no_part_of_a_set_nothing_left(void **state) {
  (void)state;
  struct tkt_server_stats sum = {0};
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    uint8_t program[PROGRAM_MAX];
    tkt_random_init(&source, (uint64_t[4]){seed, 9, 9, 9});
    size_t len = write_program(program);
    assert_in_range(len, 1, PROGRAM_MAX);
    struct tkt_server_stats stats = run_program(program, len);
    sum.grants += stats.grants;
    sum.releases += stats.releases;
    sum.timeouts += stats.timeouts;
    sum.expiries += stats.expiries;
    sum.withdrawn += stats.withdrawn;
    sum.taken_back += stats.taken_back;
    sum.busy_storage += stats.busy_storage;
    sum.busy_keys += stats.busy_keys;
    sum.protocol_errors += stats.protocol_errors;
  }
  /* It went everywhere. */
  assert_true(sum.grants > 2 * SEEDS && sum.releases > SEEDS / 2 && sum.expiries > SEEDS);
  assert_true(sum.timeouts > SEEDS / 2 && sum.withdrawn > SEEDS / 2 && sum.taken_back > SEEDS / 10);
  assert_true(sum.busy_storage > SEEDS / 4 && sum.busy_keys > SEEDS / 4);
  assert_true(sum.protocol_errors > SEEDS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_two_holders_no_part_of_a_set_nothing_left)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
