/* Units of time. Every instant in the project is an int64 count of nanoseconds on a clock that
 * counts suspend (CLOCK_BOOTTIME), handed in by whoever drives an engine; engines read no clock. */
#ifndef TKT_BASE_TIME_H
#define TKT_BASE_TIME_H

#include <stdint.h>

#define TKT_US INT64_C(1000)
#define TKT_MS INT64_C(1000000)
#define TKT_S INT64_C(1000000000)
/* "No deadline". Never add to it. */
#define TKT_NEVER INT64_MAX

#endif
