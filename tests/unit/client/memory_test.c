/* Whole flows with every allocation failing in turn. The allocator is replaced for this program;
 * sanitizers bring their own, so there it is left alone and the flows run without failures. */
#include "unit/client/fixture.h"

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

/* A client from start to end, by hand, so that only the engine allocates: one session is answered
 * with what each request asks for. */
static void drive(struct fixture *f) {
  static uint8_t bytes[TKT_CHUNK * 4];
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
      tkt_session_input(s, tkt_span_str(f->greeting), f->now);
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
      bool proof = rest.len == TKT_WIRE2_PROOF_LEN + 1;
      assert_int_equal(
          tkt_wire2.decode(proof ? TKT_PHASE_PROOF : TKT_PHASE_REQUESTS, rest, &msg, &used),
          TKT_DECODE_OK);
      at += used;
      answer = msg;
      answer.token = msg.kind == TKT_MSG_RELEASE ? msg.token : msg.id;
      answer.kind = proof                         ? TKT_MSG_KEEPALIVE
                    : msg.kind == TKT_MSG_RELEASE ? TKT_MSG_RELEASED
                                                  : TKT_MSG_GRANTED;
      tkt_wire2.encode(&answer, bytes + n);
      n += tkt_wire2.encoded_size(&answer);
    }
    tkt_session_handed(s, out.len);
    tkt_session_written(s, out.len, f->now);
    for (size_t i = 0; i < n; i++)
      tkt_session_input(s, tkt_span(bytes + i, 1), f->now);
  }
}

/* True where no allocation failed. */
static bool flow(struct fixture *f, long fail_at) {
  enum { CALLS = 20 };
  struct tkt_call calls[CALLS], releases[CALLS], close = {0};
  struct tkt_ticket *tickets[CALLS] = {0};
  memset(calls, 0, sizeof calls);
  memset(releases, 0, sizeof releases);
  fix_init(f);
  f->config.token = tkt_span_str("secret");
  left = fail_at;
  made = 0;
  f->client = tkt_client_new(&f->config, f->now);
  if (f->client) {
    struct tkt_span key = tkt_span_str("a-key");
    struct tkt_acquire_plan plan = {.keys = {key}, .key_count = 1, .wait_s = 2, .lease_s = 60};
    for (int i = 0; i < CALLS; i++)
      tkt_client_acquire(f->client, &calls[i], &plan, f->now);
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
    tkt_client_release_exact(f->client, &exact, &key, 1, 4711, f->now);
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

static void any_allocation_may_fail(void **state) {
  (void)state;
  struct fixture *f = calloc(1, sizeof *f);
  assert_true(flow(f, -1));
  long n = 0;
  while (REPLACED && !flow(f, n))
    n++;
  if (REPLACED) assert_in_range(n, 10, 10000); /* it did fail somewhere */
  free(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {TEST(any_allocation_may_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
