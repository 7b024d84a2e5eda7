#include "cli/demo_view.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <ticketing.h>
#include <unistd.h>

enum {
  BAR_CELLS = 30,
  WORKER_LINES_MAX = 16,
  COLUMNS_DEFAULT = 80,
  ROWS_DEFAULT = 24,
  ROWS_KEPT_FREE = 6, /* for the events above the block */
  LINE_SIZE = 512,
};

void tkt_demo_view_open(struct tkt_demo_view *view) {
  *view = (struct tkt_demo_view){.columns = COLUMNS_DEFAULT, .rows = ROWS_DEFAULT};
  const char *term = getenv("TERM");
  view->terminal = isatty(STDOUT_FILENO) == 1 && term && strcmp(term, "dumb") != 0;
  const char *no_colour = getenv("NO_COLOR");
  view->colour = view->terminal && !(no_colour && *no_colour);
  struct winsize size;
  if (view->terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    if (size.ws_col >= 20) view->columns = size.ws_col;
    if (size.ws_row >= 8) view->rows = size.ws_row;
  }
}

static void erase(struct tkt_demo_view *view) {
  if (view->drawn) printf("\033[%uA\r\033[J", view->drawn);
  view->drawn = 0;
}

/* One line of the block. Cut at the width of the terminal: a wrapped line would count as two. The
 * lines are ASCII, so bytes are columns. */
__attribute__((format(printf, 2, 3))) static void draw(struct tkt_demo_view *view,
                                                       const char *format, ...) {
  char line[LINE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (strlen(line) >= view->columns) line[view->columns - 1] = '\0';
  puts(line);
  view->drawn++;
}

static uint64_t all_transfers(const struct tkt_demo_progress *p) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < p->plan->workers; i++)
    sum += atomic_load(&p->board->seats[i].transfers);
  return sum;
}

static void describe(const struct tkt_demo_seat *seat, int64_t now, char *out, size_t size) {
  uint32_t source = atomic_load(&seat->source), target = atomic_load(&seat->target);
  switch ((enum tkt_demo_state)atomic_load(&seat->state)) {
  case TKT_DEMO_STARTING:
    snprintf(out, size, "starts");
    break;
  case TKT_DEMO_WAITING:
    snprintf(out, size, "wants the locks of accounts %u and %u", source, target);
    break;
  case TKT_DEMO_INSIDE:
    snprintf(out, size, "moves money from account %u to %u", source, target);
    break;
  case TKT_DEMO_FROZEN:
    snprintf(out, size, "stands still between reading and writing %u and %u", source, target);
    break;
  case TKT_DEMO_KILLED:
    if (seat->frozen_until_ns > now) {
      snprintf(out, size, "killed; its locks on %u and %u last another %.1f s", source, target,
               (double)(seat->frozen_until_ns - now) / 1e9);
    } else {
      snprintf(out, size, "killed; its locks on %u and %u have ended", source, target);
    }
    break;
  case TKT_DEMO_ENDED:
    snprintf(out, size, "has ended");
    break;
  }
}

static void draw_block(struct tkt_demo_view *view, const struct tkt_demo_progress *p) {
  char bar[BAR_CELLS + 1];
  double share = p->planned_ns ? (double)p->elapsed_ns / (double)p->planned_ns : 1;
  size_t full = share >= 1 ? BAR_CELLS : (size_t)(share * BAR_CELLS);
  memset(bar, '.', BAR_CELLS);
  memset(bar, '#', full);
  bar[BAR_CELLS] = '\0';
  erase(view);
  draw(view, "  [%s] %4.1f s  %llu transfers  money %lld of %lld", bar, (double)p->elapsed_ns / 1e9,
       (unsigned long long)all_transfers(p), (long long)p->money, (long long)p->money_at_start);
  uint32_t room = view->rows - ROWS_KEPT_FREE < WORKER_LINES_MAX ? view->rows - ROWS_KEPT_FREE
                                                                 : WORKER_LINES_MAX;
  for (uint32_t i = 0; i < p->plan->workers && i < room; i++) {
    const struct tkt_demo_seat *seat = &p->board->seats[i];
    char doing[128];
    describe(seat, p->now, doing, sizeof doing);
    draw(view, "  worker %-2u %6llu transfers  %s", i + 1,
         (unsigned long long)atomic_load(&seat->transfers), doing);
  }
  if (p->plan->workers > room) draw(view, "  and %u workers more", p->plan->workers - room);
}

void tkt_demo_view_progress(struct tkt_demo_view *view, const struct tkt_demo_progress *p) {
  if (view->terminal) {
    draw_block(view, p);
  } else if (p->now >= view->next_line_ns) {
    view->next_line_ns = p->now + TICKETING_SECOND;
    printf("  %4.1f s  %llu transfers, money %lld of %lld\n", (double)p->elapsed_ns / 1e9,
           (unsigned long long)all_transfers(p), (long long)p->money, (long long)p->money_at_start);
  }
  fflush(stdout);
}

void tkt_demo_view_say(struct tkt_demo_view *view, enum tkt_demo_tone tone, const char *format,
                       ...) {
  static const char *const colours[] = {"", "\033[32m", "\033[31m"};
  erase(view);
  va_list arguments;
  va_start(arguments, format);
  if (view->colour) fputs(colours[tone], stdout);
  vprintf(format, arguments);
  if (view->colour && tone != TKT_DEMO_PLAIN) fputs("\033[0m", stdout);
  putchar('\n');
  va_end(arguments);
  fflush(stdout);
}

void tkt_demo_view_close(struct tkt_demo_view *view) {
  view->drawn = 0;
  fflush(stdout);
}
