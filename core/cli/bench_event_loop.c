/* The event-loop workload: one thread, one completion queue.
 *
 * In CALLER mode a turn is dispatch (reads replies), the queue drained (each ended op starts the
 * next step of its task), flush (everything started leaves in one write a session): the fewest
 * system calls a turn can have. Where the broker has an I/O thread, a turn is poll on the queue's
 * descriptor and the queue drained, as in an event loop that has other things to do. */
#include "cli/bench.h"
#include "cli/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

/* The clock and the terminal are looked at once in so many turns. */
enum { PROGRESS_TURNS = 64 };

struct task {
  ticketing_op *op;         /* under way, or NULL */
  ticketing_ticket *ticket; /* held, or NULL */
  int64_t begun_ns;
  ticketing_key key;
  ticketing_acquire_params params;
  char text[TKT_BENCH_KEY_SIZE];
};

struct loop {
  const struct tkt_bench_plan *plan;
  struct tkt_bench_result *result;
  ticketing_broker *broker;
  ticketing_queue *queue;
  struct task *tasks;
  uint64_t begun;
  uint64_t ended;
  int64_t now; /* of this turn: everything a turn sees happened at its dispatch */
};

static bool given_up(const struct loop *loop) {
  return loop->result->cost >= TKT_BENCH_PATIENCE || tkt_interrupted();
}

static bool may_begin(const struct loop *loop) {
  return loop->begun < loop->plan->cycles && !given_up(loop);
}

static void fail_cycle(struct loop *loop, const ticketing_op *op, int code, const char *message) {
  char text[TICKETING_MESSAGE_SIZE];
  if (op && loop->result->failed == 0) {
    ticketing_op_message(op, text, sizeof text);
    message = text;
  }
  tkt_bench_count_failure(loop->result, code, message);
  loop->ended++;
}

/* Starts the next cycle of the task, if one is left; goes on with further ones where a start is
 * refused, so that the task does not fall asleep. */
static void begin_cycle(struct loop *loop, struct task *task) {
  while (may_begin(loop)) {
    loop->begun++;
    task->begun_ns = loop->now;
    char why[TICKETING_MESSAGE_SIZE];
    int rc =
        ticketing_acquire_start(loop->broker, &task->params, loop->queue, task, &task->op, why);
    if (rc == TICKETING_OK) return;
    task->op = NULL;
    fail_cycle(loop, NULL, rc, why);
  }
}

static void end_ticket(struct task *task) {
  ticketing_ticket_free(task->ticket);
  task->ticket = NULL;
}

/* An acquire ended: with a grant its release starts, without one the cycle failed. */
static void on_acquire(struct loop *loop, struct task *task, ticketing_op *op) {
  int rc = ticketing_op_take_ticket(op, &task->ticket);
  if (rc == TICKETING_OK) {
    ticketing_op_free(op);
    rc = ticketing_ticket_release_start(task->ticket, loop->queue, task, &task->op);
    if (rc == TICKETING_OK) return;
    task->op = NULL;
    fail_cycle(loop, NULL, rc, NULL);
    end_ticket(task);
  } else {
    fail_cycle(loop, op, rc, NULL);
    ticketing_op_free(op);
  }
  begin_cycle(loop, task);
}

static void on_release(struct loop *loop, struct task *task, ticketing_op *op) {
  int rc = ticketing_op_status(op);
  if (rc == TICKETING_OK) {
    tkt_histogram_add(&loop->result->cycle, loop->now - task->begun_ns);
    loop->ended++;
  } else {
    fail_cycle(loop, op, rc, NULL);
  }
  ticketing_op_free(op);
  end_ticket(task);
  begin_cycle(loop, task);
}

static void drain(struct loop *loop) {
  ticketing_op *op;
  while (ticketing_queue_next(loop->queue, &op) == TICKETING_OK) {
    struct task *task = ticketing_op_user(op);
    task->op = NULL;
    if (ticketing_op_kind(op) == TICKETING_OP_ACQUIRE) {
      on_acquire(loop, task, op);
    } else {
      on_release(loop, task, op);
    }
  }
}

/* TICKETING_OK once there may be something in the queue. */
static int wait_for_ends(struct loop *loop) {
  if (loop->plan->io_mode == TICKETING_IO_CALLER) {
    int rc = ticketing_broker_dispatch(loop->broker, TICKETING_FOREVER);
    return rc < 0 && rc != TICKETING_E_INTERRUPTED ? rc : TICKETING_OK;
  }
  struct pollfd ended = {.fd = ticketing_queue_fd(loop->queue), .events = POLLIN};
  return poll(&ended, 1, -1) < 0 && errno != EINTR ? TICKETING_E_SYSTEM : TICKETING_OK;
}

static void send_started(struct loop *loop) {
  if (loop->plan->io_mode == TICKETING_IO_CALLER) ticketing_broker_flush(loop->broker);
}

static void run(struct loop *loop) {
  const struct tkt_bench_plan *plan = loop->plan;
  struct tkt_bench_progress progress = {0};
  loop->now = ticketing_now_ns();
  tkt_bench_clock_start(loop->result, loop->now);
  for (uint32_t i = 0; i < plan->tasks; i++)
    begin_cycle(loop, &loop->tasks[i]);
  send_started(loop);
  /* Ends when nothing is under way, for then nothing may begin either. */
  for (unsigned turn = 0; loop->ended < loop->begun && !given_up(loop); turn++) {
    int rc = wait_for_ends(loop);
    if (rc != TICKETING_OK) {
      tkt_bench_count_failure(loop->result, rc, NULL);
      break;
    }
    loop->now = ticketing_now_ns();
    drain(loop);
    send_started(loop);
    if (turn % PROGRESS_TURNS == 0) tkt_bench_progress(&progress, plan, loop->ended, loop->now);
  }
  tkt_bench_clock_stop(loop->result, loop->now);
  tkt_bench_progress_end(&progress);
}

static int prepare(struct loop *loop) {
  loop->tasks = calloc(loop->plan->tasks, sizeof *loop->tasks);
  if (!loop->tasks) return TICKETING_E_NO_MEMORY;
  for (uint32_t i = 0; i < loop->plan->tasks; i++) {
    struct task *task = &loop->tasks[i];
    tkt_bench_params(i % loop->plan->keys, task->text, &task->key, &task->params);
  }
  return ticketing_queue_new(loop->broker, &loop->queue);
}

int tkt_bench_cycle_event_loop(const struct tkt_bench_plan *plan, struct tkt_bench_result *result) {
  struct loop loop = {.plan = plan, .result = result};
  int rc = tkt_bench_connect(plan, result, &loop.broker);
  if (rc != TICKETING_OK) return rc;
  rc = prepare(&loop);
  if (rc == TICKETING_OK) {
    run(&loop);
  } else {
    tkt_bench_count_failure(result, rc, NULL);
  }
  /* A run that was given up leaves ops and tickets; freeing them releases what they hold. */
  for (uint32_t i = 0; loop.tasks && i < plan->tasks; i++) {
    ticketing_op_free(loop.tasks[i].op);
    end_ticket(&loop.tasks[i]);
  }
  free(loop.tasks);
  ticketing_queue_free(loop.queue);
  ticketing_broker_close(loop.broker);
  ticketing_broker_free(loop.broker);
  return rc;
}
