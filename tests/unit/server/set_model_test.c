/* Random single keys and sets of both wires on the same few keys, against the plainest possible
 * model of the rules, reply by reply: a list of waiters in arrival order and a list of grants.
 * The storage is always done at once here; set_faults_test.c has the others. */
#include "unit/server/framed.h"

#include "base/random.h"

enum { KEYS = 6, SESSIONS = 8, WAITERS_MAX = 2048, GRANTS_MAX = 64, OWED_MAX = 2048 };
enum { SEEDS = 150, TURNS = 400 };

static const char *const names[KEYS] = {"a", "b",       "bb", "c-key-of-more-than-sixteen-bytes",
                                        "d", "\xc3\xa9"};

struct waiting {
  uint64_t id;
  int session;
  unsigned keys; /* a bit a key */
  int64_t due;
  uint8_t lease_s;
};

struct granted {
  uint64_t id, token; /* token 0: of this turn, not seen yet */
  int session;
  unsigned keys;
  int64_t until;
  uint8_t lease_s;
  bool released; /* in this turn */
};

/* A reply that must come before the turn ends. */
struct owed {
  int session;
  enum tkt_msg_kind kind;
  uint64_t id; /* wire 2: of a release, the token */
  uint64_t token;
  unsigned keys;
  enum tkt_wire_error error;
  bool set;
};

struct model {
  struct stage stage;
  struct tkt_random random;
  struct client *clients[SESSIONS]; /* the first half speak wire 2 */
  bool eof[SESSIONS];
  size_t waiting_count, granted_count, owed_count;
  struct waiting waiting[WAITERS_MAX];
  struct granted granted[GRANTS_MAX];
  struct owed owed[OWED_MAX];
  uint64_t next_id, newest;
  uint64_t sets, crossed, mismatches, expired;
};

static uint64_t pick(struct model *m, uint64_t bound) {
  return tkt_random_below(&m->random, bound);
}

static bool is_framed(int session) {
  return session >= SESSIONS / 2;
}

static bool is_due(int64_t due, int64_t now) {
  int64_t tick = INT64_C(1) << TKT_WHEEL_TICK_BITS;
  return (due + tick - 1) / tick <= now / tick;
}

static struct owed *owe(struct model *m, int session, enum tkt_msg_kind kind, uint64_t id,
                        unsigned keys) {
  assert_true(m->owed_count < OWED_MAX);
  struct owed *owed = &m->owed[m->owed_count++];
  *owed = (struct owed){.session = session, .kind = kind, .id = id, .keys = keys};
  return owed;
}

static unsigned held_keys(const struct model *m) {
  unsigned keys = 0;
  for (size_t i = 0; i < m->granted_count; i++)
    if (!m->granted[i].released) keys |= m->granted[i].keys;
  return keys;
}

static unsigned wanted_keys(const struct model *m) {
  unsigned keys = 0;
  for (size_t i = 0; i < m->waiting_count; i++)
    keys |= m->waiting[i].keys;
  return keys;
}

static void remove_waiting(struct model *m, size_t at) {
  memmove(&m->waiting[at], &m->waiting[at + 1], (m->waiting_count - at - 1) * sizeof m->waiting[0]);
  m->waiting_count--;
}

static void remove_granted(struct model *m, size_t at) {
  m->granted[at] = m->granted[--m->granted_count];
}

static void grant(struct model *m, const struct waiting *w) {
  assert_true(m->granted_count < GRANTS_MAX);
  assert_int_equal(held_keys(m) & w->keys, 0);
  m->granted[m->granted_count++] =
      (struct granted){.id = w->id, .session = w->session, .keys = w->keys, .lease_s = w->lease_s};
}

/* --- operations ----------------------------------------------------------------------------------
 */

static struct tkt_msg request_for(enum tkt_msg_kind kind, unsigned keys) {
  struct tkt_msg msg = {.kind = kind};
  for (int k = 0; k < KEYS; k++)
    if (keys >> k & 1) msg.keys[msg.key_count++] = tkt_span_str(names[k]);
  msg.set = msg.key_count > 1;
  return msg;
}

static unsigned some_keys(struct model *m, int session) {
  unsigned one = 1u << pick(m, KEYS);
  if (!is_framed(session) || pick(m, 3) == 0) return one;
  return one | ((unsigned)pick(m, 1u << KEYS) & (unsigned)pick(m, 1u << KEYS));
}

