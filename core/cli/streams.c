#include "cli/streams.h"

#include "cli/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool output_missing;
static bool loss_told;

static void check_output_at_exit(void) {
  if (loss_told || (fflush(stdout) == 0 && !ferror(stdout))) return;
  int reason = errno;
  fprintf(stderr,
          "ticketing: standard output is closed or cannot be written (%s): what was printed is "
          "lost; give it a file, a terminal or /dev/null\n",
          strerror(reason));
  fflush(stderr);
  _exit(TKT_EXIT_OUTPUT);
}

bool tkt_streams_open(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return false;
    if (fd == STDOUT_FILENO) output_missing = true;
  }
  return atexit(check_output_at_exit) == 0;
}

bool tkt_streams_output_missing(void) {
  return output_missing;
}

bool tkt_streams_flush(const char *program) {
  if (!output_missing && fflush(stdout) == 0 && !ferror(stdout)) return true;
  loss_told = true;
  fprintf(stderr,
          "%s: standard output is closed or cannot be written%s%s; give it a file, a terminal or "
          "/dev/null\n",
          program, output_missing ? "" : ": ", output_missing ? "" : strerror(errno));
  return false;
}
