#include "base/pool.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define TKT_POOL_PLAIN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TKT_POOL_PLAIN 1
#endif
#endif

/* Chunks start small, so an idle engine is small, and double up to a cap that bounds waste. */
enum { FIRST_CHUNK = 8, CHUNK_MAX = 1024 };

struct tkt_pool_chunk {
  struct tkt_pool_chunk *next;
  max_align_t objects[];
};

struct tkt_pool_free {
  struct tkt_pool_free *next;
};

void tkt_pool_init(struct tkt_pool *pool, size_t object_size, size_t limit) {
  size_t align = _Alignof(max_align_t);
  memset(pool, 0, sizeof *pool);
  pool->object_size = (object_size + align - 1) / align * align;
  pool->limit = limit;
  pool->next_chunk = FIRST_CHUNK;
}

#ifdef TKT_POOL_PLAIN

void *tkt_pool_take(struct tkt_pool *pool) {
  if (pool->used >= pool->limit) return NULL;
  void *object = calloc(1, pool->object_size);
  if (object) pool->used++;
  return object;
}

void tkt_pool_give(struct tkt_pool *pool, void *object) {
  if (!object) return;
  pool->used--;
  free(object);
}

void tkt_pool_release(struct tkt_pool *pool) {
  pool->used = 0;
}

#else

static bool grow(struct tkt_pool *pool) {
  size_t count = pool->next_chunk;
  struct tkt_pool_chunk *chunk = malloc(sizeof *chunk + count * pool->object_size);
  if (!chunk) return false;
  chunk->next = pool->chunks;
  pool->chunks = chunk;
  pool->fresh_left = count;
  if (pool->next_chunk < CHUNK_MAX) pool->next_chunk *= 2;
  return true;
}

/* Out of the way of the many calls that find an object given back. */
static __attribute__((noinline)) void *take_fresh(struct tkt_pool *pool) {
  if (pool->used >= pool->limit) return NULL;
  if (pool->fresh_left == 0 && !grow(pool)) return NULL;
  pool->fresh_left--;
  pool->used++;
  return memset((char *)pool->chunks->objects + pool->fresh_left * pool->object_size, 0,
                pool->object_size);
}

/* Objects that were given back were in use before, so the limit leaves room for them. */
void *tkt_pool_take(struct tkt_pool *pool) {
  struct tkt_pool_free *object = pool->free_objects;
  if (!object) return take_fresh(pool);
  pool->free_objects = object->next;
  pool->used++;
  return memset(object, 0, pool->object_size);
}

void tkt_pool_give(struct tkt_pool *pool, void *object) {
  if (!object) return;
  struct tkt_pool_free *node = object;
  node->next = pool->free_objects;
  pool->free_objects = node;
  pool->used--;
}

void tkt_pool_release(struct tkt_pool *pool) {
  while (pool->chunks) {
    struct tkt_pool_chunk *next = pool->chunks->next;
    free(pool->chunks);
    pool->chunks = next;
  }
  tkt_pool_init(pool, pool->object_size, pool->limit);
}

#endif
