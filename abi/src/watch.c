#include "handles.h"

int ticketing_ticket_watch_start(ticketing_ticket *handle, int64_t lead_ns, ticketing_queue *queue,
                                 void *user, ticketing_op **op_out) {
  struct tkt_lent *lent = tkt_lent_of(handle);
  int rc =
      tkt_check_start(lent ? tkt_lent_op(lent)->broker : NULL, tkt_queue_of(queue), op_out, NULL);
  if (rc != TICKETING_OK) return rc;
  if (lead_ns < 0) return TICKETING_E_INVALID_ARGUMENT;
  struct tkt_op *op;
  rc = tkt_op_watch(lent, lead_ns, tkt_queue_of(queue), user, &op);
  if (rc == TICKETING_OK) *op_out = tkt_op_handle(op);
  return rc;
}
