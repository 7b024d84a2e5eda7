/* For tests that ask for more memory than any machine has: sanitizers end the program there unless
 * told that NULL is an answer. Include once in a program. */
#ifndef TKT_TESTS_UNIT_NO_MEMORY_H
#define TKT_TESTS_UNIT_NO_MEMORY_H

#define SANITIZER_SEES __attribute__((visibility("default")))

SANITIZER_SEES const char *__asan_default_options(void);
SANITIZER_SEES const char *__asan_default_options(void) {
  return "allocator_may_return_null=1";
}

SANITIZER_SEES const char *__tsan_default_options(void);
SANITIZER_SEES const char *__tsan_default_options(void) {
  return "allocator_may_return_null=1";
}

#endif
