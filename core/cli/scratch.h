/* A temporary folder for one run of a command, removed with all it holds. */
#ifndef TKT_CLI_SCRATCH_H
#define TKT_CLI_SCRATCH_H

#include <stdbool.h>

enum { TKT_SCRATCH_SIZE = 512 };

struct tkt_scratch {
  char path[TKT_SCRATCH_SIZE]; /* "" while there is none */
};

/* Makes a folder, mode 0700, below $TMPDIR or /tmp; `name` ("demo") becomes part of its name.
 * False: a sentence in `why` (TKT_VALUE_WHY_SIZE bytes). */
bool tkt_scratch_make(struct tkt_scratch *scratch, const char *name, char *why);

/* Removes the folder and everything in it; links are not followed. Harmless where there is none. */
void tkt_scratch_remove(struct tkt_scratch *scratch);

#endif
