#include "net/clock.h"

#include <time.h>

int64_t tkt_clock_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_BOOTTIME, &t);
  return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int64_t tkt_clock_unix_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}
