#include "unit/allocation/allocator.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *block);
char *__wrap_strdup(const char *text);

/* Counts down to 0, where refusing begins; refuses down to `refuse_until`. */
static atomic_long countdown = LONG_MAX, refuse_until;
static atomic_long live;
static atomic_bool refused_one, somebody_exempt;
static pthread_t exempt;

static bool ours(void) {
  return !atomic_load(&somebody_exempt) || !pthread_equal(pthread_self(), exempt);
}

static bool refuse(void) {
  if (atomic_load(&countdown) == LONG_MAX || !ours()) return false;
  long left = atomic_fetch_sub(&countdown, 1) - 1;
  if (left > 0 || left <= atomic_load(&refuse_until)) return false;
  atomic_store(&refused_one, true);
  errno = ENOMEM;
  return true;
}

static void *counted(void *block) {
  if (block && ours()) atomic_fetch_add(&live, 1);
  return block;
}

void *__wrap_malloc(size_t size) {
  return refuse() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size) {
  return refuse() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size) {
  if (refuse()) return NULL;
  void *block = __real_realloc(old, size);
  return old ? block : counted(block);
}

void __wrap_free(void *block) {
  if (block && ours()) atomic_fetch_sub(&live, 1);
  __real_free(block);
}

char *__wrap_strdup(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = __wrap_malloc(size);
  if (copy) memcpy(copy, text, size);
  return copy;
}

void allocator_refuse(size_t nth, size_t in_a_row) {
  atomic_store(&refused_one, false);
  atomic_store(&refuse_until, -(long)in_a_row);
  atomic_store(&countdown, (long)nth);
}

bool allocator_restore(void) {
  atomic_store(&countdown, LONG_MAX);
  return atomic_load(&refused_one);
}

long allocator_live(void) {
  return atomic_load(&live);
}

void allocator_exempt(pthread_t thread) {
  exempt = thread;
  atomic_store(&somebody_exempt, true);
}

/* Threads of the library may still be giving back what they had. */
static void require_live(long expected) {
  for (int tries = 0; tries < 20000 && allocator_live() != expected; tries++)
    usleep(1000);
  assert_int_equal(allocator_live(), expected);
}

size_t allocator_try_each(void (*flow)(void *context), void *context) {
  long before = allocator_live();
  flow(context); /* it works at all */
  require_live(before);
  size_t n = 0;
  bool refused = true;
  while (refused) {
    allocator_refuse(++n, ALLOCATOR_ONE);
    flow(context);
    refused = allocator_restore();
    require_live(before);
    allocator_refuse(n, ALLOCATOR_A_FEW);
    flow(context);
    refused |= allocator_restore();
    require_live(before);
  }
  return n - 1;
}
