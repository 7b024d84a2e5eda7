/* What ticketing_options holds. */
#ifndef TKT_ABI_OPTIONS_H
#define TKT_ABI_OPTIONS_H

#include "client/client.h"
#include "net/trust.h"

#include <ticketing.h>

struct ticketing_options {
  char *addresses[TKT_ADDRESS_COUNT_MAX];
  size_t address_count;
  uint8_t *token;
  size_t token_len;
  int io_mode;
  uint32_t max_in_flight;
  uint32_t max_unsent;
  bool cancel_keeps_session;
  int wire;
  bool has_identity;
  uint8_t identity[TICKETING_IDENTITY_SIZE];
  struct tkt_trust trust; /* closed: TLS is off */
  char message[TKT_REFUSAL_SIZE];
};

#endif
