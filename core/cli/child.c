#include "cli/child.h"

#include "cli/status.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: becomes the command, or tells why not through `report`. */
static void become(char **argv, const sigset_t *mask, pid_t parent, int report)
    __attribute__((noreturn));
static void become(char **argv, const sigset_t *mask, pid_t parent, int report) {
  int error = 0;
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) error = errno;
  /* The wrapper may have died before that was armed. */
  if (getppid() != parent) _exit(TKT_EXIT_LOST);
  sigprocmask(SIG_SETMASK, mask, NULL);
  if (error == 0) {
    execvp(argv[0], argv);
    error = errno;
  }
  ssize_t n = write(report, &error, sizeof error);
  _exit(n == (ssize_t)sizeof error ? TKT_EXIT_CANNOT_RUN : TKT_EXIT_INTERNAL);
}

int tkt_child_start(struct tkt_child *child, char **argv, const sigset_t *mask) {
  int report[2], error = 0;
  child->pid = 0;
  child->wait_status = 0;
  if (pipe2(report, O_CLOEXEC) != 0) return errno;
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid == 0) become(argv, mask, parent, report[1]);
  if (pid < 0) error = errno;
  close(report[1]);
  if (pid > 0) {
    /* End of file: exec closed the other end. */
    ssize_t n;
    do
      n = read(report[0], &error, sizeof error);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof error) error = 0;
    if (error == 0)
      child->pid = pid;
    else
      while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
  }
  close(report[0]);
  return error;
}

void tkt_child_signal(struct tkt_child *child, int number) {
  if (child->pid > 0) kill(child->pid, number);
}

bool tkt_child_ended(struct tkt_child *child) {
  if (child->pid == 0) return true;
  pid_t pid = waitpid(child->pid, &child->wait_status, WNOHANG);
  if (pid == 0 || (pid < 0 && errno == EINTR)) return false;
  child->pid = 0;
  return true;
}

int tkt_child_exit_status(const struct tkt_child *child) {
  if (WIFSIGNALED(child->wait_status)) return TKT_EXIT_SIGNAL + WTERMSIG(child->wait_status);
  return WEXITSTATUS(child->wait_status);
}
