/* Random operations over a storage that delays, fails and cannot say, and over sockets that take
 * little and die. What must hold whatever happens: two clients never hold a key at a time as far as
 * they can know, tokens grow per key, no grant in commit is answered T, every session comes to its
 * end, and in the end nothing is left. */
#include "unit/server/stage.h"

#include "base/random.h"
#include "server/state.h"

enum { KEYS = 3, SESSIONS = 6, SEEDS = 200, TURNS = 400, PENDING_MAX = 4096, ASKED_MAX = 4096 };

static const char *const names[KEYS] = {"a", "bb", "ccc"};

struct pending {
  uint64_t batch;
  size_t first, last; /* its changes in the storage's notes */
};

struct asked {
  uint64_t owner;
  int64_t at; /* when it was last asked for: the conservative start of the lease */
  uint8_t lease_s;
  int key;
};

struct belief { /* what a client may believe of a key */
  uint64_t token;
  int64_t until;
};

struct world {
  struct stage stage;
  struct tkt_random random;
  struct client *clients[SESSIONS];
  bool eof[SESSIONS];
  size_t pending_count;
  struct pending pending[PENDING_MAX];
  uint64_t seen_batch;
  size_t asked_count;
  struct asked asked[ASKED_MAX];
  struct belief beliefs[KEYS];
  uint64_t newest[KEYS];
  uint64_t granted, busy, ended;
};

static uint64_t last_seed;

static uint64_t pick(struct world *w, uint64_t bound) {
  return tkt_random_below(&w->random, bound);
}

static struct asked *find_asked(struct world *w, uint64_t owner, int key) {
  for (size_t i = 0; i < w->asked_count; i++)
    if (w->asked[i].owner == owner && w->asked[i].key == key) return &w->asked[i];
  return NULL;
}

static void do_acquire(struct world *w, int session) {
  int key = (int)pick(w, KEYS);
  uint64_t owner = w->asked_count + 1;
  struct asked *again = NULL;
  if (w->asked_count > 8 && pick(w, 3) == 0) {
    owner = w->asked_count - pick(w, 8);
    again = find_asked(w, owner, key);
  }
  uint8_t lease_s = (uint8_t)(1 + pick(w, 10)), wait_s = (uint8_t)pick(w, 8);
  ask(w->clients[session], owner, names[key], wait_s, lease_s);
  if (again) {
    again->lease_s = lease_s < again->lease_s ? lease_s : again->lease_s;
    return;
  }
  assert_true(w->asked_count < ASKED_MAX);
  w->asked[w->asked_count++] = (struct asked){owner, w->stage.now, lease_s, key};
}

static void do_release(struct world *w, int session) {
  int key = (int)pick(w, KEYS);
  uint64_t token = w->newest[key];
  if (pick(w, 5) == 0 && token > 0) token -= pick(w, 3);
  /* From the call on, a client believes no more. */
  if (w->beliefs[key].token == token) w->beliefs[key].until = 0;
  give_back(w->clients[session], token, names[key]);
}

/* Notes the batches the storage has been given since. */
static void note_pending(struct world *w) {
  const struct noting_storage *storage = &w->stage.storage;
  for (size_t i = 0; i < storage->count; i++) {
    if (storage->changes[i].batch <= w->seen_batch) continue;
    size_t first = i;
    uint64_t batch = storage->changes[i].batch;
    while (i + 1 < storage->count && storage->changes[i + 1].batch == batch)
      i++;
    w->seen_batch = batch;
    assert_true(w->pending_count < PENDING_MAX);
    w->pending[w->pending_count++] = (struct pending){batch, first, i};
  }
}

static bool shares_token(const struct world *w, struct pending a, struct pending b) {
  const struct noted_change *changes = w->stage.storage.changes;
  for (size_t i = a.first; i <= a.last; i++)
    for (size_t j = b.first; j <= b.last; j++)
      if (changes[i].token == changes[j].token) return true;
  return false;
}

static enum tkt_commit some_result(struct world *w) {
  uint64_t r = pick(w, 10);
  return r < 7 ? TKT_COMMIT_DONE : r < 9 ? TKT_COMMIT_FAILED : TKT_COMMIT_UNKNOWN;
}

/* Decides some pending batch that no earlier one on a token of it holds up. Already decided ones
 * are among the notes too: the engine must not care. */
static void decide_some(struct world *w) {
  if (w->pending_count == 0) return;
  size_t i = (size_t)pick(w, w->pending_count);
  for (size_t j = 0; j < i; j++)
    if (shares_token(w, w->pending[i], w->pending[j])) i = j, j = (size_t)-1;
  uint64_t batch = w->pending[i].batch;
  memmove(&w->pending[i], &w->pending[i + 1], (w->pending_count - i - 1) * sizeof w->pending[0]);
  w->pending_count--;
  tkt_server_committed(w->stage.server, batch, some_result(w), w->stage.now);
}

