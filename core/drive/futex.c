#include "drive/futex.h"

#include "base/time.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Every sleep has a limit: the kernel restarts a limitless one behind an SA_RESTART handler, so
 * that the interruption would never be seen. */
#define SLEEP_MAX (3600 * TKT_S)

int tkt_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns) {
  if (timeout_ns > SLEEP_MAX) timeout_ns = SLEEP_MAX;
  if (timeout_ns < 0) timeout_ns = 0;
  struct timespec t = {.tv_sec = timeout_ns / TKT_S, .tv_nsec = timeout_ns % TKT_S};
  if (syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &t, NULL, 0) == 0) return 0;
  return errno == EAGAIN ? 0 : -errno;
}

void tkt_futex_sleep(_Atomic uint32_t *word, uint32_t expected) {
  int keep = errno;
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
  errno = keep;
}

void tkt_futex_wake(_Atomic uint32_t *word, int count) {
  int keep = errno;
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
  errno = keep;
}
