#include "server/replies.h"

#include "server/lock_table.h"
#include "server/peer.h"

#include <stdlib.h>

/* Memory kept for sessions to come, in all: enough for some thousand that are written to in one
 * turn, so that a busy server does not allocate, and little enough to keep after a burst. */
enum { SPARE_OUTPUT_MAX = 4 * 1024 * 1024 };
/* Larger blocks are rare and go back to the allocator. */
enum { SPARE_BLOCK_MAX = 64 * 1024 };

static void take_spare(struct tkt_server *server, struct tkt_buf *out) {
  struct tkt_spare_output *spare = server->spare_output;
  if (!spare) return;
  server->spare_output = spare->next;
  server->spare_output_bytes -= spare->cap;
  out->cap = spare->cap;
  out->data = (uint8_t *)spare;
  out->start = out->end = 0;
}

void tkt_output_return(struct tkt_server *server, struct tkt_peer *peer) {
  struct tkt_buf *out = &peer->out;
  if (!out->data) return;
  if (out->cap > SPARE_BLOCK_MAX || server->spare_output_bytes + out->cap > SPARE_OUTPUT_MAX) {
    tkt_buf_release(out);
    return;
  }
  struct tkt_spare_output *spare = (struct tkt_spare_output *)(void *)out->data;
  spare->cap = out->cap;
  spare->next = server->spare_output;
  server->spare_output = spare;
  server->spare_output_bytes += spare->cap;
  memset(out, 0, sizeof *out);
}

void tkt_outputs_free(struct tkt_server *server) {
  while (server->spare_output) {
    struct tkt_spare_output *next = server->spare_output->next;
    free(server->spare_output);
    server->spare_output = next;
  }
  server->spare_output_bytes = 0;
}

/* Nearly always there is room for the longest reply, and then its size need not be known before it
 * is written. What the engine says can be carried: its keys are valid ones. */
static inline bool append(struct tkt_buf *out, const struct tkt_wire *wire,
                          const struct tkt_msg *msg, size_t bound) {
  if (out->cap - out->end < wire->reply_max || tkt_buf_len(out) + wire->reply_max > bound)
    return tkt_wire_append(wire, msg, out, bound);
  tkt_buf_commit(out, wire->encode(msg, out->data + out->end));
  return true;
}

bool tkt_say(struct tkt_server *server, struct tkt_peer *peer, const struct tkt_msg *msg) {
  if (!peer || tkt_peer_is_broken(peer) || peer->state >= TKT_PEER_LINGERING) return false;
  if (!peer->out.data) take_spare(server, &peer->out);
  if (!append(&peer->out, peer->parser.wire, msg, server->limits.output_bytes)) {
    tkt_peer_break(server, peer);
    return false;
  }
  peer->last_output = server->now;
  tkt_peer_touch(server, peer);
  return true;
}

/* Only the fields that matter are set: a message is large, and one is made for every reply. */
static void name_keys(struct tkt_msg *msg, const struct tkt_span *keys, size_t key_count) {
  msg->key_count = (uint8_t)key_count;
  msg->set = false;
  for (size_t i = 0; i < key_count; i++)
    msg->keys[i] = keys[i];
}

/* Wire 2 carries one key and echoes it; wire 3 none. */
static void echo_key(struct tkt_msg *msg, const struct tkt_peer *peer,
                     const struct tkt_lock *lock) {
  if (tkt_peer_is_framed(peer)) return;
  msg->key_count = 1;
  msg->set = false;
  msg->keys[0] = tkt_lock_text(lock);
}

bool tkt_say_refusal(struct tkt_server *server, struct tkt_peer *peer, enum tkt_msg_kind kind,
                     uint64_t id, const struct tkt_span *keys, size_t key_count) {
  struct tkt_msg msg;
  msg.kind = kind;
  msg.id = id;
  if (!tkt_peer_is_framed(peer)) name_keys(&msg, keys, key_count);
  return tkt_say(server, peer, &msg);
}

bool tkt_say_waiter(struct tkt_server *server, struct tkt_waiter *waiter, enum tkt_msg_kind kind) {
  struct tkt_msg msg;
  if (!waiter->peer) return false;
  msg.kind = kind;
  msg.id = waiter->id;
  msg.slot = TKT_SLOT_NONE;
  echo_key(&msg, waiter->peer, waiter->seats[0].lock);
  return tkt_say(server, waiter->peer, &msg);
}

bool tkt_say_granted(struct tkt_server *server, struct tkt_waiter *waiter) {
  struct tkt_msg msg;
  if (!waiter->peer) return false;
  msg.kind = TKT_MSG_GRANTED;
  msg.id = waiter->id;
  msg.token = waiter->grant->token;
  msg.set = waiter->set;
  echo_key(&msg, waiter->peer, waiter->grant->holds[0].lock);
  return tkt_say(server, waiter->peer, &msg);
}

bool tkt_say_released(struct tkt_server *server, const struct tkt_release *release,
                      const struct tkt_grant *grant) {
  struct tkt_msg msg;
  msg.kind = TKT_MSG_RELEASED;
  msg.id = release->id;
  msg.token = grant->token;
  msg.set = release->set;
  echo_key(&msg, release->peer, grant->holds[0].lock);
  return tkt_say(server, release->peer, &msg);
}

bool tkt_say_not_current(struct tkt_server *server, struct tkt_peer *peer,
                         const struct tkt_msg *request) {
  struct tkt_msg msg;
  msg.kind = TKT_MSG_NOT_CURRENT;
  msg.id = request->id;
  msg.token = request->token;
  if (!tkt_peer_is_framed(peer)) name_keys(&msg, request->keys, request->key_count);
  return tkt_say(server, peer, &msg);
}

bool tkt_say_to(struct tkt_server *server, struct tkt_peer *peer, enum tkt_msg_kind kind,
                uint64_t id) {
  struct tkt_msg msg;
  msg.kind = kind;
  msg.id = id;
  msg.slot = TKT_SLOT_NONE;
  return tkt_say(server, peer, &msg);
}

bool tkt_say_error_to(struct tkt_server *server, struct tkt_peer *peer, uint64_t id,
                      enum tkt_wire_error error) {
  struct tkt_msg msg;
  msg.kind = TKT_MSG_ERROR;
  msg.id = id;
  msg.error = error;
  return tkt_say(server, peer, &msg);
}

static bool say_verdict(struct tkt_server *server, struct tkt_peer *peer, bool accepted) {
  struct tkt_msg msg;
  msg.kind = TKT_MSG_VERDICT;
  msg.accepted = accepted;
  return tkt_say(server, peer, &msg);
}

bool tkt_say_last(struct tkt_server *server, struct tkt_peer *peer, enum tkt_wire_error error) {
  if (tkt_peer_is_framed(peer))
    return error != TKT_WIRE_ERROR_AUTH_FAILED || say_verdict(server, peer, false);
  struct tkt_msg msg;
  msg.kind = TKT_MSG_ERROR;
  msg.error = error;
  msg.text = tkt_span(NULL, 0);
  return tkt_say(server, peer, &msg);
}

bool tkt_say_alive(struct tkt_server *server, struct tkt_peer *peer) {
  struct tkt_msg msg;
  msg.kind = tkt_peer_is_framed(peer) ? TKT_MSG_LEADER : TKT_MSG_KEEPALIVE;
  msg.slot = TKT_SLOT_NONE;
  return tkt_say(server, peer, &msg);
}

bool tkt_say_accepted(struct tkt_server *server, struct tkt_peer *peer) {
  return say_verdict(server, peer, true);
}
