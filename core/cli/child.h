/* The command that `run` starts.
 *
 * It stays in the wrapper's process group: then the terminal, Ctrl-C, Ctrl-Z and `fg` treat both as
 * the one job they are, and nothing has to be handed over (a group of its own would be stopped at
 * its first read from the terminal). The price is that a signal the terminal sends reaches both, so
 * the wrapper passes on only those that processes sent.
 *
 * It dies with the wrapper (PR_SET_PDEATHSIG): a command must not go on under a ticket that nobody
 * guards. */
#ifndef TKT_CLI_CHILD_H
#define TKT_CLI_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct tkt_child {
  pid_t pid; /* 0: none, or ended and waited for */
  int wait_status;
};

/* Starts argv[0] (looked up in PATH) with `mask` as its signal mask and the present environment.
 * 0, or the errno with which fork or exec failed: no child is left then. Blocks until the command
 * has been executed. */
int tkt_child_start(struct tkt_child *child, char **argv, const sigset_t *mask);

/* Sends a signal; harmless after its end. */
void tkt_child_signal(struct tkt_child *child, int number);

/* True once it has ended (then wait_status is set). Does not block. */
bool tkt_child_ended(struct tkt_child *child);

/* The exit status a shell would report: its own, or 128 + the signal that ended it. */
int tkt_child_exit_status(const struct tkt_child *child);

#endif
