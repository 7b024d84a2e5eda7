/* Preloaded into a program, counts its allocations and writes the number into the file that
 * TICKETING_TEST_ALLOCATIONS names, when the program ends. Works with glibc, whose own names it
 * calls. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

static _Atomic unsigned long allocations;

__attribute__((visibility("default"))) void *malloc(size_t size) {
  atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
  return __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size) {
  atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
  return __libc_calloc(count, size);
}

__attribute__((visibility("default"))) void *realloc(void *memory, size_t size) {
  atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
  return __libc_realloc(memory, size);
}

__attribute__((destructor)) static void tell(void) {
  unsigned long counted = atomic_load(&allocations);
  const char *name = getenv("TICKETING_TEST_ALLOCATIONS");
  int fd = name ? open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
  if (fd < 0) return;
  dprintf(fd, "%lu\n", counted);
  close(fd);
}
