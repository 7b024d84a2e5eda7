/* One worker: it knows the bank, its locks and nothing of the others. What it does here is what a
 * program that uses libticketing does.
 *
 * Every account has a lock of its own, and a transfer takes both in the order of their numbers. One
 * lock for the pair would not do: 1-2 and 2-3 are different pairs with an account in common. The
 * fixed order is what keeps two workers from waiting for each other. */
#include "cli/demo_worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <ticketing.h>
#include <time.h>
#include <unistd.h>

enum {
  READY_LIMIT_S = 10,
  TROUBLE_PAUSE_MS = 100,
  /* Long enough that two workers without locks surely meet, short enough to be lively. */
  THINK_LEAST_US = 500,
  THINK_RANGE_US = 2500,
  AMOUNT_MAX = 100,
  /* After a wait in vain a worker passes locked accounts by for so long: somebody may have died. */
  HURRY_S = 2,
  SKIP_PAUSE_US = 1000,
  KEY_SIZE = 32,
};

struct worker {
  const struct tkt_demo_plan *plan;
  struct tkt_demo_board *board;
  struct tkt_demo_seat *seat;
  uint32_t number;
  unsigned short random[3];
  int64_t hurry_until_ns;
  ticketing_broker *broker; /* NULL without locks */
  struct tkt_bank *bank;
};

static void pause_us(int64_t us) {
  struct timespec t = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&t, NULL);
}

static uint32_t draw(struct worker *w, uint32_t bound) {
  return (uint32_t)nrand48(w->random) % bound;
}

static void say_trouble(struct worker *w, const char *what) {
  if (atomic_load(&w->seat->troubles) == 0)
    snprintf(w->seat->trouble, sizeof w->seat->trouble, "%s", what);
  atomic_fetch_add(&w->seat->troubles, 1);
  pause_us(TROUBLE_PAUSE_MS * 1000);
}

/* The ticket of one account, or NULL: this transfer is not to be. */
static ticketing_ticket *lock_account(struct worker *w, uint32_t account) {
  char text[KEY_SIZE], message[TICKETING_MESSAGE_SIZE] = "";
  ticketing_key key = {text, (size_t)snprintf(text, sizeof text, "account-%u", account)};
  ticketing_acquire_params params = TICKETING_ACQUIRE_PARAMS_INIT;
  params.keys = &key;
  params.key_count = 1;
  bool hurry = ticketing_now_ns() < w->hurry_until_ns;
  params.wait_ns = hurry ? 0 : TKT_DEMO_WAIT_S * TICKETING_SECOND;
  params.lease_ns = TKT_DEMO_LEASE_S * TICKETING_SECOND;
  params.budget_ns = TKT_DEMO_BUDGET_MS * TICKETING_MILLISECOND;
  ticketing_ticket *ticket = NULL;
  int rc = ticketing_acquire(w->broker, &params, &ticket, message);
  if (rc == TICKETING_E_TIMEOUT && hurry) {
    pause_us(SKIP_PAUSE_US);
  } else if (rc == TICKETING_E_TIMEOUT) {
    w->hurry_until_ns = ticketing_now_ns() + HURRY_S * TICKETING_SECOND;
    atomic_fetch_add(&w->seat->timeouts, 1);
  } else if (rc == TICKETING_E_INSUFFICIENT_LEASE) {
    atomic_fetch_add(&w->seat->late_grants, 1);
  } else if (rc != TICKETING_OK) {
    say_trouble(w, message);
  }
  return ticket;
}

static void unlock_account(struct worker *w, ticketing_ticket *ticket) {
  if (!ticket) return;
  char message[TICKETING_MESSAGE_SIZE] = "";
  /* NOT_CURRENT: the lease ended first. No harm, the fence kept the order. */
  if (ticketing_ticket_release(ticket, message) < 0) say_trouble(w, message);
  ticketing_ticket_free(ticket);
}

/* Stands still with both locks held and both balances read: the worst moment to die. */
static void freeze(struct worker *w, const struct tkt_transfer *transfer, int64_t until_ns) {
  w->seat->frozen = *transfer;
  w->seat->frozen_until_ns = until_ns;
  atomic_store(&w->seat->state, TKT_DEMO_FROZEN);
  while (!atomic_load(&w->board->stop))
    pause_us(10000);
}