static void do_acquire(struct model *m, int session) {
  unsigned keys = some_keys(m, session);
  struct tkt_msg msg = request_for(TKT_MSG_ACQUIRE, keys);
  struct waiting w = {.id = m->next_id++, .session = session, .keys = keys};
  msg.id = w.id;
  msg.lease_s = w.lease_s = (uint8_t)(1 + pick(m, 8));
  msg.wait_s = (uint16_t)(pick(m, 4) ? 1 + pick(m, 12) : 0);
  int64_t margin = is_framed(session) ? 50 * TKT_MS : 0;
  w.due = m->stage.now + msg.wait_s * TKT_S - margin;
  m->sets += msg.set;
  send_message(m->clients[session], &msg);
  if (!((held_keys(m) | wanted_keys(m)) & keys)) {
    grant(m, &w);
  } else if (msg.wait_s == 0) {
    owe(m, session, TKT_MSG_TIMED_OUT, w.id, keys);
  } else {
    assert_true(m->waiting_count < WAITERS_MAX);
    m->crossed += (wanted_keys(m) & keys) != 0;
    m->waiting[m->waiting_count++] = w;
  }
}

static void do_release(struct model *m, int session) {
  if (m->granted_count == 0) return;
  struct granted *g = &m->granted[pick(m, m->granted_count)];
  if (g->token == 0) return;
  unsigned keys = pick(m, 4) ? g->keys : some_keys(m, session);
  uint64_t token = pick(m, 8) ? g->token : 1 + pick(m, m->newest + 2);
  if (!is_framed(session) && (keys & (keys - 1))) return; /* no frame for that */
  g = NULL;
  for (size_t i = 0; i < m->granted_count; i++)
    if (m->granted[i].token == token) g = &m->granted[i];
  struct tkt_msg msg = request_for(TKT_MSG_RELEASE, keys);
  msg.id = m->next_id++;
  msg.token = token;
  send_message(m->clients[session], &msg);
  uint64_t id = is_framed(session) ? msg.id : token;
  bool single = g && !(g->keys & (g->keys - 1));
  if (g && g->keys == keys) {
    owe(m, session, TKT_MSG_RELEASED, id, keys)->set = msg.set;
    g->released = true;
  } else if (!g || !is_framed(session) || (single && !(g->keys & keys))) {
    owe(m, session, TKT_MSG_NOT_CURRENT, id, keys);
  } else {
    owe(m, session, TKT_MSG_ERROR, id, keys)->error = TKT_WIRE_ERROR_GROUP_MISMATCH;
    m->mismatches++;
  }
}

/* The session ends: its waiters, and what it was granted in this turn, are as if never asked for.
 */
static void withdraw_all(struct model *m, int session, bool tell) {
  for (size_t i = 0; i < m->waiting_count;) {
    if (m->waiting[i].session != session) {
      i++;
      continue;
    }
    if (tell) owe(m, session, TKT_MSG_TIMED_OUT, m->waiting[i].id, m->waiting[i].keys);
    remove_waiting(m, i);
  }
  for (size_t i = 0; i < m->granted_count;) {
    if (m->granted[i].session != session || m->granted[i].token != 0) {
      i++;
      continue;
    }
    if (tell) owe(m, session, TKT_MSG_TIMED_OUT, m->granted[i].id, m->granted[i].keys);
    remove_granted(m, i);
  }
}

static void model_turn(struct model *m) {
  int64_t now = m->stage.now;
  for (size_t i = 0; i < m->granted_count;) {
    struct granted *g = &m->granted[i];
    bool over = g->token != 0 && !g->released && is_due(g->until, now);
    m->expired += over;
    if (g->released || over) {
      remove_granted(m, i);
    } else {
      i++;
    }
  }
  for (size_t i = 0; i < m->waiting_count;) {
    struct waiting *w = &m->waiting[i];
    if (!is_due(w->due, now)) {
      i++;
      continue;
    }
    owe(m, w->session, TKT_MSG_TIMED_OUT, w->id, w->keys);
    remove_waiting(m, i);
  }
  /* In arrival order; whoever cannot have all its keys bars them for those behind it. */
  unsigned barred = held_keys(m);
  for (size_t i = 0; i < m->waiting_count;) {
    struct waiting w = m->waiting[i];
    bool free = !(w.keys & barred);
    barred |= w.keys;
    if (!free) {
      i++;
      continue;
    }
    grant(m, &w);
    remove_waiting(m, i);
  }
  for (size_t i = 0; i < m->granted_count; i++) {
    struct granted *g = &m->granted[i];
    if (g->token != 0) continue;
    g->until = now + g->lease_s * (TKT_S + 2 * TKT_MS);
    owe(m, g->session, TKT_MSG_GRANTED, g->id, g->keys)->set = (g->keys & (g->keys - 1)) != 0;
  }
}

