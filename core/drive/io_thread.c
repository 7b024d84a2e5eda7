#include "drive/broker.h"
#include "drive/turn.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

/* Callers woken together come back together: what they ask while the others are still being woken
 * waits for the last one, so that one system call carries all. */
static void report(struct tkt_broker *broker, struct tkt_ended *ended) {
  if (ended->count < 2) {
    tkt_deliver(ended);
    tkt_broker_look_again(broker);
    return;
  }
  atomic_store(&broker->rousing, true);
  tkt_deliver(ended);
  sched_yield();
  atomic_store(&broker->rousing, false);
  tkt_broker_work(broker);
}

/* Ends once the broker is dead; nobody joins it and process exit does not wait for it. */
static void *run(void *argument) {
  struct tkt_broker *broker = argument;
  struct tkt_poll_event events[TKT_POLL_ROOM];
  int count = 0;
  for (;;) {
    struct tkt_ended ended = {0};
    tkt_lock_take(&broker->lock);
    tkt_turn(broker, events, count, true, &ended);
    tkt_lock_give(&broker->lock);
    report(broker, &ended);
    if (atomic_load(&broker->dead)) break;
    count = tkt_poller_wait(&broker->poller, events, TKT_POLL_ROOM, true);
    if (count < 0) count = 0;
  }
  tkt_broker_unref(broker);
  return NULL;
}

int tkt_io_thread_start(struct tkt_broker *broker) {
  pthread_attr_t attributes;
  pthread_t thread;
  sigset_t all, before;
  int rc = pthread_attr_init(&attributes);
  if (rc != 0) return -rc;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  /* The host's signals are handled by the host's threads. */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  tkt_broker_ref(broker);
  rc = pthread_create(&thread, &attributes, run, broker);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  if (rc != 0) {
    atomic_fetch_sub(&broker->refs, 1);
    return -rc;
  }
  pthread_setname_np(thread, "ticketing-io");
  return 0;
}
