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

bool tkt_say(struct tkt_server *server, struct tkt_peer *peer, const struct tkt_msg *msg) {
  if (!peer || tkt_peer_is_broken(peer) || peer->state >= TKT_PEER_LINGERING) return false;
  if (!peer->out.data) take_spare(server, &peer->out);
  if (!tkt_wire_append(peer->parser.wire, msg, &peer->out, server->limits.output_bytes)) {
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
  msg->set = key_count > 1;
  for (size_t i = 0; i < key_count; i++)
    msg->keys[i] = keys[i];
}

bool tkt_say_refusal(struct tkt_server *server, struct tkt_peer *peer, enum tkt_msg_kind kind,
                     uint64_t id, const struct tkt_span *keys, size_t key_count) {
  struct tkt_msg msg;
  msg.kind = kind;
  msg.id = id;
  name_keys(&msg, keys, key_count);
  return tkt_say(server, peer, &msg);
}

bool tkt_say_waiter(struct tkt_server *server, struct tkt_waiter *waiter, enum tkt_msg_kind kind) {
  struct tkt_msg msg;
  msg.kind = kind;
  msg.id = waiter->id;
  msg.key_count = waiter->key_count;
  msg.set = waiter->key_count > 1;
  for (size_t i = 0; i < waiter->key_count; i++)
    msg.keys[i] = tkt_lock_text(waiter->seats[i].lock);
  return tkt_say(server, waiter->peer, &msg);
}

bool tkt_say_granted(struct tkt_server *server, struct tkt_waiter *waiter) {
  const struct tkt_grant *grant = waiter->grant;
  struct tkt_msg msg;
  msg.kind = TKT_MSG_GRANTED;
  msg.id = waiter->id;
  msg.token = grant->token;
  msg.key_count = (uint8_t)grant->key_count;
  msg.set = grant->key_count > 1;
  for (size_t i = 0; i < grant->key_count; i++)
    msg.keys[i] = tkt_lock_text(grant->holds[i].lock);
  return tkt_say(server, waiter->peer, &msg);
}

bool tkt_say_release(struct tkt_server *server, struct tkt_peer *peer, enum tkt_msg_kind kind,
                     uint64_t token, const struct tkt_span *keys, size_t key_count) {
  struct tkt_msg msg;
  msg.kind = kind;
  msg.token = token;
  name_keys(&msg, keys, key_count);
  return tkt_say(server, peer, &msg);
}

bool tkt_say_error(struct tkt_server *server, struct tkt_peer *peer, enum tkt_wire_error error) {
  struct tkt_msg msg;
  msg.kind = TKT_MSG_ERROR;
  msg.error = error;
  msg.text = tkt_span(NULL, 0);
  return tkt_say(server, peer, &msg);
}
