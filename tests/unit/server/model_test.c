/* Random operations of several sessions against the plainest possible model of the rules, reply by
 * reply. The storage is always done at once here; faults_test.c has the others. */
#include "unit/server/stage.h"

#include "base/random.h"
#include "server/state.h"

enum { KEYS = 4, SESSIONS = 6, QUEUE_MAX = 512, REPLIES_MAX = 1024, SEEDS = 200, TURNS = 400 };

static const char *const names[KEYS] = {"a", "bb", "a-key-of-more-than-sixteen-bytes", "\xc3\xa9"};

struct expected {
  int session;
  enum tkt_msg_kind kind;
  uint64_t number; /* owner or token */
  int key;
  uint64_t token; /* of a grant where it is known already */
};

struct place {
  uint64_t owner;
  int session;
  int64_t due; /* end of the wait */
  uint8_t lease_s;
  int came_from; /* the session it moved here from, while that is open, plus 1; 0: none */
  uint8_t came_lease_s;
};

struct model_key {
  bool held, fresh; /* fresh: granted in this turn, token not seen yet */
  bool extended;    /* in this turn */
  uint64_t owner, token;
  uint64_t removed; /* released in this turn: a second release gets the same answer */
  uint8_t lease_s;  /* of the fresh grant or extension */
  int session;      /* to be told */
  int64_t until;
  size_t waiting;
  struct place queue[QUEUE_MAX];
};

struct model {
  struct stage stage;
  struct tkt_random random;
  struct client *clients[SESSIONS];
  bool eof[SESSIONS];
  struct model_key keys[KEYS];
  size_t reply_count;
  struct expected replies[REPLIES_MAX];
  uint64_t last_token;
  uint64_t known[KEYS]; /* some token of the key that was told once */
  uint64_t next_owner;
};

static uint64_t pick(struct model *m, uint64_t bound) {
  return tkt_random_below(&m->random, bound);
}

static void owe(struct model *m, int session, enum tkt_msg_kind kind, uint64_t number, int key) {
  assert_true(m->reply_count < REPLIES_MAX);
  m->replies[m->reply_count++] = (struct expected){session, kind, number, key, 0};
}

/* The A for the holder of `k`; a fresh one's token is the engine's choice. */
static void owe_granted(struct model *m, int session, int k) {
  owe(m, session, TKT_MSG_GRANTED, m->keys[k].owner, k);
  if (!m->keys[k].fresh) m->replies[m->reply_count - 1].token = m->keys[k].token;
}

static bool is_due(int64_t due, int64_t now) {
  int64_t tick = INT64_C(1) << TKT_WHEEL_TICK_BITS;
  return (due + tick - 1) / tick <= now / tick;
}

static int64_t kept(uint8_t lease_s) {
  return lease_s * TKT_S + lease_s * 2 * TKT_MS;
}

static void remove_place(struct model_key *key, size_t at) {
  memmove(&key->queue[at], &key->queue[at + 1], (key->waiting - at - 1) * sizeof key->queue[0]);
  key->waiting--;
}

static void grant(struct model_key *key, struct place place) {
  key->held = key->fresh = true;
  key->extended = false;
  key->owner = place.owner;
  key->lease_s = place.lease_s;
  key->session = place.session;
}

static void model_acquire(struct model *m, int k, struct place place, uint8_t wait_s) {
  struct model_key *key = &m->keys[k];
  int64_t now = m->stage.now;
  if (key->held && key->owner == place.owner) {
    if (key->fresh || key->extended) {
      if (place.lease_s > key->lease_s) key->lease_s = place.lease_s;
      key->session = place.session;
    } else if (now + kept(place.lease_s) <= key->until) {
      owe_granted(m, place.session, k);
    } else {
      key->extended = true;
      key->lease_s = place.lease_s;
      key->session = place.session;
    }
    return;
  }
  for (size_t i = 0; i < key->waiting; i++) {
    struct place before = key->queue[i];
    if (before.owner != place.owner) continue;
    bool moves = before.session != place.session;
    place.came_from = moves ? before.session + 1 : before.came_from;
    place.came_lease_s = moves ? before.lease_s : before.came_lease_s;
    key->queue[i] = place;
    if (wait_s > 0) return;
    remove_place(key, i);
    if (i == 0 && !key->held) {
      grant(key, place);
    } else {
      owe(m, place.session, TKT_MSG_TIMED_OUT, place.owner, k);
    }
    return;
  }
  if (!key->held && key->waiting == 0) {
    grant(key, place);
  } else if (wait_s == 0) {
    owe(m, place.session, TKT_MSG_TIMED_OUT, place.owner, k);
  } else {
    assert_true(key->waiting < QUEUE_MAX);
    key->queue[key->waiting++] = place;
  }
}

