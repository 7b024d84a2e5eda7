/* The course of the demo: starts the workers, watches them, kills one, tries its late write, stops
 * the rest, proves. */
#ifndef TKT_CLI_DEMO_SHOW_H
#define TKT_CLI_DEMO_SHOW_H

#include "cli/demo_view.h"
#include "cli/demo_worker.h"
#include "cli/private_server.h"

struct tkt_demo_show {
  struct tkt_demo_plan plan;
  struct tkt_private_server *server; /* NULL without locks */
  struct tkt_demo_view *view;
  int64_t seconds;
  uint64_t transfers; /* stop after so many; 0: only after the time */
};

enum tkt_demo_verdict {
  TKT_DEMO_HELD, /* everything that was to be shown held */
  TKT_DEMO_DID_NOT_HOLD,
  TKT_DEMO_BROKE_OFF, /* interrupted */
  TKT_DEMO_NO_SYSTEM, /* memory or processes were refused; told */
};

/* Blocks until all workers are gone. The database of the plan exists and is fresh. */
enum tkt_demo_verdict tkt_demo_show_run(const struct tkt_demo_show *show);

#endif
