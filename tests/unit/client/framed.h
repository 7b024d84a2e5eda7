/* What the tests of replies on wire 3 share beyond the fixture. */
#ifndef TKT_TESTS_UNIT_CLIENT_FRAMED_H
#define TKT_TESTS_UNIT_CLIENT_FRAMED_H

#include "unit/client/fixture.h"

static inline void says(const struct tkt_call *call, const char *part) {
  char text[512];
  tkt_call_explain(call, text, sizeof text);
  if (!strstr(text, part)) fail_msg("\"%s\" does not say \"%s\"", text, part);
}

static const char *const two_keys[] = {"a", "b"};

static inline size_t send_set(struct fixture *f, struct tkt_call *call, int wait,
                              struct tkt_msg *msg) {
  acquire_set(f, call, two_keys, 2, wait, 60);
  turn(f);
  size_t peer = find_request(f, msg);
  assert_int_equal(msg->kind, TKT_MSG_ACQUIRE);
  assert_true(msg->set);
  return peer;
}

/* A ticket of wire 3, granted and taken. */
static inline struct tkt_ticket *hold_framed(struct fixture *f, bool set, uint64_t token) {
  struct tkt_call call;
  struct tkt_msg msg;
  struct tkt_ticket *ticket = NULL;
  size_t peer = set ? send_set(f, &call, 5, &msg) : send_acquire(f, &call, "a", 5, 60, &msg);
  reply_id(f, peer, TKT_MSG_GRANTED, msg.id, token, set, 0);
  assert_int_equal(tkt_client_take(f->client, &call, f->now, &ticket), TKT_OK);
  /* This call's memory ends here: nothing may stay on the list of ended ones. */
  while (tkt_client_next_done(f->client)) {
  }
  return ticket;
}

#endif
