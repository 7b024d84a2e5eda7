/* The worker processes of the demo, and the board in shared memory on which they tell the watching
 * process what they do. */
#ifndef TKT_CLI_DEMO_WORKER_H
#define TKT_CLI_DEMO_WORKER_H

#include "cli/demo_bank.h"

#include <stdatomic.h>
#include <sys/types.h>

enum {
  TKT_DEMO_WORKERS_MAX = 64,
  TKT_DEMO_TROUBLE_SIZE = 512,
  /* Queueing comes off the lease: wait, 1 s of rounding and the time of the work must fit in it. */
  TKT_DEMO_WAIT_S = 1,
  TKT_DEMO_LEASE_S = 3,
  TKT_DEMO_BUDGET_MS = 500,
};

enum tkt_demo_state {
  TKT_DEMO_STARTING,
  TKT_DEMO_WAITING, /* for the lock of the first account named, or the second */
  TKT_DEMO_INSIDE,  /* in its critical section */
  TKT_DEMO_FROZEN,  /* stands still in it, as it was asked to; `frozen` is filled in */
  TKT_DEMO_KILLED,  /* set by the watching process */
  TKT_DEMO_ENDED,
};

/* One a worker: it writes, the watching process reads (but for freeze_wanted and the kill). */
struct tkt_demo_seat {
  atomic_int state;
  atomic_bool freeze_wanted;
  _Atomic uint32_t source, target;
  _Atomic uint64_t transfers;
  _Atomic uint64_t timeouts;    /* a lock was held by others for the whole wait */
  _Atomic uint64_t late_grants; /* a grant came with too little lease left, and was given back */
  _Atomic uint64_t fenced;      /* a write of its own was refused by fencing */
  _Atomic uint64_t troubles;    /* anything else that went wrong; `trouble` tells the first */
  char trouble[TKT_DEMO_TROUBLE_SIZE];
  struct tkt_transfer frozen; /* the transfer it was about to write */
  int64_t frozen_until_ns; /* end of its lease as the worker counts it, ticketing_now_ns's clock */
};

struct tkt_demo_board {
  atomic_bool stop;
  struct tkt_demo_seat seats[TKT_DEMO_WORKERS_MAX];
};

struct tkt_demo_plan {
  const char *address; /* of the lock server; not used without locks */
  const char *database;
  uint32_t workers;
  uint32_t accounts;
  bool locks;
};

/* Starts worker `number` (from 1), which sits at board->seats[number - 1] until board->stop, its
 * death, or that of the calling thread. Its pid, or -errno. */
pid_t tkt_demo_worker_start(const struct tkt_demo_plan *plan, struct tkt_demo_board *board,
                            uint32_t number);

#endif
