/* What the demo shows: on a terminal a block that is redrawn in place with events scrolling above
 * it, elsewhere plain lines. */
#ifndef TKT_CLI_DEMO_VIEW_H
#define TKT_CLI_DEMO_VIEW_H

#include "cli/demo_worker.h"

#include <stdbool.h>
#include <stdint.h>

struct tkt_demo_view {
  bool terminal; /* redraw in place */
  bool colour;
  unsigned drawn; /* lines of the block on the screen now */
  unsigned columns;
  unsigned rows;
  int64_t next_line_ns; /* plain: when the next progress line is due */
};

/* Looks at standard output, TERM and NO_COLOR. */
void tkt_demo_view_open(struct tkt_demo_view *view);

struct tkt_demo_progress {
  const struct tkt_demo_plan *plan;
  const struct tkt_demo_board *board;
  int64_t elapsed_ns;
  int64_t planned_ns;
  int64_t now; /* ticketing_now_ns's clock */
  int64_t money;
  int64_t money_at_start;
};
/* Redraws the block, or prints a line a second. */
void tkt_demo_view_progress(struct tkt_demo_view *view, const struct tkt_demo_progress *progress);

enum tkt_demo_tone { TKT_DEMO_PLAIN, TKT_DEMO_GOOD, TKT_DEMO_BAD };
/* Prints one line that stays, above the block. */
__attribute__((format(printf, 3, 4))) void
tkt_demo_view_say(struct tkt_demo_view *view, enum tkt_demo_tone tone, const char *format, ...);

/* Leaves the block standing as it is; what follows goes below it. */
void tkt_demo_view_close(struct tkt_demo_view *view);

#endif
