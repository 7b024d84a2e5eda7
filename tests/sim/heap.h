/* Counts the memory in use by everything linked into the simulator (malloc and friends are wrapped
 * at link time), so that growth and leaks show without a sanitizer. */
#ifndef TKT_SIM_HEAP_H
#define TKT_SIM_HEAP_H

#include <stddef.h>

/* Bytes allocated and not freed. */
size_t heap_in_use(void);

#endif
