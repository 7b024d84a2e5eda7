#include "handles.h"
#include "spans.h"

/* The first version of the struct; it never changes. */
enum { ACQUIRE_PARAMS_OLDEST = offsetof(ticketing_acquire_params, budget_ns) + sizeof(int64_t) };

int ticketing_acquire_start(ticketing_broker *handle, const ticketing_acquire_params *given,
                            ticketing_queue *queue, void *user, ticketing_op **op_out,
                            char *message) {
  struct tkt_broker *broker = tkt_broker_of(handle);
  int rc = tkt_check_start(broker, tkt_queue_of(queue), op_out, message);
  if (rc != TICKETING_OK) return rc;
  if (!given) return tkt_invalid(message, "params is NULL");
  ticketing_acquire_params params;
  rc = tkt_params_read(&params, sizeof params, ACQUIRE_PARAMS_OLDEST, given, message);
  if (rc != TICKETING_OK) return rc;
  struct tkt_span keys[TKT_KEY_SET_MAX];
  struct tkt_acquire_args args = {
      .keys = tkt_spans(params.keys, params.key_count, keys),
      .key_count = params.key_count,
      .wait_ns = params.wait_ns,
      .lease_ns = params.lease_ns,
      .budget_ns = params.budget_ns,
  };
  struct tkt_acquire_plan plan;
  char why[TKT_REFUSAL_SIZE] = "";
  rc = tkt_acquire_check(&args, &plan, why);
  if (rc != TICKETING_OK) {
    tkt_put_message(message, why);
    return rc;
  }
  struct tkt_op *op;
  rc = tkt_op_acquire(broker, &plan, tkt_queue_of(queue), user, &op);
  if (rc != TICKETING_OK) return tkt_refuse(message, rc);
  *op_out = tkt_op_handle(op);
  return rc;
}

int ticketing_acquire(ticketing_broker *broker, const ticketing_acquire_params *params,
                      ticketing_ticket **ticket_out, char *message) {
  if (!ticket_out) return tkt_invalid(message, "ticket_out is NULL; give a place for the ticket");
  *ticket_out = NULL;
  ticketing_op *op;
  int rc = ticketing_acquire_start(broker, params, NULL, NULL, &op, message);
  if (rc != TICKETING_OK) return rc;
  rc = tkt_op_wait_to_end(tkt_op_of(op));
  if (rc != TICKETING_OK) {
    tkt_refuse(message, rc);
  } else {
    rc = ticketing_op_take_ticket(op, ticket_out);
    if (rc != TICKETING_OK && message) ticketing_op_message(op, message, TICKETING_MESSAGE_SIZE);
  }
  ticketing_op_free(op);
  return rc;
}
