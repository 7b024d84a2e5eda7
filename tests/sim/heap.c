#include "heap.h"

#include <malloc.h>
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

size_t heap_in_use(void) {
  return in_use;
}

void *__wrap_malloc(size_t size) {
  void *memory = __real_malloc(size);
  if (memory) in_use += malloc_usable_size(memory);
  return memory;
}

void *__wrap_calloc(size_t count, size_t size) {
  void *memory = __real_calloc(count, size);
  if (memory) in_use += malloc_usable_size(memory);
  return memory;
}

void *__wrap_realloc(void *old, size_t size) {
  size_t before = old ? malloc_usable_size(old) : 0;
  void *memory = __real_realloc(old, size);
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
