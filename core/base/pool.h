/* Pool of equal objects: after warm-up, taking and giving back touches no allocator.
 *
 * Memory grows in chunks up to `limit` objects and stays until the pool is freed. Under
 * AddressSanitizer and TKT_POOL_PLAIN each object is a plain allocation, so that use after
 * give-back is seen. Not thread-safe: each engine owns its pools. */
#ifndef TKT_BASE_POOL_H
#define TKT_BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tkt_pool_chunk;
struct tkt_pool_free;

struct tkt_pool {
  size_t object_size;
  size_t limit; /* most objects in use at a time */
  size_t used;
  struct tkt_pool_chunk *chunks;
  struct tkt_pool_free *free_objects;
  size_t fresh_left; /* objects of the newest chunk never handed out */
  size_t next_chunk; /* objects in the chunk after this one */
};

/* `object_size` in bytes; `limit` in objects, SIZE_MAX for none. Allocates nothing. */
void tkt_pool_init(struct tkt_pool *pool, size_t object_size, size_t limit);

/* A zeroed object, or NULL: out of memory or `limit` objects in use. */
void *tkt_pool_take(struct tkt_pool *pool);

/* Gives back an object of this pool. NULL is ignored. */
void tkt_pool_give(struct tkt_pool *pool, void *object);

/* Frees all memory, whatever is still in use (objects in use leak under TKT_POOL_PLAIN: give back
 * first, so that leak checkers stay useful). */
void tkt_pool_release(struct tkt_pool *pool);

#endif
