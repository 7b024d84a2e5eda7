#include "unit/client/fixture.h"

static char why[TKT_REFUSAL_SIZE];
static struct tkt_acquire_plan plan;

static enum tkt_outcome check(int64_t wait, int64_t lease, int64_t budget) {
  struct tkt_span key = tkt_span_str("k");
  struct tkt_acquire_args args = {&key, 1, wait, lease, budget};
  why[0] = 0;
  return tkt_acquire_check(&args, &plan, why);
}

static enum tkt_outcome check_key(const void *data, size_t len) {
  struct tkt_span key = tkt_span(data, len);
  struct tkt_acquire_args args = {&key, 1, 0, TKT_S, 0};
  why[0] = 0;
  return tkt_acquire_check(&args, &plan, why);
}

static void has(const char *part) {
  if (!strstr(why, part)) fail_msg("\"%s\" does not say \"%s\"", why, part);
}

static void a1_wait_is_0_to_255_s(void **state) {
  (void)state;
  assert_int_equal(check(0, TKT_S, 0), TKT_OK);
  assert_int_equal(plan.wait_s, 0);
  assert_int_equal(check(255 * TKT_S, TKT_S, 0), TKT_OK);
  assert_int_equal(plan.wait_s, 255);
  assert_int_equal(check(256 * TKT_S, TKT_S, 0), TKT_UNSUPPORTED);
  has("wait 256 s");
  has("255");
  assert_int_equal(check(255 * TKT_S + 1, TKT_S, 0), TKT_UNSUPPORTED);
  has("wait 255.000000001 s");
  assert_int_equal(check(-1, TKT_S, 0), TKT_INVALID_ARGUMENT);
  has("wait -0.000000001 s");
}

static void a2_lease_is_1_to_250_s(void **state) {
  (void)state;
  assert_int_equal(check(0, 1, 0), TKT_OK);
  assert_int_equal(plan.lease_s, 1);
  assert_int_equal(check(0, 250 * TKT_S, 0), TKT_OK);
  assert_int_equal(plan.lease_s, 250);
  assert_int_equal(check(0, 251 * TKT_S, 0), TKT_UNSUPPORTED);
  has("lease 251 s");
  assert_int_equal(check(0, 250 * TKT_S + 1, 0), TKT_UNSUPPORTED);
  assert_int_equal(check(0, 0, 0), TKT_INVALID_ARGUMENT);
  has("lease 0 s");
  has("1 to 250");
  assert_int_equal(check(0, -TKT_S, 0), TKT_INVALID_ARGUMENT);
}

static void a3_budget_is_at_most_the_rounded_lease(void **state) {
  (void)state;
  assert_int_equal(check(0, 1500 * TKT_MS, 2 * TKT_S), TKT_OK);
  assert_int_equal(plan.budget_ns, 2 * TKT_S);
  assert_int_equal(check(0, 1500 * TKT_MS, 2 * TKT_S + 1), TKT_INVALID_ARGUMENT);
  has("budget 2.000000001 s");
  has("lease of 1.5 s");
  assert_int_equal(check(0, TKT_S, -1), TKT_INVALID_ARGUMENT);
  assert_int_equal(check(0, TKT_S, 251 * TKT_S), TKT_UNSUPPORTED);
  assert_int_equal(check(0, TKT_S, 0), TKT_OK);
}

static void a4_fractions_round_up_and_the_budget_keeps_its_own(void **state) {
  (void)state;
  assert_int_equal(check(TKT_MS, TKT_MS, TKT_MS / 2), TKT_OK);
  assert_int_equal(plan.wait_s, 1);
  assert_int_equal(plan.lease_s, 1);
  assert_int_equal(plan.budget_ns, TKT_MS / 2);
  assert_int_equal(check(3 * TKT_S + 1, 4 * TKT_S, 0), TKT_OK);
  assert_int_equal(plan.wait_s, 4);
  assert_int_equal(plan.lease_s, 4);
  assert_int_equal(check(INT64_MAX, TKT_S, 0), TKT_UNSUPPORTED);
  assert_int_equal(check(INT64_MIN, TKT_S, 0), TKT_INVALID_ARGUMENT);
  assert_int_equal(check(0, INT64_MAX, 0), TKT_UNSUPPORTED);
  assert_int_equal(check(0, TKT_S, INT64_MAX), TKT_UNSUPPORTED);
}

static void a5_key_is_checked(void **state) {
  (void)state;
  char long_key[129];
  memset(long_key, 'x', sizeof long_key);
  assert_int_equal(check_key(long_key, 128), TKT_OK);
  assert_int_equal(check_key(long_key, 129), TKT_INVALID_ARGUMENT);
  has("129 bytes");
  has("1 to 128");
  assert_int_equal(check_key("", 0), TKT_INVALID_ARGUMENT);
  assert_int_equal(check_key("a b", 3), TKT_INVALID_ARGUMENT);
  has("a\\x20b");
  assert_int_equal(check_key("a\nb", 3), TKT_INVALID_ARGUMENT);
  assert_int_equal(check_key("\xff", 1), TKT_INVALID_ARGUMENT);
  has("UTF-8");
  assert_int_equal(check_key("gr\xc3\xbc\xc3\x9f", 6), TKT_OK);
}

