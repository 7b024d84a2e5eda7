/* Many locks at once on one thread: an epoll loop of your own, the broker in CALLER mode.
 *
 *     epoll HOST:PORT ROUNDS KEY...
 *
 * For each KEY, ROUNDS times: acquire, "work" until a timer of the loop ends, release. All keys are
 * under way together. The library adds two descriptors to your loop and nothing else:
 *
 *   the broker's  readable while it has something to do: call ticketing_broker_dispatch
 *   the queue's   readable while operations have ended: call ticketing_queue_next
 *
 *     cc epoll.c $(pkg-config --cflags --libs libticketing) */
#include <ticketing.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* How long the work on a key takes. */
#define WORK_NS 2000000

/* One key and where it stands. At each moment one thing is under way: an operation that reports to
 * the queue, or the timer of the work. */
struct task {
  ticketing_key key;
  long rounds_left;
  ticketing_ticket *ticket; /* held, or NULL */
  int timer_fd;
};

struct loop {
  int epoll_fd;
  ticketing_broker *broker;
  ticketing_queue *queue;
  int tasks_left;
  int failures;
};

static void say(const struct task *task, const char *what, const ticketing_op *op, int rc) {
  char message[TICKETING_MESSAGE_SIZE];
  ticketing_op_message(op, message, sizeof message);
  fprintf(stderr, "%s: %s: %s: %s\n", task->key.data, what, ticketing_error_name(rc), message);
}

static void end_task(struct loop *loop, int failed) {
  loop->tasks_left--;
  loop->failures += failed;
}

static void start_acquire(struct loop *loop, struct task *task) {
  ticketing_acquire_params params = TICKETING_ACQUIRE_PARAMS_INIT;
  ticketing_op *op;
  char message[TICKETING_MESSAGE_SIZE];
  params.keys = &task->key;
  params.key_count = 1;
  params.wait_ns = 20 * TICKETING_SECOND;
  params.lease_ns = 30 * TICKETING_SECOND;
  params.budget_ns = 1 * TICKETING_SECOND;
  /* Nothing blocks here; `task` comes back from ticketing_op_user when the op has ended. */
  int rc = ticketing_acquire_start(loop->broker, &params, loop->queue, task, &op, message);
  if (rc != TICKETING_OK) {
    fprintf(stderr, "%s: %s\n", task->key.data, message);
    end_task(loop, 1);
  }
}

static void on_acquired(struct loop *loop, struct task *task, ticketing_op *op) {
  /* Taken here, where the work begins, so that the clock decides with the time that is left. */
  int rc = ticketing_op_take_ticket(op, &task->ticket);
  if (rc != TICKETING_OK) {
    say(task, "acquire", op, rc);
    end_task(loop, 1);
    return;
  }
  printf("%s token %" PRIu64 "\n", task->key.data, ticketing_ticket_token(task->ticket));
  struct itimerspec work;
  memset(&work, 0, sizeof work);
  work.it_value.tv_nsec = WORK_NS;
  timerfd_settime(task->timer_fd, 0, &work, NULL);
}

static void on_work_done(struct loop *loop, struct task *task) {
  uint64_t expirations;
  if (read(task->timer_fd, &expirations, sizeof expirations) < 0) return;
  ticketing_op *op;
  int rc = ticketing_ticket_release_start(task->ticket, loop->queue, task, &op);
  if (rc != TICKETING_OK) {
    fprintf(stderr, "%s: %s\n", task->key.data, ticketing_error_text(rc));
    ticketing_ticket_free(task->ticket); /* releases in the background */
    end_task(loop, 1);
  }
}

static void on_released(struct loop *loop, struct task *task, ticketing_op *op) {
  int rc = ticketing_op_status(op);
  if (rc != TICKETING_OK) say(task, "release", op, rc);
  ticketing_ticket_free(task->ticket);
  task->ticket = NULL;
  if (rc == TICKETING_OK && --task->rounds_left > 0)
    start_acquire(loop, task);
  else
    end_task(loop, rc != TICKETING_OK);
}

