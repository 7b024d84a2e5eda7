/* Ctrl-C and its relatives, for commands that have something to clean up. */
#ifndef TKT_CLI_INTERRUPT_H
#define TKT_CLI_INTERRUPT_H

/* From here on SIGINT, SIGTERM and SIGHUP set a flag and interrupt waits instead of ending the
 * process. A second SIGINT ends it as usual. A signal that was ignored stays ignored. */
void tkt_interrupt_catch(void);

/* The signal that came, or 0. Any thread. */
int tkt_interrupted(void);

#endif