/* --- comparing -----------------------------------------------------------------------------------
 */

static bool is_same(const struct owed *owed, int session, const struct tkt_msg *msg) {
  bool about_token = msg->kind == TKT_MSG_RELEASED || msg->kind == TKT_MSG_NOT_CURRENT;
  if (owed->session != session || owed->kind != msg->kind) return false;
  if (!is_framed(session))
    return owed->id == (about_token ? msg->token : msg->id) &&
           request_for(msg->kind, owed->keys).key_count == 1 &&
           tkt_span_equal(request_for(msg->kind, owed->keys).keys[0], msg->keys[0]);
  if (owed->id != msg->id) return false;
  if (msg->kind == TKT_MSG_ERROR) return owed->error == msg->error;
  return !(msg->kind == TKT_MSG_GRANTED || msg->kind == TKT_MSG_RELEASED) || owed->set == msg->set;
}

static void learn_token(struct model *m, const struct tkt_msg *msg, uint64_t newest_before) {
  assert_true(msg->token > newest_before);
  for (size_t i = 0; i < m->granted_count; i++) {
    assert_int_not_equal(m->granted[i].token, msg->token);
    if (m->granted[i].id == msg->id && m->granted[i].token == 0) {
      m->granted[i].token = msg->token;
      if (msg->token > m->newest) m->newest = msg->token;
      return;
    }
  }
  fail_msg("a grant that the model does not know");
}

static void compare_replies(struct model *m) {
  uint64_t newest_before = m->newest;
  for (int session = 0; session < SESSIONS; session++) {
    struct tkt_msg msg;
    while (m->clients[session] && next_reply(m->clients[session], &msg)) {
      size_t i = 0;
      while (i < m->owed_count && !is_same(&m->owed[i], session, &msg))
        i++;
      if (i == m->owed_count)
        fail_msg("session %d: reply of kind %d, id %llu is not owed", session, (int)msg.kind,
                 (unsigned long long)msg.id);
      if (msg.kind == TKT_MSG_GRANTED) learn_token(m, &msg, newest_before);
      m->owed[i] = m->owed[--m->owed_count];
    }
  }
  for (size_t i = 0; i < m->owed_count; i++)
    fail_msg("session %d: owed kind %d, id %llu", m->owed[i].session, (int)m->owed[i].kind,
             (unsigned long long)m->owed[i].id);
}

static void compare_holders(struct model *m) {
  size_t held = 0;
  for (int k = 0; k < KEYS; k++) {
    uint64_t expected = 0;
    for (size_t i = 0; i < m->granted_count; i++)
      if (m->granted[i].keys >> k & 1) expected = m->granted[i].token;
    unsigned count;
    assert_int_equal(holder_of(&m->stage, names[k], &count), expected);
    assert_int_equal(count, expected != 0);
    held += count;
  }
  struct tkt_server_stats stats = tkt_server_stats(m->stage.server);
  assert_int_equal(stats.waiters, m->waiting_count);
  assert_int_equal(stats.keys_held, held);
}

/* A session that died reads nothing any more; its grants of this turn were undone already. */
static void bury(struct model *m, int session) {
  for (size_t i = 0; i < m->owed_count;) {
    if (m->owed[i].session == session) {
      m->owed[i] = m->owed[--m->owed_count];
    } else {
      i++;
    }
  }
  assert_true(m->clients[session]->closed);
  m->clients[session] = NULL;
}

static void step(struct model *m) {
  bool gone[SESSIONS] = {false};
  for (int i = 0; i < SESSIONS; i++)
    if (!m->clients[i]) {
      m->clients[i] = is_framed(i) ? join_framed(&m->stage) : join(&m->stage);
      m->eof[i] = false;
    }
  size_t operations = pick(m, 14);
  for (size_t i = 0; i < operations; i++) {
    int session = (int)pick(m, SESSIONS);
    if (m->eof[session] || gone[session]) continue;
    uint64_t what = pick(m, 100);
    if (what < 50) {
      do_acquire(m, session);
    } else if (what < 97) {
      do_release(m, session);
    } else if (what < 99) {
      m->eof[session] = true;
      withdraw_all(m, session, true);
      half_close(m->clients[session]);
    } else {
      gone[session] = true;
      withdraw_all(m, session, false);
      vanish(m->clients[session]);
    }
  }
  if (pick(m, 3) == 0) m->stage.now += (int64_t)pick(m, pick(m, 10) ? 2500 : 30000) * TKT_MS;
  model_turn(m);
  turn(&m->stage);
  for (int i = 0; i < SESSIONS; i++)
    if (gone[i]) bury(m, i);
  compare_replies(m);
  for (int i = 0; i < SESSIONS; i++)
    if (m->clients[i] && m->eof[i]) bury(m, i);
  compare_holders(m);
}

