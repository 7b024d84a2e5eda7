#include "handles.h"

uint64_t ticketing_ticket_token(const ticketing_ticket *handle) {
  const struct tkt_lent *lent = tkt_lent_of(handle);
  return tkt_check_lent(lent) == TICKETING_OK ? lent->token : 0;
}

size_t ticketing_ticket_key_count(const ticketing_ticket *handle) {
  const struct tkt_lent *lent = tkt_lent_of(handle);
  return tkt_check_lent(lent) == TICKETING_OK ? tkt_lent_op(lent)->key_count : 0;
}

ticketing_key ticketing_ticket_key(const ticketing_ticket *handle, size_t index) {
  ticketing_key key = {NULL, 0};
  const struct tkt_lent *lent = tkt_lent_of(handle);
  if (tkt_check_lent(lent) != TICKETING_OK) return key;
  struct tkt_span keys[TKT_KEY_SET_MAX];
  if (index >= tkt_op_keys(tkt_lent_op(lent), keys)) return key;
  key.data = (const char *)keys[index].data;
  key.len = keys[index].len;
  return key;
}

int64_t ticketing_ticket_valid_until_ns(const ticketing_ticket *handle) {
  const struct tkt_lent *lent = tkt_lent_of(handle);
  return tkt_check_lent(lent) == TICKETING_OK ? lent->valid_until : 0;
}

int64_t ticketing_ticket_remaining_ns(const ticketing_ticket *handle) {
  const struct tkt_lent *lent = tkt_lent_of(handle);
  if (tkt_check_lent(lent) != TICKETING_OK) return 0;
  int64_t left = lent->valid_until - ticketing_now_ns();
  return left > 0 ? left : 0;
}

void ticketing_ticket_detach(ticketing_ticket *handle) {
  struct tkt_lent *lent = tkt_lent_of(handle);
  if (tkt_check_lent(lent) == TICKETING_OK) tkt_lent_detach(lent);
}

void ticketing_ticket_free(ticketing_ticket *handle) {
  struct tkt_lent *lent = tkt_lent_of(handle);
  if (tkt_check_lent(lent) == TICKETING_OK) tkt_lent_free(lent);
}
