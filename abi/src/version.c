#include <ticketing.h>

#include "net/clock.h"

const char *ticketing_version(void) {
  return TICKETING_VERSION;
}

uint32_t ticketing_version_number(void) {
  return TICKETING_VERSION_MAJOR * 1000000u + TICKETING_VERSION_MINOR * 1000u +
         TICKETING_VERSION_PATCH;
}

int64_t ticketing_now_ns(void) {
  return tkt_clock_now();
}
