/* Whole flows with every allocation failing in turn. The allocator is replaced for this program;
 * sanitizers bring their own, so there it is left alone and the flows run without failures. */
#include "unit/client/fixture.h"

#include <limits.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REPLACED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define REPLACED 0
#else
#define REPLACED 1
#endif
#else
#define REPLACED 1
#endif

static long left = -1; /* allocations before the one that fails; -1: none fails */
static long made;

#if REPLACED
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);

static bool fails(void) {
  if (left < 0) return false;
  made++;
  return left-- == 0;
}

void *malloc(size_t size) {
  return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  return fails() ? NULL : __libc_calloc(count, size);
}
#endif

static const struct tkt_wire *wire_of(const struct fixture *f) {
  return f->speaks[0] == 3 ? &tkt_wire3 : &tkt_wire2;
}

static void greet(struct fixture *f, struct tkt_session *s) {
  static uint8_t hello[TKT_CHUNK];
  struct tkt_msg msg = hello_msg(f, 0);
  if (f->speaks[0] != 3) {
    tkt_session_input(s, tkt_span_str(f->greeting), f->now);
    return;
  }
  tkt_wire3.encode(&msg, hello);
  tkt_session_input(s, tkt_span(hello, tkt_wire3.encoded_size(&msg)), f->now);
}

/* A client from start to end, by hand, so that only the engine allocates: one session is answered
 * with what each request asks for. */
static void drive(struct fixture *f) {
  static uint8_t bytes[TKT_CHUNK * 4];
  static uint64_t token;
  struct tkt_session *s;
  tkt_client_tick(f->client, f->now);
  while ((s = tkt_client_next_dirty(f->client))) {
    unsigned wants = tkt_session_wants(s);
    if (wants & TKT_WANT_CLOSE) {
      tkt_session_closed(s, f->now);
      continue;
    }
    if (wants & TKT_WANT_CONNECT) {
      tkt_session_connected(s, f->now);
      greet(f, s);
      continue;
    }
    if (wants & TKT_WANT_SHUT) tkt_session_eof(s, f->now);
    if (!(wants & TKT_WANT_WRITE)) continue;
    struct tkt_span out = tkt_session_output(s, f->now);
    size_t n = 0;
    for (size_t at = 0; at < out.len;) {
      struct tkt_span rest = tkt_span(out.data + at, out.len - at);
      struct tkt_msg msg, answer;
      size_t used = 0;
      const struct tkt_wire *wire = wire_of(f);
      bool proof = !tkt_session_stream(s); /* the first it sends */
      assert_int_equal(
          wire->decode(proof ? TKT_PHASE_PROOF : TKT_PHASE_REQUESTS, rest, &msg, &used),
          TKT_DECODE_OK);
      at += used;
      answer = msg;
      tkt_session_set_stream(s, f);
      answer.token = msg.kind == TKT_MSG_RELEASE ? msg.token : ++token;
      answer.accepted = true;
      answer.kind = proof ? wire == &tkt_wire3 ? TKT_MSG_VERDICT : TKT_MSG_KEEPALIVE
                    : msg.kind == TKT_MSG_RELEASE ? TKT_MSG_RELEASED
                                                  : TKT_MSG_GRANTED;
      wire->encode(&answer, bytes + n);
      n += wire->encoded_size(&answer);
    }
    tkt_session_handed(s, out.len);
    tkt_session_written(s, out.len, f->now);
    for (size_t i = 0; i < n; i++)
      tkt_session_input(s, tkt_span(bytes + i, 1), f->now);
  }
}

