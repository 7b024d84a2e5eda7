/* The client engine with each allocation refused in turn: calls end with the right code, and the
 * same client works once memory is back. The script below allocates nothing itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/client.h"
#include "unit/allocation/allocator.h"
#include "wire/parser.h"
#include "wire/proof.h"
#include "wire/wire2.h"

enum { CALLS = 60, LINKS = 64, ROUNDS = 80, SERVED_MAX = 4000 };

/* What a link remembers; its stream in the engine. */
struct link {
  bool used, proven, shut;
};

struct script {
  struct tkt_client *client;
  int64_t now;
  uint64_t token;
  struct link links[LINKS];
  struct tkt_call calls[CALLS], releases[CALLS], ready, exact, close, last;
  struct tkt_ticket *tickets[CALLS];
  uint8_t answers[TKT_CHUNK * 4];
};

/* The answer of a server: most acquires are granted, some refused, one in ten is kept waiting. */
static bool answer_to(struct script *s, const struct tkt_msg *msg, struct tkt_msg *answer) {
  *answer = *msg;
  switch (msg->kind) {
  case TKT_MSG_PROOF:
    answer->kind = TKT_MSG_LEADER; /* with a text too long for the parser's inline part */
    answer->text = tkt_span_str("a-host-of-a-long-name-a-host-of-a-long-name-a-host-of-a-long-name-"
                                "a-host-of-a-long-name-a-host-of-a-long-name-a-host-of-a-long-name-"
                                "a-host-of-a-long-name-a-host-of-a-lon:5225");
    return true;
  case TKT_MSG_RELEASE:
    answer->kind = msg->token % 7 ? TKT_MSG_RELEASED : TKT_MSG_NOT_CURRENT;
    return true;
  default:
    answer->token = s->token++;
    answer->kind = answer->token % 5 == 4   ? TKT_MSG_BUSY
                   : answer->token % 5 == 3 ? TKT_MSG_TIMED_OUT
                                            : TKT_MSG_GRANTED;
    return answer->token % 10 != 9 || msg->wait_s > 10;
  }
}

static void dial(struct script *s, struct tkt_session *session) {
  struct link *link = s->links;
  while (link->used)
    link++;
  assert_true(link < s->links + LINKS);
  *link = (struct link){.used = true};
  tkt_session_set_stream(session, link);
  tkt_session_connected(session, s->now);
  tkt_session_input(session, tkt_span_str("cluster a-nonce\n"), s->now);
}

static void write_and_answer(struct script *s, struct tkt_session *session) {
  struct link *link = tkt_session_stream(session);
  struct tkt_span out = tkt_session_output(session, s->now);
  size_t n = 0;
  for (size_t at = 0; at < out.len;) {
    struct tkt_msg msg, answer;
    size_t used = 0;
    enum tkt_phase phase = link->proven ? TKT_PHASE_REQUESTS : TKT_PHASE_PROOF;
    assert_int_equal(tkt_wire2.decode(phase, tkt_span(out.data + at, out.len - at), &msg, &used),
                     TKT_DECODE_OK);
    at += used;
    link->proven = true;
    if (!answer_to(s, &msg, &answer)) continue;
    size_t size = tkt_wire2.encoded_size(&answer);
    assert_true(n + size <= sizeof s->answers);
    tkt_wire2.encode(&answer, s->answers + n);
    n += size;
  }
  tkt_session_handed(session, out.len);
  tkt_session_written(session, out.len, s->now);
  for (size_t i = 0; i < n; i++) /* in the smallest pieces: the parser has to keep them */
    tkt_session_input(session, tkt_span(s->answers + i, 1), s->now);
}

static void serve(struct script *s, struct tkt_session *session) {
  unsigned wants = tkt_session_wants(session);
  if (wants & TKT_WANT_CLOSE) {
    struct link *link = tkt_session_stream(session);
    if (link) link->used = false;
    tkt_session_closed(session, s->now);
    return;
  }
  if (wants & TKT_WANT_CONNECT) dial(s, session);
  if (tkt_session_wants(session) & TKT_WANT_WRITE) write_and_answer(s, session);
  if (wants & TKT_WANT_SHUT) tkt_session_eof(session, s->now);
}

/* `rounds` steps of 100 ms. */
static void drive(struct script *s, int rounds) {
  for (int i = 0; i < rounds; i++, s->now += 100 * TKT_MS) {
    struct tkt_session *session;
    int served = 0;
    tkt_client_tick(s->client, s->now);
    while ((session = tkt_client_next_dirty(s->client))) {
      assert_true(++served < SERVED_MAX); /* it does not spin for want of memory */
      serve(s, session);
    }
    while (tkt_client_next_done(s->client)) {
    }
  }
}