/* Read, think, write. `until_ns`: when the tickets end. */
static void critical_section(struct worker *w, struct tkt_transfer *transfer, int64_t until_ns) {
  char why[TKT_BANK_WHY_SIZE];
  if (!tkt_bank_read(w->bank, transfer, why)) {
    say_trouble(w, why);
    return;
  }
  int64_t most = transfer->source_balance < AMOUNT_MAX ? transfer->source_balance : AMOUNT_MAX;
  if (most <= 0) return;
  transfer->amount = 1 + draw(w, (uint32_t)most);
  if (atomic_load(&w->seat->freeze_wanted)) freeze(w, transfer, until_ns);
  pause_us(THINK_LEAST_US + draw(w, THINK_RANGE_US));

  /* A holder looks at the clock before it writes; the fence is for those who cannot. */
  if (ticketing_now_ns() >= until_ns) return;
  switch (tkt_bank_write(w->bank, transfer, why)) {
  case TKT_BANK_WRITTEN:
    atomic_fetch_add(&w->seat->transfers, 1);
    break;
  case TKT_BANK_FENCED:
    atomic_fetch_add(&w->seat->fenced, 1);
    break;
  case TKT_BANK_BROKEN:
    say_trouble(w, why);
    break;
  }
}

static int64_t earlier(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static void locked_transfer(struct worker *w, struct tkt_transfer *transfer) {
  bool source_first = transfer->source < transfer->target;
  atomic_store(&w->seat->state, TKT_DEMO_WAITING);
  ticketing_ticket *first = lock_account(w, source_first ? transfer->source : transfer->target);
  ticketing_ticket *second =
      first ? lock_account(w, source_first ? transfer->target : transfer->source) : NULL;
  if (second) {
    const ticketing_ticket *source = source_first ? first : second;
    const ticketing_ticket *target = source_first ? second : first;
    transfer->source_token = ticketing_ticket_token(source);
    transfer->target_token = ticketing_ticket_token(target);
    atomic_store(&w->seat->state, TKT_DEMO_INSIDE);
    critical_section(
        w, transfer,
        earlier(ticketing_ticket_valid_until_ns(source), ticketing_ticket_valid_until_ns(target)));
  }
  unlock_account(w, second);
  unlock_account(w, first);
}

static void work(struct worker *w) {
  while (!atomic_load(&w->board->stop)) {
    struct tkt_transfer transfer = {.worker = w->number};
    transfer.source = 1 + draw(w, w->plan->accounts);
    transfer.target = 1 + draw(w, w->plan->accounts - 1);
    if (transfer.target >= transfer.source) transfer.target++;
    atomic_store(&w->seat->source, transfer.source);
    atomic_store(&w->seat->target, transfer.target);
    if (w->plan->locks) {
      locked_transfer(w, &transfer);
    } else {
      atomic_store(&w->seat->state, TKT_DEMO_INSIDE);
      critical_section(w, &transfer, INT64_MAX);
    }
  }
}

static bool connect_broker(struct worker *w) {
  int rc = ticketing_connect(w->plan->address, &w->broker);
  if (rc == TICKETING_OK)
    rc = ticketing_broker_wait_ready(w->broker, READY_LIMIT_S * TICKETING_SECOND);
  if (rc == TICKETING_OK) return true;
  char what[TKT_DEMO_TROUBLE_SIZE];
  snprintf(what, sizeof what, "no session with the lock server: %s", ticketing_error_text(rc));
  say_trouble(w, what);
  return false;
}

static void be_worker(const struct tkt_demo_plan *plan, struct tkt_demo_board *board,
                      uint32_t number) {
  struct worker w = {
      .plan = plan, .board = board, .seat = &board->seats[number - 1], .number = number};
  w.random[0] = (unsigned short)number;
  w.random[1] = (unsigned short)getpid();
  w.random[2] = (unsigned short)ticketing_now_ns();
  char why[TKT_BANK_WHY_SIZE];
  if (!tkt_bank_open(plan->database, &w.bank, why)) {
    say_trouble(&w, why);
  } else if (!plan->locks || connect_broker(&w)) {
    work(&w);
  }
  tkt_bank_close(w.bank);
  if (w.broker) ticketing_broker_close(w.broker);
  ticketing_broker_free(w.broker);
  atomic_store(&w.seat->state, TKT_DEMO_ENDED);
}

pid_t tkt_demo_worker_start(const struct tkt_demo_plan *plan, struct tkt_demo_board *board,
                            uint32_t number) {
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid < 0) return -errno;
  if (pid > 0) return pid;
  /* Ctrl-C reaches the whole terminal group: the watching process stops the workers in good order.
   */
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  signal(SIGTERM, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent) be_worker(plan, board, number);
  _exit(0);
}