/* Everything that has ended. */
static void drain_queue(struct loop *loop) {
  ticketing_op *op;
  while (ticketing_queue_next(loop->queue, &op) == TICKETING_OK) {
    struct task *task = ticketing_op_user(op);
    if (ticketing_op_kind(op) == TICKETING_OP_ACQUIRE)
      on_acquired(loop, task, op);
    else if (ticketing_op_kind(op) == TICKETING_OP_RELEASE)
      on_released(loop, task, op);
    ticketing_op_free(op);
  }
}

static int watch(int epoll_fd, int fd, void *source) {
  struct epoll_event event;
  memset(&event, 0, sizeof event);
  event.events = EPOLLIN;
  event.data.ptr = source;
  return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* One turn of the loop. 0, or -1 where it cannot go on. */
static int turn(struct loop *loop) {
  struct epoll_event events[16];
  int count = epoll_wait(loop->epoll_fd, events, 16, -1);
  for (int i = 0; i < count; i++) {
    void *source = events[i].data.ptr;
    if (source == loop->broker) {
      int rc = ticketing_broker_dispatch(loop->broker, 0);
      if (rc < 0 && rc != TICKETING_E_INTERRUPTED) {
        fprintf(stderr, "dispatch: %s\n", ticketing_error_text(rc));
        return -1;
      }
    } else if (source != loop->queue) {
      on_work_done(loop, source);
    }
  }
  drain_queue(loop);
  /* What was started in this turn leaves now, not with the next one. */
  ticketing_broker_flush(loop->broker);
  return 0;
}

static int open_broker(const char *address, ticketing_broker **broker_out) {
  ticketing_options *options;
  int rc = ticketing_options_new(&options);
  if (rc != TICKETING_OK) return rc;
  rc = ticketing_options_add_address(options, address);
  if (rc != TICKETING_OK) fprintf(stderr, "%s\n", ticketing_options_message(options));
  if (rc == TICKETING_OK) rc = ticketing_options_set_io_mode(options, TICKETING_IO_CALLER);
  if (rc == TICKETING_OK) rc = ticketing_broker_open(options, broker_out);
  ticketing_options_free(options);
  return rc;
}

int main(int argc, char **argv) {
  if (argc < 4 || atol(argv[2]) < 1) {
    fprintf(stderr, "usage: %s HOST:PORT ROUNDS KEY...\n", argv[0]);
    return 2;
  }
  struct loop loop;
  memset(&loop, 0, sizeof loop);
  int rc = open_broker(argv[1], &loop.broker);
  if (rc == TICKETING_OK) rc = ticketing_queue_new(loop.broker, &loop.queue);
  if (rc != TICKETING_OK) {
    fprintf(stderr, "%s; %s\n", ticketing_error_text(rc), ticketing_error_advice(rc));
    ticketing_broker_free(loop.broker);
    return 1;
  }
  loop.tasks_left = argc - 3;
  struct task *tasks = calloc((size_t)loop.tasks_left, sizeof *tasks);
  loop.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (!tasks || loop.epoll_fd < 0 ||
      watch(loop.epoll_fd, ticketing_broker_fd(loop.broker), loop.broker) != 0 ||
      watch(loop.epoll_fd, ticketing_queue_fd(loop.queue), loop.queue) != 0) {
    perror("epoll");
    return 1;
  }
  for (int i = 0; i < argc - 3; i++) {
    struct task *task = &tasks[i];
    task->key.data = argv[3 + i];
    task->key.len = strlen(argv[3 + i]);
    task->rounds_left = atol(argv[2]);
    task->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    if (task->timer_fd < 0 || watch(loop.epoll_fd, task->timer_fd, task) != 0) {
      perror("timerfd");
      return 1;
    }
    start_acquire(&loop, task);
  }
  ticketing_broker_flush(loop.broker);

  while (loop.tasks_left > 0 && turn(&loop) == 0) {
  }

  /* In CALLER mode the blocking close dispatches by itself; a loop that must not stand still starts
   * it with ticketing_broker_close_start and goes on turning until that op has ended. */
  ticketing_broker_close(loop.broker);
  for (int i = 0; i < argc - 3; i++) {
    ticketing_ticket_free(tasks[i].ticket);
    close(tasks[i].timer_fd);
  }
  free(tasks);
  close(loop.epoll_fd);
  ticketing_queue_free(loop.queue);
  ticketing_broker_free(loop.broker);
  return loop.failures || loop.tasks_left ? 1 : 0;
}
