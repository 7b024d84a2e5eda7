#include "cli/help.h"

#include "cli/status.h"

#include <argp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

char *tkt_help_filter(int key, const char *text, const char *notes, const int *statuses) {
  char *same = (char *)(uintptr_t)text; /* argp's own type for "not mine to change" */
  if (key != ARGP_KEY_HELP_POST_DOC) return same;
  char *whole = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&whole, &size);
  if (!out) return same;
  fprintf(out, "%s\nExit status:\n  %3d  %s\n", notes, TKT_EXIT_OK, tkt_exit_text(TKT_EXIT_OK));
  for (; *statuses >= 0; statuses++) {
    if (*statuses == TKT_EXIT_SIGNAL)
      fprintf(out, "128+n  %s\n", tkt_exit_text(*statuses));
    else
      fprintf(out, "  %3d  %s\n", *statuses, tkt_exit_text(*statuses));
  }
  if (fclose(out) != 0) {
    free(whole);
    return same;
  }
  return whole;
}
