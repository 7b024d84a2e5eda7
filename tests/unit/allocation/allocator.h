/* An allocator that refuses on request, and counts what is not given back. The linker puts it in
 * front of the real one (--wrap) for everything in the program that is ours, under sanitizers too;
 * shared libraries, OpenSSL among them, keep the real one. Any thread. */
#ifndef TESTS_UNIT_ALLOCATION_ALLOCATOR_H
#define TESTS_UNIT_ALLOCATION_ALLOCATOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* How many allocations in a row are refused once one is. */
enum { ALLOCATOR_ONE = 1, ALLOCATOR_A_FEW = 12 };

/* The `nth` allocation from now (1: the next) is refused, and those behind it up to `in_a_row`. */
void allocator_refuse(size_t nth, size_t in_a_row);

/* Nothing is refused any more. True where something was. */
bool allocator_restore(void);

/* Blocks allocated and not freed. */
long allocator_live(void);

/* What this thread allocates is neither refused nor counted: it plays the other side. */
void allocator_exempt(pthread_t thread);

/* Runs `flow` with allocation 1, 2, 3 ... refused, alone and then with the next ones, until it gets
 * through without a refusal; after each run nothing may be left allocated. Returns how many
 * allocations the flow makes. */
size_t allocator_try_each(void (*flow)(void *context), void *context);

#endif
