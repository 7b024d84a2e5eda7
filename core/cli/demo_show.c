#include "cli/demo_show.h"

#include "cli/demo_proof.h"
#include "cli/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ticketing.h>
#include <time.h>

enum {
  TICK_MS = 100,
  /* The worker that dies; any would do. */
  VICTIM = 2,
  /* How long past its due time a step of the drama may take before the demo gives up on it. */
  STEP_LIMIT_S = 15,
  /* A worker may be waiting for a lock when it is told to stop: the wait, its rounding, a release.
   */
  STOP_LIMIT_MS = 8000,
};

enum scene { BEFORE_KILL, FREEZING, LEASE_RUNS, LATE_WRITE_TRIED, NO_DRAMA };

struct stage {
  const struct tkt_demo_show *show;
  struct tkt_demo_board *board;
  struct tkt_bank *bank;
  pid_t pids[TKT_DEMO_WORKERS_MAX]; /* 0: gone */
  enum scene scene;
  int64_t start;
  int64_t scene_since;
  bool late_write_refused;
  bool broken; /* something stopped the demo; told */
};

static void pause_ms(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

static void give_up(struct stage *stage, const char *what) {
  tkt_demo_view_say(stage->show->view, TKT_DEMO_BAD, "  %s", what);
  stage->broken = true;
}

static double seconds_in(const struct stage *stage, int64_t now) {
  return (double)(now - stage->start) / 1e9;
}

static void next_scene(struct stage *stage, enum scene scene, int64_t now) {
  stage->scene = scene;
  stage->scene_since = now;
}

/* The victim stands still in its critical section: kill it there. */
static void kill_victim(struct stage *stage, int64_t now) {
  struct tkt_demo_seat *seat = &stage->board->seats[VICTIM - 1];
  kill(stage->pids[VICTIM - 1], SIGKILL);
  while (waitpid(stage->pids[VICTIM - 1], NULL, 0) < 0 && errno == EINTR)
    ;
  stage->pids[VICTIM - 1] = 0;
  atomic_store(&seat->state, TKT_DEMO_KILLED);
  const struct tkt_transfer *t = &seat->frozen;
  struct tkt_demo_view *view = stage->show->view;
  tkt_demo_view_say(view, TKT_DEMO_PLAIN,
                    "%5.1f s  worker %d has locked accounts %u and %u and read %lld and %lld;\n"
                    "         its tokens are %llu and %llu",
                    seconds_in(stage, now), VICTIM, t->source, t->target,
                    (long long)t->source_balance, (long long)t->target_balance,
                    (unsigned long long)t->source_token, (unsigned long long)t->target_token);
  tkt_demo_view_say(
      view, TKT_DEMO_BAD,
      "         and is killed with SIGKILL before it writes. Nobody else gets these two\n"
      "         locks until their lease of %d s ends",
      TKT_DEMO_LEASE_S);
  next_scene(stage, LEASE_RUNS, now);
}

/* Once another worker has written one of the victim's accounts: the write the victim was about to
 * make, as a process that was only stopped for a while would make it now. */
static void try_late_write(struct stage *stage, int64_t now) {
  const struct tkt_transfer *t = &stage->board->seats[VICTIM - 1].frozen;
  struct tkt_demo_view *view = stage->show->view;
  char why[TKT_BANK_WHY_SIZE];
  uint32_t account = t->source, worker;
  uint64_t old = t->source_token, token;
  if (!tkt_bank_successor(stage->bank, account, old, &worker, &token, why)) {
    give_up(stage, why);
    return;
  }
  if (worker == 0) {
    account = t->target;
    old = t->target_token;
    if (!tkt_bank_successor(stage->bank, account, old, &worker, &token, why)) {
      give_up(stage, why);
      return;
    }
  }
  if (worker == 0) return;
  tkt_demo_view_say(view, TKT_DEMO_GOOD,
                    "%5.1f s  the lease is over: worker %u got account %u and wrote it\n"
                    "         with token %llu",
                    seconds_in(stage, now), worker, account, (unsigned long long)token);
  switch (tkt_bank_write(stage->bank, t, why)) {
  case TKT_BANK_FENCED:
    stage->late_write_refused = true;
    tkt_demo_view_say(view, TKT_DEMO_GOOD,
                      "         The dead worker's write arrives after all,\n"
                      "         with token %llu: refused, it is not above that one",
                      (unsigned long long)old);
    break;
  case TKT_BANK_WRITTEN:
    tkt_demo_view_say(view, TKT_DEMO_BAD,
                      "         the dead worker's late write with token %llu went through",
                      (unsigned long long)old);
    break;
  case TKT_BANK_BROKEN:
    give_up(stage, why);
    break;
  }
  next_scene(stage, LATE_WRITE_TRIED, now);
}

static void play(struct stage *stage, int64_t now) {
  const struct tkt_demo_show *show = stage->show;
  struct tkt_demo_seat *seat = &stage->board->seats[VICTIM - 1];
  int64_t limit = STEP_LIMIT_S * TICKETING_SECOND;
  switch (stage->scene) {
  case BEFORE_KILL:
    if (now - stage->start < show->seconds * TICKETING_SECOND / 4) return;
    atomic_store(&seat->freeze_wanted, true);
    next_scene(stage, FREEZING, now);
    return;
  case FREEZING:
    if (atomic_load(&seat->state) == TKT_DEMO_FROZEN) {
      kill_victim(stage, now);
    } else if (now - stage->scene_since > limit) {
      give_up(stage, "the worker that was to be killed never came into its critical section");
    }
    return;
  case LEASE_RUNS:
    try_late_write(stage, now);
    if (stage->scene == LEASE_RUNS && now - stage->scene_since > limit)
      give_up(stage, "nobody got the killed worker's accounts after its lease");
    return;
  case LATE_WRITE_TRIED:
  case NO_DRAMA:
    return;
  }
}

static uint64_t all_transfers(const struct stage *stage) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < stage->show->plan.workers; i++)
    sum += atomic_load(&stage->board->seats[i].transfers);
  return sum;
}

