#include "handles.h"
#include "options.h"
#include "wire/proof.h"

_Static_assert((int)TKT_IO_THREAD == TICKETING_IO_THREAD &&
                   (int)TKT_IO_CALLER == TICKETING_IO_CALLER,
               "the driver's modes and the header differ");
_Static_assert((int)TKT_WIRE3_IDENTITY_LEN == TICKETING_IDENTITY_SIZE,
               "the wire's identity and the header differ");

int ticketing_broker_open(const ticketing_options *options, ticketing_broker **broker_out) {
  if (!broker_out) return TICKETING_E_INVALID_ARGUMENT;
  *broker_out = NULL;
  if (!options || options->address_count == 0) return TICKETING_E_INVALID_ARGUMENT;
  size_t count = options->address_count;
  if (options->wire == TICKETING_WIRE_3 && count != 1 && count != 3 && count != 5)
    return TICKETING_E_UNSUPPORTED;
  const char *addresses[TKT_ADDRESS_COUNT_MAX];
  for (size_t i = 0; i < count; i++)
    addresses[i] = options->addresses[i];
  struct tkt_client_config config = {
      .addresses = addresses,
      .address_count = count,
      .token = tkt_span(options->token, options->token_len),
      .max_in_flight = options->max_in_flight,
      .max_unsent = options->max_unsent,
      .cancel_keeps_session = options->cancel_keeps_session,
      .wire = (uint8_t)options->wire,
      .identity = options->has_identity ? options->identity : NULL,
  };
  struct tkt_broker *broker;
  int rc = tkt_broker_open(&config, (enum tkt_io_mode)options->io_mode,
                           options->trust.tls ? &options->trust : NULL, &broker);
  *broker_out = (ticketing_broker *)(void *)broker;
  return rc;
}

int ticketing_connect(const char *address, ticketing_broker **broker_out) {
  if (broker_out) *broker_out = NULL;
  ticketing_options *options;
  int rc = ticketing_options_new(&options);
  if (rc != TICKETING_OK) return rc;
  rc = ticketing_options_add_address(options, address);
  if (rc == TICKETING_OK) rc = ticketing_broker_open(options, broker_out);
  ticketing_options_free(options);
  return rc;
}

void ticketing_broker_free(ticketing_broker *handle) {
  struct tkt_broker *broker = tkt_broker_of(handle);
  if (!broker) return;
  if (tkt_broker_forked(broker))
    tkt_broker_free_in_child(broker);
  else
    tkt_broker_free(broker);
}

int ticketing_broker_close_start(ticketing_broker *handle, ticketing_queue *queue, void *user,
                                 ticketing_op **op_out) {
  struct tkt_broker *broker = tkt_broker_of(handle);
  int rc = tkt_check_start(broker, tkt_queue_of(queue), op_out, NULL);
  if (rc != TICKETING_OK) return rc;
  struct tkt_op *op;
  rc = tkt_op_close(broker, tkt_queue_of(queue), user, &op);
  if (rc == TICKETING_OK) *op_out = tkt_op_handle(op);
  return rc;
}

int ticketing_broker_close(ticketing_broker *broker) {
  ticketing_op *op;
  int rc = ticketing_broker_close_start(broker, NULL, NULL, &op);
  return rc == TICKETING_OK ? tkt_finish(tkt_op_of(op), NULL) : rc;
}

int ticketing_broker_wait_ready_start(ticketing_broker *handle, int64_t timeout_ns,
                                      ticketing_queue *queue, void *user, ticketing_op **op_out) {
  struct tkt_broker *broker = tkt_broker_of(handle);
  int rc = tkt_check_start(broker, tkt_queue_of(queue), op_out, NULL);
  if (rc != TICKETING_OK) return rc;
  if (timeout_ns < 0) return TICKETING_E_INVALID_ARGUMENT;
  struct tkt_op *op;
  rc = tkt_op_wait_ready(broker, timeout_ns, tkt_queue_of(queue), user, &op);
  if (rc == TICKETING_OK) *op_out = tkt_op_handle(op);
  return rc;
}

int ticketing_broker_wait_ready(ticketing_broker *broker, int64_t timeout_ns) {
  ticketing_op *op;
  int rc = ticketing_broker_wait_ready_start(broker, timeout_ns, NULL, NULL, &op);
  return rc == TICKETING_OK ? tkt_finish(tkt_op_of(op), NULL) : rc;
}

int ticketing_broker_fd(const ticketing_broker *handle) {
  struct tkt_broker *broker = tkt_broker_of(handle);
  return tkt_check_broker(broker) == TICKETING_OK ? tkt_broker_fd(broker) : -1;
}

int ticketing_broker_dispatch(ticketing_broker *handle, int64_t timeout_ns) {
  struct tkt_broker *broker = tkt_broker_of(handle);
  int rc = tkt_check_broker(broker);
  if (rc != TICKETING_OK) return rc;
  if (timeout_ns < 0) return TICKETING_E_INVALID_ARGUMENT;
  return tkt_dispatch(broker, timeout_ns);
}

int ticketing_broker_flush(ticketing_broker *handle) {
  struct tkt_broker *broker = tkt_broker_of(handle);
  int rc = tkt_check_broker(broker);
  return rc == TICKETING_OK ? tkt_flush(broker) : rc;
}

/* Counters copied at a time: more than there are. */
enum { COUNTERS_ROOM = 128 };

size_t ticketing_broker_counters(const ticketing_broker *handle, ticketing_counter *counters,
                                 size_t room) {
  struct tkt_broker *broker = tkt_broker_of(handle);
  if (tkt_check_broker(broker) != TICKETING_OK || (!counters && room > 0)) return 0;
  struct tkt_counter all[COUNTERS_ROOM];
  size_t count = tkt_broker_counters(broker, all, COUNTERS_ROOM);
  if (count > COUNTERS_ROOM) count = COUNTERS_ROOM;
  for (size_t i = 0; i < count && i < room; i++) {
    counters[i].name = all[i].name;
    counters[i].value = all[i].value;
  }
  return count;
}
