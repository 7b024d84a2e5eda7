#include "drive/broker.h"

#include "drive/link.h"
#include "drive/op.h"
#include "drive/turn.h"
#include "net/clock.h"
#include "net/crypto_exit.h"

#include <sched.h>
#include <stdlib.h>

static void guard_poller(struct tkt_broker *broker) {
  tkt_fork_guard_note(&broker->guard, broker->poller.fd);
  tkt_fork_guard_note(&broker->guard, broker->poller.timer_fd);
  tkt_fork_guard_note(&broker->guard, broker->poller.wake_fd);
}

static void destroy(struct tkt_broker *broker) {
  if (broker->client) tkt_client_free(broker->client);
  tkt_links_bury(broker);
  tkt_poller_close(&broker->poller);
  tkt_fork_guard_release(&broker->guard);
  tkt_op_store_release(&broker->ops);
  tkt_trust_close(&broker->trust);
  tkt_resolver_free(broker->resolver);
  free(broker->read_buffer);
  free(broker);
}

static int fill(struct tkt_broker *broker, const struct tkt_client_config *config,
                const struct tkt_trust *trust) {
  tkt_crypto_outlives_exit();
  if (tkt_fork_guard_init(&broker->guard) != 0) return TKT_DRIVE_SYSTEM;
  if (tkt_poller_open(&broker->poller) != 0) return TKT_DRIVE_SYSTEM;
  guard_poller(broker);
  struct tkt_client_config seeded = *config;
  if (!tkt_entropy(seeded.seed, sizeof seeded.seed)) return TKT_DRIVE_SYSTEM;
  if (trust && !tkt_trust_copy(&broker->trust, trust)) return TKT_NO_MEMORY;
  broker->resolver = tkt_resolver_new();
  broker->read_buffer = malloc(TKT_READ_SIZE);
  broker->client = tkt_client_new(&seeded, tkt_clock_now());
  if (!broker->resolver || !broker->read_buffer || !broker->client) return TKT_NO_MEMORY;
  if (broker->trust.tls && broker->trust.mode == TKT_TLS_SKIP_VERIFY)
    tkt_client_note(broker->client, TKT_LOG_WARNING,
                    "TLS without verification: whoever answers is trusted (for tests only)");
  /* Makes the descriptor readable: the first turn dials. */
  tkt_poller_wake(&broker->poller);
  if (broker->mode == TKT_IO_THREAD && tkt_io_thread_start(broker) != 0) return TKT_DRIVE_SYSTEM;
  return TKT_OK;
}

int tkt_broker_open(const struct tkt_client_config *config, enum tkt_io_mode mode,
                    const struct tkt_trust *trust, struct tkt_broker **broker_out) {
  *broker_out = NULL;
  struct tkt_broker *broker = calloc(1, sizeof *broker);
  if (!broker) return TKT_NO_MEMORY;
  broker->poller.fd = broker->poller.timer_fd = broker->poller.wake_fd = -1;
  broker->mode = mode;
  atomic_init(&broker->refs, 1);
  tkt_op_store_init(&broker->ops);
  tkt_list_init(&broker->links);
  tkt_list_init(&broker->graveyard);
  tkt_list_init(&broker->live);
  int rc = fill(broker, config, trust);
  if (rc != TKT_OK) {
    destroy(broker);
    return rc;
  }
  *broker_out = broker;
  return TKT_OK;
}

void tkt_broker_unref(struct tkt_broker *broker) {
  if (atomic_fetch_sub_explicit(&broker->refs, 1, memory_order_acq_rel) == 1) destroy(broker);
}

void tkt_broker_free(struct tkt_broker *broker) {
  if (broker->mode == TKT_IO_CALLER) {
    tkt_caller_tear_down(broker);
  } else {
    tkt_broker_kick(broker,
                    tkt_inbox_push(&broker->inbox, &broker->node, TKT_COMMAND_BROKER_CLOSE));
  }
  tkt_broker_unref(broker);
}

void tkt_broker_free_in_child(struct tkt_broker *broker) {
  tkt_fork_guard_close_inherited(&broker->guard);
}

/* Takes the lock, or leaves word that it was wanted. */
static bool try_or_tell(struct tkt_broker *broker) {
  if (tkt_lock_try(&broker->lock)) return true;
  atomic_store(&broker->missed, true);
  return tkt_lock_try(&broker->lock); /* for a holder who left before he could read it */
}

void tkt_broker_work(struct tkt_broker *broker) {
  for (int round = 0; round < TKT_COMBINE_ROUNDS; round++) {
    if (tkt_inbox_empty(&broker->inbox) || !try_or_tell(broker)) return;
    struct tkt_ended ended = {0};
    atomic_store(&broker->missed, false);
    tkt_turn(broker, NULL, 0, false, &ended);
    tkt_lock_give(&broker->lock);
    tkt_deliver(&ended);
    if (!atomic_load(&broker->missed)) return;
  }
  /* Others keep asking: the I/O thread takes over, so that this caller gets on. */
  tkt_poller_wake(&broker->poller);
}

void tkt_broker_look_again(struct tkt_broker *broker) {
  if (atomic_load(&broker->missed)) tkt_broker_work(broker);
}

void tkt_broker_kick(struct tkt_broker *broker, enum tkt_pushed pushed) {
  if (pushed != TKT_PUSH_FIRST) return;
  if (broker->mode == TKT_IO_CALLER && !atomic_load(&broker->dead)) {
    if (atomic_load(&broker->exposed) || atomic_load(&broker->sleeping))
      tkt_poller_wake(&broker->poller);
    return;
  }
  if (atomic_load(&broker->rousing)) return;
  /* Where other threads wait, some were woken together with this one: they add theirs first, so
   * that one system call carries all. */
  if (atomic_load_explicit(&broker->waiting, memory_order_relaxed) > 0) sched_yield();
  tkt_broker_work(broker);
}

int tkt_broker_fd(struct tkt_broker *broker) {
  if (broker->mode != TKT_IO_CALLER) return -1;
  atomic_store(&broker->exposed, true);
  if (!tkt_inbox_empty(&broker->inbox)) tkt_poller_wake(&broker->poller);
  return broker->poller.fd;
}

size_t tkt_broker_counters(struct tkt_broker *broker, struct tkt_counter *out, size_t room) {
  tkt_lock_take(&broker->lock);
  size_t count = tkt_client_counters(broker->client, out, room);
  const struct tkt_counter ours[] = {
      {"tickets_taken_too_late", atomic_load(&broker->late_takes)},
      {"tls_unverified_sessions", broker->unverified},
      {"tls_ca_files_taken", broker->trust.renewed},
      {"tls_ca_files_refused", broker->trust.refused},
  };
  tkt_lock_give(&broker->lock);
  tkt_broker_look_again(broker);
  enum { OURS = sizeof ours / sizeof *ours };
  for (size_t i = 0; i < OURS && count + i < room; i++)
    out[count + i] = ours[i];
  return count + OURS;
}

bool tkt_broker_log_next(struct tkt_broker *broker, struct tkt_log_entry *entry_out) {
  tkt_lock_take(&broker->lock);
  bool any = tkt_client_log_next(broker->client, entry_out);
  tkt_lock_give(&broker->lock);
  tkt_broker_look_again(broker);
  return any;
}