static bool finished(const struct stage *stage, int64_t now) {
  const struct tkt_demo_show *show = stage->show;
  if (tkt_interrupted() || stage->broken) return true;
  if (stage->scene != LATE_WRITE_TRIED && stage->scene != NO_DRAMA) return false;
  if (show->transfers && all_transfers(stage) >= show->transfers) return true;
  return now - stage->start >= show->seconds * TICKETING_SECOND;
}

/* A worker or the server that ended by itself ends the demo. */
static void look_after_processes(struct stage *stage) {
  for (uint32_t i = 0; i < stage->show->plan.workers; i++) {
    if (!stage->pids[i] || waitpid(stage->pids[i], NULL, WNOHANG) != stage->pids[i]) continue;
    stage->pids[i] = 0;
    char what[TKT_DEMO_TROUBLE_SIZE + 64];
    snprintf(what, sizeof what, "worker %u ended by itself: %.*s", i + 1, TKT_DEMO_TROUBLE_SIZE,
             stage->board->seats[i].trouble);
    give_up(stage, what);
  }
  if (stage->show->server && !tkt_private_server_alive(stage->show->server))
    give_up(stage, "the lock server ended by itself; look at server.log with --keep");
}

/* Shows how things stand. The money is added up in one statement, so it is right at that instant.
 */
static void show_progress(struct stage *stage, int64_t now) {
  const struct tkt_demo_show *show = stage->show;
  char why[TKT_BANK_WHY_SIZE];
  struct tkt_demo_progress progress = {
      .plan = &show->plan,
      .board = stage->board,
      .elapsed_ns = now - stage->start,
      .planned_ns = show->seconds * TICKETING_SECOND,
      .now = now,
      .money_at_start = (int64_t)show->plan.accounts * TKT_BANK_START_BALANCE,
  };
  if (tkt_bank_total(stage->bank, &progress.money, why)) {
    tkt_demo_view_progress(show->view, &progress);
  } else {
    give_up(stage, why);
  }
}

static void watch(struct stage *stage) {
  for (int64_t now = ticketing_now_ns(); !finished(stage, now); now = ticketing_now_ns()) {
    play(stage, now);
    look_after_processes(stage);
    show_progress(stage, now);
    pause_ms(TICK_MS);
  }
}

/* Waits for the workers to finish their last transfer; who does not is killed. */
static void stop_workers(struct stage *stage) {
  atomic_store(&stage->board->stop, true);
  for (int waited = 0;; waited += TICK_MS / 10) {
    bool left = false;
    for (uint32_t i = 0; i < stage->show->plan.workers; i++) {
      pid_t pid = stage->pids[i];
      if (!pid) continue;
      if (waited >= STOP_LIMIT_MS) kill(pid, SIGKILL);
      if (waitpid(pid, NULL, WNOHANG) == pid) stage->pids[i] = 0;
      left = left || stage->pids[i];
    }
    if (!left) return;
    pause_ms(TICK_MS / 10);
  }
}

