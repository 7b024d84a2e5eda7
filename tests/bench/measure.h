/* What the clients of the comparison share: their arguments, the clock, and the line of JSON that
 * run.py reads. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdint.h>

enum { CYCLES_MAX = 100000000 };

/* Says what failed, with errno, and ends the program. */
_Noreturn void fail(const char *what);

int64_t now_ns(void);

/* A number of the command line; ends the program with 64 where it is none from `least` to `most`.
 */
uint32_t number(const char *text, uint32_t least, uint32_t most);

/* A socket connected to a port of this machine, with TCP_NODELAY; ends the program where there is
 * none. */
int connect_loopback(uint16_t port);

/* Prints the report of `count` (not 0) cycles, of which `samples` are the durations in ns; sorts
 * them. */
void report(uint32_t *samples, uint32_t count, int64_t elapsed_ns);

#endif
