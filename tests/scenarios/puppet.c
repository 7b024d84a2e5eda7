/* The fault server as a child on two pipes. */
#include "runner.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool puppet_start(struct puppet *puppet, const char *program) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC)) return false;
  if (pipe2(from, O_CLOEXEC)) return false;
  puppet->have = 0;
  puppet->pid = fork();
  if (puppet->pid < 0) return false;
  if (puppet->pid == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    execlp("python3", "python3", "-B", program, (char *)NULL);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  puppet->to = to[1];
  puppet->from = from[0];
  fcntl(puppet->from, F_SETFL, O_NONBLOCK);
  return true;
}

bool puppet_say(struct puppet *puppet, const char *command) {
  size_t len = strlen(command);
  while (len) {
    ssize_t n = write(puppet->to, command, len);
    if (n <= 0) return false;
    command += n;
    len -= (size_t)n;
  }
  puppet->have = 0;
  return write(puppet->to, "\n", 1) == 1;
}

int puppet_listen(struct puppet *puppet) {
  for (;;) {
    ssize_t n =
        read(puppet->from, puppet->answer + puppet->have, sizeof puppet->answer - 1 - puppet->have);
    if (n < 0) return 0;
    if (n == 0) return -1;
    puppet->have += (size_t)n;
    if (puppet->answer[puppet->have - 1] == '\n') {
      puppet->answer[puppet->have - 1] = 0;
      return 1;
    }
    if (puppet->have == sizeof puppet->answer - 1) return -1;
  }
}

void puppet_stop(struct puppet *puppet) {
  close(puppet->to); /* its end of input: it leaves */
  close(puppet->from);
  waitpid(puppet->pid, NULL, 0);
}