static bool start_workers(struct stage *stage) {
  for (uint32_t i = 0; i < stage->show->plan.workers; i++) {
    pid_t pid = tkt_demo_worker_start(&stage->show->plan, stage->board, i + 1);
    if (pid < 0) {
      tkt_demo_view_say(stage->show->view, TKT_DEMO_BAD, "cannot start worker %u: %s", i + 1,
                        strerror(-pid));
      return false;
    }
    stage->pids[i] = pid;
  }
  return true;
}

static void tell(void *context, bool held, const char *sentence) {
  tkt_demo_view_say(context, held ? TKT_DEMO_GOOD : TKT_DEMO_BAD, "  %-6s %s",
                    held ? "ok" : "FAILED", sentence);
}

/* Counts that are no part of the proof but show what happened on the way. */
static bool tell_counts(struct stage *stage) {
  uint64_t timeouts = 0, late_grants = 0, fenced = 0, troubles = 0;
  const char *trouble = "";
  for (uint32_t i = 0; i < stage->show->plan.workers; i++) {
    const struct tkt_demo_seat *seat = &stage->board->seats[i];
    timeouts += atomic_load(&seat->timeouts);
    late_grants += atomic_load(&seat->late_grants);
    fenced += atomic_load(&seat->fenced);
    if (atomic_load(&seat->troubles) && !troubles) trouble = seat->trouble;
    troubles += atomic_load(&seat->troubles);
  }
  if (timeouts)
    tkt_demo_view_say(stage->show->view, TKT_DEMO_PLAIN,
                      "  %llu acquires ended in a timeout while others held the lock",
                      (unsigned long long)timeouts);
  if (late_grants)
    tkt_demo_view_say(stage->show->view, TKT_DEMO_PLAIN,
                      "  %llu grants came with too little lease left and were given back",
                      (unsigned long long)late_grants);
  if (fenced)
    tkt_demo_view_say(stage->show->view, TKT_DEMO_PLAIN,
                      "  %llu writes of slow workers were refused by fencing",
                      (unsigned long long)fenced);
  if (troubles) {
    char sentence[TKT_DEMO_TROUBLE_SIZE + 64];
    snprintf(sentence, sizeof sentence, "workers: %llu operations went wrong; the first: %s",
             (unsigned long long)troubles, trouble);
    tell(stage->show->view, false, sentence);
  }
  return troubles == 0;
}

static enum tkt_demo_verdict prove(struct stage *stage) {
  const struct tkt_demo_show *show = stage->show;
  bool killed = stage->scene == LEASE_RUNS || stage->scene == LATE_WRITE_TRIED;
  struct tkt_proof_plan plan = {.database = show->plan.database,
                                .accounts = show->plan.accounts,
                                .locks = show->plan.locks,
                                .stale = killed ? &stage->board->seats[VICTIM - 1].frozen : NULL};
  tkt_demo_view_say(show->view, TKT_DEMO_PLAIN,
                    "\nThe proof, read from the database by a connection of its own:");
  bool held = tkt_demo_prove(&plan, tell, show->view);
  if (show->plan.locks && !stage->late_write_refused)
    tell(show->view, false, "fencing: the late write was not seen to be refused");
  if (!tell_counts(stage) || stage->broken) held = false;
  if (show->plan.locks && !stage->late_write_refused) held = false;
  return held ? TKT_DEMO_HELD : TKT_DEMO_DID_NOT_HOLD;
}

enum tkt_demo_verdict tkt_demo_show_run(const struct tkt_demo_show *show) {
  struct stage stage = {.show = show, .scene = show->plan.locks ? BEFORE_KILL : NO_DRAMA};
  char why[TKT_BANK_WHY_SIZE];
  void *memory =
      mmap(NULL, sizeof *stage.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    tkt_demo_view_say(show->view, TKT_DEMO_BAD, "no shared memory: %s", strerror(errno));
    return TKT_DEMO_NO_SYSTEM;
  }
  stage.board = memory; /* zeroed: everybody is starting */
  stage.start = ticketing_now_ns();
  /* The connection is opened after the forks: SQLite connections do not survive one. */
  bool started = start_workers(&stage);
  enum tkt_demo_verdict verdict = TKT_DEMO_NO_SYSTEM;
  if (started && tkt_bank_open(show->plan.database, &stage.bank, why)) {
    watch(&stage);
    verdict = TKT_DEMO_BROKE_OFF;
  } else if (started) {
    give_up(&stage, why);
  }
  stop_workers(&stage);
  if (verdict == TKT_DEMO_BROKE_OFF) show_progress(&stage, ticketing_now_ns());
  tkt_bank_close(stage.bank);
  tkt_demo_view_close(show->view);
  if (verdict == TKT_DEMO_BROKE_OFF && !tkt_interrupted()) verdict = prove(&stage);
  munmap(memory, sizeof *stage.board);
  return verdict;
}