static void read_reply(struct world *w, const struct tkt_msg *msg) {
  int key = 0;
  while (key < KEYS && !tkt_span_equal(msg->keys[0], tkt_span_str(names[key])))
    key++;
  assert_true(key < KEYS);
  if (msg->kind == TKT_MSG_BUSY) w->busy++;
  if (msg->kind != TKT_MSG_GRANTED) return;
  w->granted++;
  const struct asked *asked = find_asked(w, msg->id, key);
  assert_non_null(asked);
  int64_t now = w->stage.now, until = asked->at + asked->lease_s * TKT_S;
  struct belief *belief = &w->beliefs[key];
  if (msg->token != belief->token) {
    /* Whoever believes to hold another token of this key must be past its end, unless this reply
     * is the one that came late. */
    if (msg->token > belief->token && until > now) assert_true(belief->until <= now);
    if (msg->token < belief->token) return;
    *belief = (struct belief){msg->token, until};
  }
  if (msg->token > w->newest[key]) w->newest[key] = msg->token;
}

static void read_all(struct world *w) {
  for (int i = 0; i < SESSIONS; i++) {
    struct tkt_msg msg;
    while (w->clients[i] && next_reply(w->clients[i], &msg))
      if (msg.kind != TKT_MSG_ERROR) read_reply(w, &msg);
    if (!w->clients[i] || !w->clients[i]->closed) continue;
    w->clients[i] = NULL;
    w->ended++;
  }
}

/* At once it decides only where nothing is pending: no batch overtakes an earlier one on its token.
 */
static void run_turn(struct world *w) {
  w->stage.storage.answer =
      w->pending_count > 0 || pick(w, 3) ? TKT_COMMIT_PENDING : some_result(w);
  turn(&w->stage);
  note_pending(w);
}

static void step(struct world *w) {
  for (int i = 0; i < SESSIONS; i++)
    if (!w->clients[i]) {
      w->clients[i] = join(&w->stage);
      w->eof[i] = false;
    }
  size_t operations = pick(w, 8);
  for (size_t i = 0; i < operations; i++) {
    int session = (int)pick(w, SESSIONS);
    struct client *c = w->clients[session];
    if (w->eof[session]) continue;
    uint64_t what = pick(w, 100);
    if (what < 50) {
      do_acquire(w, session);
    } else if (what < 85) {
      do_release(w, session);
    } else if (what < 87) {
      w->eof[session] = true;
      half_close(c);
    } else if (what < 89) {
      w->eof[session] = true;
      vanish(c);
    } else if (what < 90) {
      send_bytes(c, "?", 1);
    } else {
      c->blocked = pick(w, 2);
      c->takes = (size_t)pick(w, 40);
    }
  }
  if (w->stage.storage.count > CHANGES_MAX - 1024 && w->pending_count == 0)
    w->stage.storage.count = 0;
  if (pick(w, 3) == 0) w->stage.now += (int64_t)pick(w, 3000) * TKT_MS;
  run_turn(w);
  while (pick(w, 3) || w->pending_count > 20)
    decide_some(w);
  run_turn(w);
  for (int i = 0; i < SESSIONS; i++)
    if (w->clients[i] && w->clients[i]->peer) serve(w->clients[i]);
  read_all(w);
}

static void nothing_is_left(struct world *w) {
  for (int i = 0; i < SESSIONS; i++)
    if (w->clients[i] && w->clients[i]->peer) vanish(w->clients[i]);
  w->stage.storage.answer = TKT_COMMIT_DONE;
  turn(&w->stage);
  while (w->pending_count > 0)
    decide_some(w);
  turn(&w->stage);
  for (int i = 0; i < 20; i++)
    advance(&w->stage, 20 * TKT_S);
  const struct tkt_server *server = w->stage.server;
  assert_int_equal(server->stats.sessions, 0);
  assert_int_equal(server->stats.waiters, 0);
  assert_int_equal(server->stats.keys_held, 0);
  assert_true(tkt_list_empty(&server->pending));
  assert_int_equal(server->locks.count, 0);
  assert_int_equal(server->owners.count, 0);
  assert_int_equal(server->wheel.armed, 0);
  assert_int_equal(server->waiter_pool.used, 0);
  assert_int_equal(server->grant_pool.used, 0);
  assert_int_equal(server->release_pool.used, 0);
  assert_int_equal(server->peer_pool.used, 0);
}

static void holds_never_overlap_and_nothing_is_left(void **state) {
  (void)state;
  static struct world w;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    last_seed = seed;
    memset(&w, 0, sizeof w);
    stage_open(&w.stage);
    tkt_random_init(&w.random, (uint64_t[4]){seed, 5, 6, 7});
    for (int i = 0; i < TURNS; i++)
      step(&w);
    struct tkt_server_stats stats = tkt_server_stats(w.stage.server);
    assert_true(w.granted > 30);
    assert_true(w.busy > 5);
    assert_true(w.ended > 5);
    assert_true(stats.releases > 10);
    assert_true(stats.expiries > 3);
    nothing_is_left(&w);
    stage_close(&w.stage);
  }
}

static int say_last_seed(void **state) {
  (void)state;
  print_message("last seed: %llu\n", (unsigned long long)last_seed);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(holds_never_overlap_and_nothing_is_left, say_last_seed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