static void do_acquire(struct model *m, int session) {
  int k = (int)pick(m, KEYS);
  uint8_t lease_s = (uint8_t)(1 + pick(m, pick(m, 3) ? 6 : 250));
  uint8_t wait_s = (uint8_t)(pick(m, 3) ? 1 + pick(m, 12) : 0);
  /* Mostly new owners; sometimes one that was used lately. */
  uint64_t owner = pick(m, 4) ? m->next_owner++ : m->next_owner - 1 - pick(m, 12);
  ask(m->clients[session], owner, names[k], wait_s, lease_s);
  struct place place = {owner, session, m->stage.now + wait_s * TKT_S, lease_s, 0, 0};
  model_acquire(m, k, place, wait_s);
}

static void do_release(struct model *m, int session) {
  int k = (int)pick(m, KEYS);
  struct model_key *key = &m->keys[k];
  uint64_t token = pick(m, 6) ? m->known[k] : pick(m, m->last_token + 2);
  give_back(m->clients[session], token, names[k]);
  bool current = key->held && !key->fresh && key->token == token;
  bool again = token != 0 && key->removed == token;
  owe(m, session, current || again ? TKT_MSG_RELEASED : TKT_MSG_NOT_CURRENT, token, k);
  if (!current) return;
  key->removed = token;
  /* An extension asked for in this turn is stored before the release. */
  if (key->extended) owe_granted(m, key->session, k);
  key->held = key->extended = false;
}

static void go_back(struct place *place) {
  place->session = place->came_from - 1;
  place->came_from = 0;
  if (place->came_lease_s > place->lease_s) place->lease_s = place->came_lease_s;
}

static void withdraw_all(struct model *m, int session, bool tell) {
  for (int k = 0; k < KEYS; k++) {
    struct model_key *key = &m->keys[k];
    for (size_t i = 0; i < key->waiting;) {
      struct place *place = &key->queue[i];
      if (place->came_from == session + 1) place->came_from = 0;
      if (place->session == session && place->came_from) go_back(place);
      if (place->session != session) {
        i++;
        continue;
      }
      if (tell) owe(m, session, TKT_MSG_TIMED_OUT, key->queue[i].owner, k);
      remove_place(key, i);
    }
    if (key->held && key->fresh && key->session == session) {
      if (tell) owe(m, session, TKT_MSG_TIMED_OUT, key->owner, k);
      key->held = key->fresh = false;
    }
  }
}

static void model_turn(struct model *m) {
  int64_t now = m->stage.now;
  for (int k = 0; k < KEYS; k++) {
    struct model_key *key = &m->keys[k];
    for (size_t i = 0; i < key->waiting;) {
      if (!is_due(key->queue[i].due, now)) {
        i++;
        continue;
      }
      owe(m, key->queue[i].session, TKT_MSG_TIMED_OUT, key->queue[i].owner, k);
      remove_place(key, i);
    }
    if (key->held && !key->fresh && !key->extended && is_due(key->until, now)) key->held = false;
  }
  for (int k = 0; k < KEYS; k++) {
    struct model_key *key = &m->keys[k];
    key->removed = 0;
    if (!key->held && key->waiting > 0) {
      grant(key, key->queue[0]);
      remove_place(key, 0);
    }
    if (key->held && (key->fresh || key->extended)) {
      owe_granted(m, key->session, k);
      int64_t until = now + kept(key->lease_s);
      if (key->fresh || until > key->until) key->until = until;
      key->extended = false;
    }
  }
}

static int key_named(struct tkt_span name) {
  for (int k = 0; k < KEYS; k++)
    if (tkt_span_equal(name, tkt_span_str(names[k]))) return k;
  fail_msg("reply names a key nobody asked for");
  return 0;
}

/* A grant: the model learns its token, which must be newer than any seen before this turn. */
static void learn_token(struct model *m, int k, uint64_t token, uint64_t newest_before) {
  struct model_key *key = &m->keys[k];
  assert_true(key->fresh && token > newest_before);
  key->token = m->known[k] = token;
  key->fresh = false;
  if (token > m->last_token) m->last_token = token;
}

/* Index of the owed reply that `got` is, or reply_count. */
static size_t find_owed(const struct model *m, struct expected got) {
  size_t any = m->reply_count;
  for (size_t i = 0; i < m->reply_count; i++) {
    const struct expected *owed = &m->replies[i];
    if (owed->session != got.session || owed->kind != got.kind || owed->number != got.number ||
        owed->key != got.key)
      continue;
    if (owed->token == got.token) return i;
    if (owed->token == 0) any = i;
  }
  return any;
}

static void compare_replies(struct model *m) {
  uint64_t newest_before = m->last_token;
  for (int session = 0; session < SESSIONS; session++) {
    struct tkt_msg msg;
    while (m->clients[session] && next_reply(m->clients[session], &msg)) {
      bool about_token = msg.kind == TKT_MSG_RELEASED || msg.kind == TKT_MSG_NOT_CURRENT;
      bool granted = msg.kind == TKT_MSG_GRANTED;
      struct expected got = {session, msg.kind, about_token ? msg.token : msg.id,
                             key_named(msg.keys[0]), granted ? msg.token : 0};
      size_t i = find_owed(m, got);
      if (i == m->reply_count)
        fail_msg("session %d: reply of kind %d, number %llu, key %d is not owed", session,
                 (int)msg.kind, (unsigned long long)got.number, got.key);
      if (granted && m->replies[i].token == 0) learn_token(m, got.key, msg.token, newest_before);
      m->replies[i] = m->replies[--m->reply_count];
    }
  }
  for (size_t i = 0; i < m->reply_count; i++)
    fail_msg("session %d: owed kind %d, number %llu, key %d", m->replies[i].session,
             (int)m->replies[i].kind, (unsigned long long)m->replies[i].number, m->replies[i].key);
}

