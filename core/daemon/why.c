#include "daemon/why.h"

#include <stdarg.h>
#include <stdio.h>

bool tkt_why(char *why, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(why, TKT_DAEMON_WHY_SIZE, format, args);
  va_end(args);
  return false;
}