static void acquire(struct script *s, struct tkt_call *call, int number, uint8_t wait_s) {
  char key[TKT_KEY_MAX + 1];
  snprintf(key, sizeof key, "%s-%d", number % 3 ? "key" : "a-key-of-some-length-0123456789",
           number);
  struct tkt_acquire_plan plan = {
      .keys = {tkt_span_str(key)}, .key_count = 1, .wait_s = wait_s, .lease_s = 200};
  tkt_client_acquire(s->client, call, &plan, s->now);
}

static void require_acquire_ended(const struct tkt_call *call) {
  switch (call->outcome) {
  case TKT_OK:
  case TKT_TIMEOUT:
  case TKT_BUSY:
  case TKT_NO_MEMORY:
  case TKT_CANCELLED:
  case TKT_INDETERMINATE: /* its session was lost for want of memory, or nobody answered */
    return;
  default:
    fail_msg("outcome %d", call->outcome);
  }
}

static void use_tickets(struct script *s) {
  for (int i = 0; i < CALLS; i++) {
    require_acquire_ended(&s->calls[i]);
    if (i % 11 == 10) { /* granted or not: not wanted any more */
      tkt_client_forget(s->client, &s->calls[i], s->now);
      continue;
    }
    if (tkt_client_take(s->client, &s->calls[i], s->now, &s->tickets[i]) != TKT_OK) continue;
    if (i % 2) tkt_client_release(s->client, &s->releases[i], s->tickets[i], s->now);
    tkt_client_drop(s->client, s->tickets[i], s->now);
  }
  struct tkt_span key = tkt_span_str("somebody-else");
  tkt_client_release_exact(s->client, &s->exact, &key, 1, 4711, s->now);
}

static void require_releases_ended(const struct script *s) {
  for (int i = 0; i < CALLS; i++) {
    const struct tkt_call *call = &s->releases[i];
    if (call->kind) assert_true(call->outcome == TKT_OK || call->outcome == TKT_NOT_CURRENT);
  }
  assert_true(s->exact.outcome == TKT_OK || s->exact.outcome == TKT_NOT_CURRENT ||
              s->exact.outcome == TKT_NO_MEMORY);
}

/* A granted acquire ends where memory is back, however much was refused before. */
static void require_works_again(struct script *s) {
  for (int i = 0; i < 2 * ALLOCATOR_A_FEW; i++) {
    struct tkt_ticket *ticket = NULL;
    memset(&s->last, 0, sizeof s->last);
    acquire(s, &s->last, 1000, 200);
    drive(s, 10);
    if (tkt_client_take(s->client, &s->last, s->now, &ticket) != TKT_OK) continue;
    tkt_client_drop(s->client, ticket, s->now);
    return;
  }
  fail_msg("no acquire is granted any more: %d", s->last.outcome);
}

static void whole_flow(void *context) {
  static const char *const addresses[] = {"127.0.0.1:1", "127.0.0.1:2"};
  struct script *s = context;
  memset(s, 0, sizeof *s);
  s->now = 1000 * TKT_S;
  s->token = 1;
  struct tkt_client_config config = {.addresses = addresses,
                                     .address_count = 2,
                                     .token = tkt_span_str("secret"),
                                     .max_in_flight = CALLS / 2,
                                     .max_unsent = CALLS,
                                     .seed = {1}};
  s->client = tkt_client_new(&config, s->now);
  if (!s->client) {
    assert_true(allocator_restore());
    return;
  }
  tkt_client_wait_ready(s->client, &s->ready, 10 * TKT_S, s->now);
  for (int i = 0; i < CALLS; i++)
    acquire(s, &s->calls[i], i, 5);
  drive(s, 10);
  for (int i = 0; i < CALLS; i += 10) /* some are still kept waiting: their sessions close */
    tkt_client_cancel(s->client, &s->calls[i], s->now);
  drive(s, 120);
  assert_int_equal(s->ready.outcome, TKT_OK);
  use_tickets(s);
  drive(s, ROUNDS);
  require_releases_ended(s);
  require_works_again(s);
  tkt_client_close(s->client, &s->close, s->now);
  drive(s, 60);
  assert_int_equal(s->close.outcome, TKT_OK);
  assert_true(tkt_client_finished(s->client));
  tkt_client_free(s->client);
}

static void client_survives_every_refused_allocation(void **state) {
  (void)state;
  static struct script script;
  size_t n = allocator_try_each(whole_flow, &script);
  print_message("%zu allocations\n", n);
  assert_in_range(n, 20, 100000);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(client_survives_every_refused_allocation)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