static void a5_sets_are_sorted_without_repeats(void **state) {
  (void)state;
  struct tkt_span keys[17];
  for (int i = 0; i < 17; i++)
    keys[i] = tkt_span_str(i % 2 ? "a" : "b");
  struct tkt_acquire_args args = {keys, 16, 0, TKT_S, 0};
  assert_int_equal(tkt_acquire_check(&args, &plan, why), TKT_OK);
  assert_int_equal(plan.key_count, 2);
  assert_memory_equal(plan.keys[0].data, "a", 1);
  assert_memory_equal(plan.keys[1].data, "b", 1);
  args.key_count = 17;
  assert_int_equal(tkt_acquire_check(&args, &plan, why), TKT_INVALID_ARGUMENT);
  has("17 given");
  args.key_count = 0;
  assert_int_equal(tkt_acquire_check(&args, &plan, why), TKT_INVALID_ARGUMENT);
}

static void a6_addresses_are_checked(void **state) {
  (void)state;
  const char *good[] = {"localhost:1", "127.0.0.1:65535", "[::1]:5225", "a:1", "b:1", "c:1", "d:1"};
  assert_int_equal(tkt_addresses_check(good, 6, why), TKT_OK);
  assert_int_equal(tkt_addresses_check(good, 7, why), TKT_INVALID_ARGUMENT);
  has("7 given");
  assert_int_equal(tkt_addresses_check(good, 0, why), TKT_INVALID_ARGUMENT);
  const char *bad[] = {"localhost", "localhost:", "localhost:0", "localhost:65536",
                       "::1:5",     "",           ":1"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(tkt_addresses_check(&bad[i], 1, why), TKT_INVALID_ARGUMENT);
  const char *twice[] = {"a:1", "b:1", "a:1"};
  assert_int_equal(tkt_addresses_check(twice, 3, why), TKT_INVALID_ARGUMENT);
  has("\"a:1\" is given twice");
}

static void a8_refusals_fit_and_show_nothing_raw(void **state) {
  (void)state;
  uint8_t raw[128];
  memset(raw, 0x1b, sizeof raw);
  raw[100] = '\n';
  assert_int_equal(check_key(raw, sizeof raw), TKT_INVALID_ARGUMENT);
  assert_true(strlen(why) < TKT_REFUSAL_SIZE);
  for (const char *p = why; *p; p++)
    assert_true(*p >= 0x20 && *p < 0x7f);
}

static void release_names_keys_and_a_token(void **state) {
  (void)state;
  struct tkt_span keys[2] = {tkt_span_str("b"), tkt_span_str("a")}, out[TKT_KEY_SET_MAX];
  size_t count = 0;
  assert_int_equal(tkt_release_check(keys, 2, 7, out, &count, why), TKT_OK);
  assert_int_equal(count, 2);
  assert_memory_equal(out[0].data, "a", 1);
  assert_int_equal(tkt_release_check(keys, 2, 0, out, &count, why), TKT_INVALID_ARGUMENT);
  has("token 0");
  keys[1] = tkt_span_str("a b");
  assert_int_equal(tkt_release_check(keys, 2, 7, out, &count, why), TKT_INVALID_ARGUMENT);
}

static void wire_2_carries_one_key(void **state) {
  (void)state;
  struct fixture f;
  fix_start(&f);
  struct tkt_span keys[2] = {tkt_span_str("a"), tkt_span_str("b")};
  struct tkt_acquire_args args = {keys, 2, 0, TKT_S, 0};
  assert_int_equal(tkt_acquire_check(&args, &plan, why), TKT_OK);
  struct tkt_call call = {0};
  tkt_client_acquire(f.client, &call, &plan, f.now);
  assert_int_equal(call.outcome, TKT_UNSUPPORTED);
  turn(&f);
  assert_int_equal(requests_left(&f), 0);
  fix_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a1_wait_is_0_to_255_s),
      TEST(a2_lease_is_1_to_250_s),
      TEST(a3_budget_is_at_most_the_rounded_lease),
      TEST(a4_fractions_round_up_and_the_budget_keeps_its_own),
      TEST(a5_key_is_checked),
      TEST(a5_sets_are_sorted_without_repeats),
      TEST(a6_addresses_are_checked),
      TEST(a8_refusals_fit_and_show_nothing_raw),
      TEST(release_names_keys_and_a_token),
      TEST(wire_2_carries_one_key),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
