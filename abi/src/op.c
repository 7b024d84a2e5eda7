#include "handles.h"

#include <string.h>

_Static_assert((int)TKT_OP_ACQUIRE == TICKETING_OP_ACQUIRE &&
                   (int)TKT_OP_RELEASE == TICKETING_OP_RELEASE &&
                   (int)TKT_OP_WAIT_READY == TICKETING_OP_WAIT_READY &&
                   (int)TKT_OP_CLOSE == TICKETING_OP_CLOSE &&
                   (int)TKT_OP_WATCH == TICKETING_OP_WATCH,
               "the driver's kinds and the header differ");

int ticketing_op_kind(const ticketing_op *handle) {
  return handle ? (int)tkt_op_of(handle)->kind : TICKETING_E_INVALID_ARGUMENT;
}

void *ticketing_op_user(const ticketing_op *handle) {
  return handle ? tkt_op_of(handle)->user : NULL;
}

int ticketing_op_status(const ticketing_op *handle) {
  const struct tkt_op *op = tkt_op_of(handle);
  int rc = tkt_check_op(op);
  return rc == TICKETING_OK ? tkt_op_status(op) : rc;
}

int ticketing_op_wait(ticketing_op *handle, int64_t timeout_ns) {
  struct tkt_op *op = tkt_op_of(handle);
  int rc = tkt_check_op(op);
  if (rc != TICKETING_OK) return rc;
  if (timeout_ns < 0) return TICKETING_E_INVALID_ARGUMENT;
  return tkt_op_wait(op, timeout_ns);
}

void ticketing_op_wake(ticketing_op *handle) {
  struct tkt_op *op = tkt_op_of(handle);
  if (tkt_check_op(op) == TICKETING_OK) tkt_op_wake(op);
}

void ticketing_op_cancel(ticketing_op *handle) {
  struct tkt_op *op = tkt_op_of(handle);
  if (tkt_check_op(op) == TICKETING_OK) tkt_op_cancel(op);
}

int ticketing_op_take_ticket(ticketing_op *handle, ticketing_ticket **ticket_out) {
  if (!ticket_out) return TICKETING_E_INVALID_ARGUMENT;
  *ticket_out = NULL;
  struct tkt_op *op = tkt_op_of(handle);
  int rc = tkt_check_op(op);
  if (rc != TICKETING_OK) return rc;
  struct tkt_lent *lent;
  rc = tkt_op_take(op, &lent);
  *ticket_out = (ticketing_ticket *)(void *)lent;
  return rc;
}

size_t ticketing_op_message(const ticketing_op *handle, char *buffer, size_t size) {
  if (!buffer) size = 0;
  const struct tkt_op *op = tkt_op_of(handle);
  int rc = tkt_check_op(op);
  if (rc == TICKETING_OK) return tkt_op_message(op, buffer, size);
  const char *text = ticketing_error_text(rc);
  size_t len = strlen(text);
  if (size > 0) {
    size_t n = len < size ? len : size - 1;
    memcpy(buffer, text, n);
    buffer[n] = 0;
  }
  return len;
}

uint32_t ticketing_op_attempts(const ticketing_op *handle) {
  const struct tkt_op *op = tkt_op_of(handle);
  return tkt_check_op(op) == TICKETING_OK ? tkt_op_attempts(op) : 0;
}

void ticketing_op_free(ticketing_op *handle) {
  struct tkt_op *op = tkt_op_of(handle);
  /* In a forked child its memory may be in the middle of a change: it stays. */
  if (tkt_check_op(op) == TICKETING_OK) tkt_op_free(op);
}