static void compare_holders(struct model *m) {
  size_t waiting = 0, held = 0;
  for (int k = 0; k < KEYS; k++) {
    unsigned count;
    uint64_t token = holder_of(&m->stage, names[k], &count);
    assert_int_equal(count, m->keys[k].held);
    if (m->keys[k].held) assert_int_equal(token, m->keys[k].token);
    waiting += m->keys[k].waiting;
    held += m->keys[k].held;
  }
  struct tkt_server_stats stats = tkt_server_stats(m->stage.server);
  assert_int_equal(stats.waiters, waiting);
  assert_int_equal(stats.keys_held, held);
}

static void forget_dead_replies(struct model *m, int session) {
  for (size_t i = 0; i < m->reply_count;) {
    if (m->replies[i].session == session) {
      m->replies[i] = m->replies[--m->reply_count];
    } else {
      i++;
    }
  }
}

static void step(struct model *m) {
  bool gone[SESSIONS] = {false};
  for (int i = 0; i < SESSIONS; i++)
    if (!m->clients[i]) {
      m->clients[i] = join(&m->stage);
      m->eof[i] = false;
    }
  size_t operations = pick(m, 12);
  for (size_t i = 0; i < operations; i++) {
    int session = (int)pick(m, SESSIONS);
    if (m->eof[session] || gone[session]) continue;
    uint64_t what = pick(m, 100);
    if (what < 55) {
      do_acquire(m, session);
    } else if (what < 96) {
      do_release(m, session);
    } else if (what < 98) {
      m->eof[session] = true;
      withdraw_all(m, session, true);
      half_close(m->clients[session]);
    } else {
      gone[session] = true;
      withdraw_all(m, session, false);
      vanish(m->clients[session]);
    }
  }
  if (pick(m, 4) == 0) m->stage.now += (int64_t)pick(m, pick(m, 10) ? 2500 : 100000) * TKT_MS;
  model_turn(m);
  turn(&m->stage);
  for (int i = 0; i < SESSIONS; i++)
    if (gone[i]) {
      /* Its extension may have been stored, but nobody hears of it. */
      forget_dead_replies(m, i);
      assert_true(m->clients[i]->closed);
      m->clients[i] = NULL;
    }
  compare_replies(m);
  for (int i = 0; i < SESSIONS; i++)
    if (m->eof[i]) {
      assert_true(m->clients[i]->closed);
      m->clients[i] = NULL;
      m->eof[i] = false;
    }
  compare_holders(m);
}

static void nothing_is_left(struct model *m) {
  for (int i = 0; i < SESSIONS; i++)
    if (m->clients[i]) vanish(m->clients[i]);
  turn(&m->stage);
  advance(&m->stage, 300 * TKT_S);
  const struct tkt_server *server = m->stage.server;
  assert_int_equal(server->stats.sessions, 0);
  assert_int_equal(server->stats.waiters, 0);
  assert_int_equal(server->stats.keys_held, 0);
  assert_int_equal(server->locks.count, 0);
  assert_int_equal(server->owners.count, 0);
  assert_int_equal(server->wheel.armed, 0);
  assert_int_equal(server->waiter_pool.used, 0);
  assert_int_equal(server->grant_pool.used, 0);
  assert_int_equal(server->release_pool.used, 0);
  assert_int_equal(server->peer_pool.used, 0);
  assert_int_equal(tkt_server_next_deadline(server), TKT_NEVER);
}

static uint64_t last_seed;

static int say_last_seed(void **state) {
  (void)state;
  print_message("last seed: %llu\n", (unsigned long long)last_seed);
  return 0;
}

static void engine_and_model_say_the_same(void **state) {
  (void)state;
  static struct model m;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    last_seed = seed;
    memset(&m, 0, sizeof m);
    stage_open(&m.stage);
    m.next_owner = 1000;
    m.last_token = 99;
    tkt_random_init(&m.random, (uint64_t[4]){seed, 2, 3, 4});
    for (int i = 0; i < TURNS; i++) {
      m.stage.storage.count = 0;
      step(&m);
    }
    struct tkt_server_stats stats = tkt_server_stats(m.stage.server);
    assert_true(stats.grants > 100);
    assert_true(stats.releases > 50);
    assert_true(stats.timeouts > 20);
    assert_true(stats.withdrawn > 5);
    nothing_is_left(&m);
    stage_close(&m.stage);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(engine_and_model_say_the_same, say_last_seed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
