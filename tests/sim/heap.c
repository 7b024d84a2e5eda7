#include "heap.h"

#include "base/random.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *memory);
char *__wrap_strdup(const char *text);

static size_t in_use;
static unsigned fail_one_in;
static struct tkt_random failures;
static uint64_t refused;
static bool spared;

void heap_fail_one_in(unsigned of, uint64_t seed) {
  uint64_t words[4] = {seed, 1, 1, 1};
  fail_one_in = of;
  tkt_random_init(&failures, words);
}

uint64_t heap_refused(void) {
  return refused;
}

void heap_spare(bool on) {
  spared = on;
}

static bool refuse(void) {
  if (!fail_one_in || spared || tkt_random_below(&failures, fail_one_in) != 0) return false;
  refused++;
  return true;
}

size_t heap_in_use(void) {
  return in_use;
}

void *__wrap_malloc(size_t size) {
  void *memory = refuse() ? NULL : __real_malloc(size);
  if (memory) in_use += malloc_usable_size(memory);
  return memory;
}

void *__wrap_calloc(size_t count, size_t size) {
  void *memory = refuse() ? NULL : __real_calloc(count, size);
  if (memory) in_use += malloc_usable_size(memory);
  return memory;
}

void *__wrap_realloc(void *old, size_t size) {
  size_t before = old ? malloc_usable_size(old) : 0;
  void *memory = refuse() ? NULL : __real_realloc(old, size);
  if (memory) in_use = in_use - before + malloc_usable_size(memory);
  return memory;
}

void __wrap_free(void *memory) {
  if (memory) in_use -= malloc_usable_size(memory);
  __real_free(memory);
}

char *__wrap_strdup(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = __wrap_malloc(size);
  if (copy) memcpy(copy, text, size);
  return copy;
}
