/* Between the public handles and the objects behind them, and the checks every entry makes. */
#ifndef TKT_ABI_HANDLES_H
#define TKT_ABI_HANDLES_H

#include "drive/broker.h"
#include "drive/op.h"
#include "drive/queue.h"

#include <ticketing.h>

static inline struct tkt_broker *tkt_broker_of(const ticketing_broker *handle) {
  return (struct tkt_broker *)(uintptr_t)handle;
}
static inline struct tkt_queue *tkt_queue_of(const ticketing_queue *handle) {
  return (struct tkt_queue *)(uintptr_t)handle;
}
static inline struct tkt_op *tkt_op_of(const ticketing_op *handle) {
  return (struct tkt_op *)(uintptr_t)handle;
}
static inline struct tkt_lent *tkt_lent_of(const ticketing_ticket *handle) {
  return (struct tkt_lent *)(uintptr_t)handle;
}
static inline ticketing_op *tkt_op_handle(struct tkt_op *op) {
  return (ticketing_op *)(void *)op;
}

/* TICKETING_OK, or what an entry with this handle answers at once: E_INVALID_ARGUMENT for NULL,
 * E_FORKED in a child of the process that opened the broker. */
static inline int tkt_check_broker(const struct tkt_broker *broker) {
  if (!broker) return TICKETING_E_INVALID_ARGUMENT;
  return tkt_broker_forked(broker) ? TICKETING_E_FORKED : TICKETING_OK;
}
static inline int tkt_check_queue(const struct tkt_queue *queue) {
  return tkt_check_broker(queue ? queue->broker : NULL);
}
static inline int tkt_check_op(const struct tkt_op *op) {
  return tkt_check_broker(op ? op->broker : NULL);
}
static inline int tkt_check_lent(const struct tkt_lent *lent) {
  return tkt_check_broker(lent ? tkt_lent_op(lent)->broker : NULL);
}

/* Puts `text` into a caller's message buffer of TICKETING_MESSAGE_SIZE bytes; NULL is fine. */
void tkt_put_message(char *message, const char *text);

/* The same with the table's text of `code`; returns `code`. */
int tkt_refuse(char *message, int code);

/* The same with a sentence for E_INVALID_ARGUMENT. */
int tkt_invalid(char *message, const char *text);

/* The checks of a start: broker, its queue (or NULL), the place for the op (set to NULL). */
int tkt_check_start(const struct tkt_broker *broker, const struct tkt_queue *queue,
                    ticketing_op **op_out, char *message);

/* Waits for an op through interruptions, then frees it: the blocking form of its start. Its status,
 * with the op's sentence in `message` where that is not TICKETING_OK; or E_STATE. */
int tkt_finish(struct tkt_op *op, char *message);

/* Copies the parameters of a caller compiled with another header into `params` of `known` bytes:
 * an older, smaller struct (at least `oldest` bytes) is filled up with zeros, a newer one is
 * accepted while what we do not know of is zero. TICKETING_OK, E_INVALID_ARGUMENT,
 * E_UNSUPPORTED. */
int tkt_params_read(void *params, size_t known, size_t oldest, const void *given, char *message);

#endif