static uint64_t last_seed;

static int say_last_seed(void **state) {
  (void)state;
  print_message("last seed: %llu\n", (unsigned long long)last_seed);
  return 0;
}

static void sets_and_both_wires_are_as_the_model_says(void **state) {
  (void)state;
  static struct model m;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    last_seed = seed;
    memset(&m, 0, sizeof m);
    stage_open(&m.stage);
    m.next_id = 1000;
    m.newest = 99;
    tkt_random_init(&m.random, (uint64_t[4]){seed, 7, 3, 4});
    for (int i = 0; i < TURNS; i++) {
      m.stage.storage.count = 0;
      step(&m);
    }
    struct tkt_server_stats stats = tkt_server_stats(m.stage.server);
    assert_true(stats.grants > 100 && stats.releases > 30 && stats.timeouts > 50);
    assert_true(m.sets > 100 && m.crossed > 50 && m.mismatches > 5 && m.expired > 5);
    for (int i = 0; i < SESSIONS; i++)
      if (m.clients[i]) vanish(m.clients[i]);
    advance(&m.stage, 300 * TKT_S);
    assert_empty(m.stage.server);
    assert_int_equal(m.stage.server->wheel.armed, 0);
    assert_int_equal(m.stage.server->peer_pool.used, 0);
    stage_close(&m.stage);
  }
}

/* Sixteen keys, each with a stream of single requests that never ends: the set gets its turn after
 * those that came before it, and the singles go on behind it. */
static void a_set_of_16_keys_gets_its_turn_under_a_stream_of_singles(void **state) {
  (void)state;
  enum { AHEAD = 3, AFTER = 20 };
  struct stage s;
  stage_open(&s);
  struct client *singles = join_framed(&s), *line = join(&s), *set = join_framed(&s);
  static char keys[16][8], all[16 * 8];
  size_t len = 0;
  for (int k = 0; k < 16; k++) {
    snprintf(keys[k], sizeof keys[k], "key%02d", k);
    len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", k ? " " : "", keys[k]);
  }
  uint64_t held[16] = {0}, next = 1, served = 0, served_before_set = 0, token = 0;
  for (int k = 0; k < 16; k++)
    for (int n = 0; n < AHEAD; n++)
      ask_for(singles, next++, keys[k], 200, 200);
  for (int round = 0; round < 16 * (AHEAD + AFTER); round++) {
    if (round == 0) ask_for(set, 1, all, 200, 200);
    int k = (round * 7) % 16;
    ask_for(singles, next++, keys[k], 200, 200); /* the stream goes on, on either wire */
    ask(line, next++, keys[(k + 5) % 16], 200, 200);
    if (held[k]) give_back_all(singles, next++, keys[k], held[k]);
    turn(&s);
    struct tkt_msg msg;
    while (next_reply(singles, &msg) || next_reply(line, &msg))
      assert_true(msg.kind == TKT_MSG_GRANTED || msg.kind == TKT_MSG_RELEASED);
    if (!token && next_reply(set, &msg)) {
      assert_true(msg.kind == TKT_MSG_GRANTED && msg.set);
      token = msg.token;
      served_before_set = served;
    }
    for (k = 0; k < 16; k++) {
      uint64_t now = holder_of(&s, keys[k], NULL);
      if (now && now != held[k] && now != token) served++;
      held[k] = now != token ? now : 0;
    }
    if (token && round > 16 * AHEAD + 40) break;
  }
  assert_int_not_equal(token, 0);
  /* Nobody who came later went first. */
  assert_int_equal(served_before_set, 16 * AHEAD);
  assert_int_equal(holder_of(&s, keys[0], NULL), token);
  give_back_all(set, 2, all, token);
  turn(&s);
  expect_set_released(set, 2);
  for (int k = 0; k < 16; k++)
    assert_true(holder_of(&s, keys[k], NULL) > token);
  stage_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(sets_and_both_wires_are_as_the_model_says, say_last_seed),
      cmocka_unit_test(a_set_of_16_keys_gets_its_turn_under_a_stream_of_singles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