/* True where no allocation failed. */
static bool flow(struct fixture *f, unsigned wire, long fail_at) {
  enum { CALLS = 20 };
  struct tkt_call calls[CALLS], releases[CALLS], close = {0};
  struct tkt_ticket *tickets[CALLS] = {0};
  memset(calls, 0, sizeof calls);
  memset(releases, 0, sizeof releases);
  fix_init(f);
  f->config.token = tkt_span_str("secret");
  f->speaks[0] = wire;
  left = fail_at;
  made = 0;
  f->client = tkt_client_new(&f->config, f->now);
  if (f->client) {
    struct tkt_span keys[] = {tkt_span_str("a-key"), tkt_span_str("b-key"), tkt_span_str("c")};
    struct tkt_acquire_plan plan = {
        .keys = {keys[0], keys[1], keys[2]}, .key_count = 1, .wait_s = 2, .lease_s = 60};
    for (int i = 0; i < CALLS; i++) {
      plan.key_count = (uint8_t)(wire == 3 ? 1 + i % 3 : 1);
      tkt_client_acquire(f->client, &calls[i], &plan, f->now);
    }
    for (int i = 0; i < 30; i++) {
      drive(f);
      f->now += 100 * TKT_MS;
    }
    for (int i = 0; i < CALLS; i++) {
      assert_int_not_equal(calls[i].outcome, TKT_PENDING);
      if (tkt_client_take(f->client, &calls[i], f->now, &tickets[i]) != TKT_OK) continue;
      if (i % 2) tkt_client_release(f->client, &releases[i], tickets[i], f->now);
      tkt_client_drop(f->client, tickets[i], f->now);
    }
    struct tkt_call exact = {0};
    tkt_client_release_exact(f->client, &exact, keys, wire == 3 ? 3 : 1, 4711, f->now);
    for (int i = 0; i < 60; i++) {
      drive(f);
      f->now += 100 * TKT_MS;
    }
    for (int i = 0; i < CALLS; i++)
      if (releases[i].kind) assert_int_equal(releases[i].outcome, TKT_OK);
    assert_true(exact.outcome == TKT_OK || exact.outcome == TKT_NO_MEMORY);
    tkt_client_close(f->client, &close, f->now);
    for (int i = 0; i < 60; i++) {
      drive(f);
      f->now += 100 * TKT_MS;
    }
    assert_int_equal(close.outcome, TKT_OK);
    assert_int_equal(counter(f, "tickets"), 0);
  }
  bool none = left != -1 || fail_at < 0;
  left = -1;
  tkt_client_free(f->client);
  return none;
}

static void each_allocation_fails_once(unsigned wire) {
  struct fixture *f = calloc(1, sizeof *f);
  assert_true(flow(f, wire, -1));
  long n = 0;
  while (REPLACED && !flow(f, wire, n))
    n++;
  if (REPLACED) assert_in_range(n, 10, 10000); /* it did fail somewhere */
  free(f);
}

static void any_allocation_may_fail(void **state) {
  (void)state;
  each_allocation_fails_once(2);
}

static void any_allocation_may_fail_on_wire_3(void **state) {
  (void)state;
  each_allocation_fails_once(3);
}

/* A cycle of acquires and releases, sets among them, once everything is warm. */
static void cycle(struct fixture *f) {
  enum { CALLS = 8 };
  struct tkt_call calls[CALLS], releases[CALLS];
  struct tkt_span keys[] = {tkt_span_str("a"), tkt_span_str("b"), tkt_span_str("c")};
  struct tkt_acquire_plan plan = {
      .keys = {keys[0], keys[1], keys[2]}, .key_count = 1, .wait_s = 2, .lease_s = 60};
  memset(calls, 0, sizeof calls);
  memset(releases, 0, sizeof releases);
  for (int i = 0; i < CALLS; i++) {
    plan.key_count = (uint8_t)(1 + i % 3);
    tkt_client_acquire(f->client, &calls[i], &plan, f->now);
  }
  drive(f);
  for (int i = 0; i < CALLS; i++) {
    struct tkt_ticket *ticket;
    assert_int_equal(tkt_client_take(f->client, &calls[i], f->now, &ticket), TKT_OK);
    tkt_client_release(f->client, &releases[i], ticket, f->now);
    tkt_client_drop(f->client, ticket, f->now);
  }
  drive(f);
  while (tkt_client_next_done(f->client)) {
  }
  f->now += 10 * TKT_MS;
}

static void no_memory_is_asked_for_in_steady_state(void **state) {
  (void)state;
  struct fixture *f = calloc(1, sizeof *f);
  fix_init(f);
  f->speaks[0] = 3;
  fix_new(f);
  drive(f);
  for (int i = 0; i < 5; i++)
    cycle(f);
  left = LONG_MAX;
  made = 0;
  for (int i = 0; i < 100; i++)
    cycle(f);
  left = -1;
  assert_int_equal(made, 0);
  tkt_client_free(f->client);
  free(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(any_allocation_may_fail),
      TEST(any_allocation_may_fail_on_wire_3),
      TEST(no_memory_is_asked_for_in_steady_state),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
