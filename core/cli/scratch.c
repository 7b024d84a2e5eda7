#include "cli/scratch.h"

#include "cli/values.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_FOLDERS = 8 };

bool tkt_scratch_make(struct tkt_scratch *scratch, const char *name, char *why) {
  const char *parent = getenv("TMPDIR");
  if (!parent || !*parent) parent = "/tmp";
  int n = snprintf(scratch->path, sizeof scratch->path, "%s/ticketing-%s-XXXXXX", parent, name);
  if (n < 0 || (size_t)n >= sizeof scratch->path) {
    snprintf(why, TKT_VALUE_WHY_SIZE, "TMPDIR is longer than a path may be here (%d bytes)",
             TKT_SCRATCH_SIZE - 32);
  } else if (mkdtemp(scratch->path)) {
    return true;
  } else {
    snprintf(why, TKT_VALUE_WHY_SIZE,
             "cannot make a temporary folder in %.300s: %s; set TMPDIR to a writable one", parent,
             strerror(errno));
  }
  scratch->path[0] = '\0';
  return false;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *level) {
  (void)status;
  (void)kind;
  (void)level;
  remove(path);
  return 0;
}

void tkt_scratch_remove(struct tkt_scratch *scratch) {
  if (!scratch->path[0]) return;
  nftw(scratch->path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
  scratch->path[0] = '\0';
}
