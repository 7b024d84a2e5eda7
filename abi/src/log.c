#include "handles.h"

#include <string.h>

_Static_assert((int)TKT_LOG_DEBUG == TICKETING_LOG_DEBUG &&
                   (int)TKT_LOG_INFO == TICKETING_LOG_INFO &&
                   (int)TKT_LOG_WARNING == TICKETING_LOG_WARNING &&
                   (int)TKT_LOG_ERROR == TICKETING_LOG_ERROR,
               "the engine's levels and the header differ");

/* The first version of the struct; it never changes. */
enum { LOG_ENTRY_OLDEST = offsetof(ticketing_log_entry, text) + TICKETING_LOG_TEXT_SIZE };

int ticketing_broker_log_next(ticketing_broker *handle, ticketing_log_entry *entry) {
  struct tkt_broker *broker = tkt_broker_of(handle);
  int rc = tkt_check_broker(broker);
  if (rc != TICKETING_OK) return rc;
  if (!entry || entry->size < LOG_ENTRY_OLDEST) return TICKETING_E_INVALID_ARGUMENT;
  struct tkt_log_entry got;
  if (!tkt_broker_log_next(broker, &got)) return TICKETING_PENDING;
  entry->at_ns = got.at;
  entry->lost = got.lost;
  entry->level = (int32_t)got.level;
  tkt_log_sentence(&got, entry->text, sizeof entry->text);
  return TICKETING_OK;
}
