#include "cli/help.h"

#include "cli/status.h"

#include <argp.h>
#include <stdint.h>
#include <stdio.h>

char *tkt_help_filter(int key, const char *text, const char *notes, const int *statuses) {
  char *same = (char *)(uintptr_t)text; /* argp's own type for "not mine to change" */
  if (key == ARGP_KEY_HELP_DUP_ARGS_NOTE) return NULL; /* a sentence that helps nobody */
  if (key != ARGP_KEY_HELP_POST_DOC) return same;
  char lines[TKT_EXIT_HELP_SIZE];
  char *whole = NULL;
  if (asprintf(&whole, "%s\nExit status:\n%s", notes,
               tkt_exit_help(statuses, lines, sizeof lines)) < 0)
    return same;
  return whole;
}
