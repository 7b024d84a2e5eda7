#include "handles.h"

int ticketing_queue_new(ticketing_broker *handle, ticketing_queue **queue_out) {
  if (!queue_out) return TICKETING_E_INVALID_ARGUMENT;
  *queue_out = NULL;
  struct tkt_broker *broker = tkt_broker_of(handle);
  int rc = tkt_check_broker(broker);
  if (rc != TICKETING_OK) return rc;
  struct tkt_queue *queue;
  rc = tkt_queue_new(broker, &queue);
  if (rc == TICKETING_OK) *queue_out = (ticketing_queue *)(void *)queue;
  return rc;
}

void ticketing_queue_free(ticketing_queue *handle) {
  struct tkt_queue *queue = tkt_queue_of(handle);
  if (!queue) return;
  if (tkt_broker_forked(queue->broker))
    tkt_queue_free_in_child(queue);
  else
    tkt_queue_free(queue);
}

int ticketing_queue_fd(const ticketing_queue *handle) {
  struct tkt_queue *queue = tkt_queue_of(handle);
  return tkt_check_queue(queue) == TICKETING_OK ? tkt_queue_fd(queue) : -1;
}

int ticketing_queue_next(ticketing_queue *handle, ticketing_op **op_out) {
  if (!op_out) return TICKETING_E_INVALID_ARGUMENT;
  *op_out = NULL;
  struct tkt_queue *queue = tkt_queue_of(handle);
  int rc = tkt_check_queue(queue);
  if (rc != TICKETING_OK) return rc;
  *op_out = tkt_op_handle(tkt_queue_next(queue));
  return *op_out ? TICKETING_OK : TICKETING_PENDING;
}

int ticketing_queue_wait(ticketing_queue *handle, int64_t timeout_ns, ticketing_op **op_out) {
  if (!op_out) return TICKETING_E_INVALID_ARGUMENT;
  *op_out = NULL;
  struct tkt_queue *queue = tkt_queue_of(handle);
  int rc = tkt_check_queue(queue);
  if (rc != TICKETING_OK) return rc;
  if (timeout_ns < 0) return TICKETING_E_INVALID_ARGUMENT;
  struct tkt_op *op;
  rc = tkt_queue_wait(queue, timeout_ns, &op);
  if (rc == TICKETING_OK) *op_out = tkt_op_handle(op);
  return rc;
}
