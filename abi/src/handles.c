#include "handles.h"

#include <string.h>

/* Larger than any parameter struct will ever be: a size above it is no size. */
enum { PARAMS_SIZE_MAX = 4096 };

void tkt_put_message(char *message, const char *text) {
  if (!message) return;
  size_t len = strlen(text);
  if (len >= TICKETING_MESSAGE_SIZE) len = TICKETING_MESSAGE_SIZE - 1;
  memcpy(message, text, len);
  message[len] = 0;
}

int tkt_refuse(char *message, int code) {
  tkt_put_message(message, ticketing_error_text(code));
  return code;
}

int tkt_invalid(char *message, const char *text) {
  tkt_put_message(message, text);
  return TICKETING_E_INVALID_ARGUMENT;
}

int tkt_check_start(const struct tkt_broker *broker, const struct tkt_queue *queue,
                    ticketing_op **op_out, char *message) {
  if (!op_out)
    return tkt_invalid(message, "op_out is NULL; give a place for the operation's handle");
  *op_out = NULL;
  if (!broker) return tkt_invalid(message, "the handle is NULL");
  int rc = tkt_check_broker(broker);
  if (rc != TICKETING_OK) return tkt_refuse(message, rc);
  if (queue && queue->broker != broker)
    return tkt_invalid(message,
                       "the queue belongs to another broker; use one made with this broker");
  return TICKETING_OK;
}

int tkt_finish(struct tkt_op *op, char *message) {
  int rc = tkt_op_wait_to_end(op);
  if (rc == TICKETING_OK) {
    rc = tkt_op_status(op);
    if (rc != TICKETING_OK && message) tkt_op_message(op, message, TICKETING_MESSAGE_SIZE);
  } else {
    tkt_refuse(message, rc);
  }
  tkt_op_free(op);
  return rc;
}

int tkt_params_read(void *params, size_t known, size_t oldest, const void *given, char *message) {
  size_t size;
  memcpy(&size, given, sizeof size);
  if (size < oldest || size > PARAMS_SIZE_MAX)
    return tkt_invalid(message, "params.size is not the size of the struct; initialise it with its "
                                "TICKETING_..._INIT");
  const unsigned char *bytes = given;
  for (size_t i = known; i < size; i++)
    if (bytes[i] != 0) {
      tkt_put_message(message,
                      "params uses a field this version of the library does not know; upgrade the "
                      "library or leave the field zero");
      return TICKETING_E_UNSUPPORTED;
    }
  memset(params, 0, known);
  memcpy(params, given, size < known ? size : known);
  return TICKETING_OK;
}
