/* Standard input, output and error: there, and honest about what was written.
 *
 * A program started without one of them would get its first socket as descriptor 0, 1 or 2 and
 * write its words into it. So each missing one is filled at start, the wrong way round (output for
 * reading, input for writing), which makes every use fail as use of a closed one does. */
#ifndef TKT_CLI_STREAMS_H
#define TKT_CLI_STREAMS_H

#include <stdbool.h>

/* Fills what is missing and arranges that standard output is checked at exit: where something
 * written to it was lost, the program says so and ends with TKT_EXIT_OUTPUT. False: it could not be
 * filled. Call first in main. */
bool tkt_streams_open(void);

/* True where the caller had closed standard output. */
bool tkt_streams_output_missing(void);

/* Pushes standard output out. False, having said so on standard error, where it did not arrive. */
bool tkt_streams_flush(const char *program);

#endif
