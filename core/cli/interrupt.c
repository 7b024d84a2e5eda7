#include "cli/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

/* Of the program, not of the library: there is one Ctrl-C a process. */
static atomic_int caught;

static void note(int signal_number) {
  atomic_store(&caught, signal_number);
}

void tkt_interrupt_catch(void) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    struct sigaction old;
    if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN) continue;
    /* No SA_RESTART: waits have to come back. RESETHAND: the second one ends the process. */
    struct sigaction action = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(signals[i], &action, NULL);
  }
}

int tkt_interrupted(void) {
  return atomic_load(&caught);
}
