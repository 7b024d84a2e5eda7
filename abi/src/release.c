#include "handles.h"
#include "spans.h"

int ticketing_ticket_release_start(ticketing_ticket *handle, ticketing_queue *queue, void *user,
                                   ticketing_op **op_out) {
  struct tkt_lent *lent = tkt_lent_of(handle);
  int rc =
      tkt_check_start(lent ? tkt_lent_op(lent)->broker : NULL, tkt_queue_of(queue), op_out, NULL);
  if (rc != TICKETING_OK) return rc;
  struct tkt_op *op;
  rc = tkt_op_release(lent, tkt_queue_of(queue), user, &op);
  if (rc == TICKETING_OK) *op_out = tkt_op_handle(op);
  return rc;
}

int ticketing_ticket_release(ticketing_ticket *ticket, char *message) {
  ticketing_op *op;
  int rc = ticketing_ticket_release_start(ticket, NULL, NULL, &op);
  return rc == TICKETING_OK ? tkt_finish(tkt_op_of(op), message) : tkt_refuse(message, rc);
}

int ticketing_release_start(ticketing_broker *handle, const ticketing_key *keys, size_t key_count,
                            uint64_t token, ticketing_queue *queue, void *user,
                            ticketing_op **op_out, char *message) {
  struct tkt_broker *broker = tkt_broker_of(handle);
  int rc = tkt_check_start(broker, tkt_queue_of(queue), op_out, message);
  if (rc != TICKETING_OK) return rc;
  struct tkt_span given[TKT_KEY_SET_MAX], sorted[TKT_KEY_SET_MAX];
  size_t count = 0;
  char why[TKT_REFUSAL_SIZE] = "";
  rc = tkt_release_check(tkt_spans(keys, key_count, given), key_count, token, sorted, &count, why);
  if (rc != TICKETING_OK) {
    tkt_put_message(message, why);
    return rc;
  }
  struct tkt_op *op;
  rc = tkt_op_release_exact(broker, sorted, count, token, tkt_queue_of(queue), user, &op);
  if (rc != TICKETING_OK) return tkt_refuse(message, rc);
  *op_out = tkt_op_handle(op);
  return rc;
}

int ticketing_release(ticketing_broker *broker, const ticketing_key *keys, size_t key_count,
                      uint64_t token, char *message) {
  ticketing_op *op;
  int rc = ticketing_release_start(broker, keys, key_count, token, NULL, NULL, &op, message);
  return rc == TICKETING_OK ? tkt_finish(tkt_op_of(op), message) : rc;
}
