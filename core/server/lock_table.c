#include "server/lock_table.h"

static size_t class_of(size_t len) {
  return len / TKT_KEY_CLASS_STEP;
}

void tkt_locks_init(struct tkt_server *server) {
  tkt_table_init(&server->locks);
  for (size_t c = 0; c < TKT_KEY_CLASSES; c++) {
    size_t longest = c * TKT_KEY_CLASS_STEP + TKT_KEY_CLASS_STEP - 1;
    tkt_pool_init(&server->lock_pools[c], offsetof(struct tkt_lock, text) + longest, SIZE_MAX);
  }
}

static void free_lock(struct tkt_server *server, struct tkt_lock *lock) {
  tkt_pool_give(&server->lock_pools[class_of(lock->len)], lock);
}

void tkt_locks_free(struct tkt_server *server) {
  struct tkt_table_node *node;
  while ((node = tkt_table_drain(&server->locks)))
    free_lock(server, TKT_CONTAINER(node, struct tkt_lock, node));
  tkt_table_release(&server->locks);
  for (size_t c = 0; c < TKT_KEY_CLASSES; c++)
    tkt_pool_release(&server->lock_pools[c]);
}

uint64_t tkt_lock_hash(const struct tkt_server *server, struct tkt_span key) {
  return tkt_hash_bytes(&server->secret, key.data, key.len);
}

struct tkt_lock *tkt_lock_find(const struct tkt_server *server, struct tkt_span key,
                               uint64_t hash) {
  struct tkt_table_node *node = tkt_table_bucket(&server->locks, hash);
  for (; node; node = node->next) {
    struct tkt_lock *lock = TKT_CONTAINER(node, struct tkt_lock, node);
    if (node->hash == hash && lock->len == key.len && memcmp(lock->text, key.data, key.len) == 0)
      return lock;
  }
  return NULL;
}

struct tkt_lock *tkt_lock_new(struct tkt_server *server, struct tkt_span key, uint64_t hash) {
  struct tkt_pool *pool = &server->lock_pools[class_of(key.len)];
  struct tkt_lock *lock = tkt_pool_take(pool);
  if (!lock) return NULL;
  lock->len = (uint8_t)key.len;
  memcpy(lock->text, key.data, key.len);
  if (!tkt_table_insert(&server->locks, &lock->node, hash)) {
    tkt_pool_give(pool, lock);
    return NULL;
  }
  return lock;
}

void tkt_lock_look(struct tkt_server *server, struct tkt_lock *lock) {
  if (lock->ready) return;
  if (!lock->first) {
    if (lock->holds) return;
    tkt_table_remove(&server->locks, &lock->node);
    free_lock(server, lock);
    return;
  }
  if (!tkt_lock_is_free(lock)) return;
  lock->ready = true;
  lock->next_ready = NULL;
  if (server->ready_last) {
    server->ready_last->next_ready = lock;
  } else {
    server->ready_first = lock;
  }
  server->ready_last = lock;
}

struct tkt_lock *tkt_lock_next_ready(struct tkt_server *server) {
  struct tkt_lock *lock = server->ready_first;
  if (!lock) return NULL;
  server->ready_first = lock->next_ready;
  if (!server->ready_first) server->ready_last = NULL;
  lock->ready = false;
  return lock;
}

bool tkt_lock_is_free(const struct tkt_lock *lock) {
  for (struct tkt_grant *grant = lock->holds; grant; grant = tkt_hold_of(grant, lock)->next)
    if (grant->removal != TKT_REMOVAL_STAGED) return false;
  return true;
}

void tkt_queue_append(struct tkt_lock *lock, struct tkt_seat *seat) {
  seat->lock = lock;
  tkt_list_init(&seat->node);
  if (lock->first) {
    tkt_list_insert_before(&lock->first->node, &seat->node);
  } else {
    lock->first = seat;
  }
  lock->waiting++;
}

void tkt_queue_remove(struct tkt_seat *seat) {
  struct tkt_lock *lock = seat->lock;
  if (lock->first == seat)
    lock->first =
        tkt_list_linked(&seat->node) ? TKT_CONTAINER(seat->node.next, struct tkt_seat, node) : NULL;
  tkt_list_remove(&seat->node);
  lock->waiting--;
}

struct tkt_hold *tkt_hold_of(struct tkt_grant *grant, const struct tkt_lock *lock) {
  struct tkt_hold *hold = grant->holds;
  while (hold->lock != lock)
    hold++;
  return hold;
}

void tkt_lock_occupy(struct tkt_lock *lock, struct tkt_grant *grant) {
  tkt_hold_of(grant, lock)->next = lock->holds;
  lock->holds = grant;
}

void tkt_lock_vacate(struct tkt_lock *lock, struct tkt_grant *grant) {
  struct tkt_grant **link = &lock->holds;
  while (*link != grant)
    link = &tkt_hold_of(*link, lock)->next;
  *link = tkt_hold_of(grant, lock)->next;
}
