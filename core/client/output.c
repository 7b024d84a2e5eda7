/* Bytes on their way out, and the send boundary (S1): requests are encoded when the driver asks,
 * at most one chunk ahead, releases first (R4); a request is sent from the moment its first byte
 * may have left. */
#include "client/engine.h"

static struct tkt_waiter *waiter_of(struct tkt_frame *f) {
  return TKT_CONTAINER(f, struct tkt_waiter, frame);
}

static struct tkt_attempt *attempt_of(struct tkt_frame *f) {
  return TKT_CONTAINER(f, struct tkt_attempt, frame);
}

void tkt_output_pull_back(struct tkt_session *s) {
  struct tkt_list *first = tkt_list_first(&s->encoded);
  if (!first) return;
  uint64_t start = TKT_CONTAINER(first, struct tkt_frame, node)->start;
  tkt_buf_truncate(&s->out, (size_t)(start - s->out_start));
  while (!tkt_list_empty(&s->encoded)) { /* from the end, so that the order stays in the queues */
    struct tkt_frame *f = TKT_CONTAINER(s->encoded.prev, struct tkt_frame, node);
    tkt_list_remove(&f->node);
    tkt_id_take_back(s, f);
    if (f->release) {
      attempt_of(f)->state = TKT_ATTEMPT_QUEUED;
      tkt_list_prepend(&s->releases, &f->node);
    } else {
      waiter_of(f)->state = TKT_WAITER_ASSIGNED;
      tkt_list_prepend(&s->queue, &f->node);
    }
  }
}

/* Appends `msg` as the frame `f`, with an id where its wire wants one; false where the chunk is
 * full. */
static bool encode(struct tkt_session *s, struct tkt_frame *f, struct tkt_msg *msg) {
  const struct tkt_wire *wire = s->parser.wire;
  bool with_id = s->framed || !f->release;
  if (with_id) msg->id = tkt_id_next(s);
  size_t size = wire->encoded_size(msg);
  uint8_t *room = size ? tkt_buf_reserve(&s->out, size, TKT_CHUNK) : NULL;
  if (!room) return false;
  wire->encode(msg, room);
  if (with_id) tkt_id_give(s, f, msg->id);
  f->start = s->out_start + tkt_buf_len(&s->out);
  tkt_buf_commit(&s->out, size);
  tkt_list_remove(&f->node);
  tkt_list_append(&s->encoded, &f->node);
  return true;
}

static void put_keys(struct tkt_msg *msg, const struct tkt_ticket *t) {
  msg->key_count = tkt_ticket_keys(t, msg->keys);
  msg->set = tkt_ticket_is_set(t);
}

static void encode_releases(struct tkt_session *s, struct tkt_msg *msg) {
  msg->kind = TKT_MSG_RELEASE;
  for (struct tkt_list *node; (node = tkt_list_first(&s->releases));) {
    struct tkt_attempt *a = TKT_CONTAINER(node, struct tkt_attempt, frame.node);
    msg->token = a->ticket->token;
    put_keys(msg, a->ticket);
    if (!encode(s, &a->frame, msg)) return;
    a->state = TKT_ATTEMPT_ENCODED;
  }
}

static void encode_acquires(struct tkt_session *s, struct tkt_msg *msg) {
  struct tkt_client *c = s->client;
  msg->kind = TKT_MSG_ACQUIRE;
  for (struct tkt_list *node; (node = tkt_list_first(&s->queue));) {
    struct tkt_waiter *w = TKT_CONTAINER(node, struct tkt_waiter, frame.node);
    int64_t left = tkt_waiter_unsent_deadline(w) - c->now;
    if (left <= 0) { /* S6: never sent as an immediate try */
      tkt_waiter_expire_unsent(c, w);
      continue;
    }
    msg->wait_s = w->wait_s ? (uint16_t)((left + TKT_S - 1) / TKT_S) : 0;
    msg->lease_s = w->lease_s;
    put_keys(msg, w->ticket);
    if (!encode(s, &w->frame, msg)) return;
    w->state = TKT_WAITER_ENCODED;
    w->sent_at = c->now;
    w->sent_wait_s = (uint8_t)msg->wait_s;
  }
}

/* The kernel takes bytes again: what waited for a session may come here. */
static void flows_again(struct tkt_session *s) {
  s->stalled = false;
  tkt_release_new_session(s->client);
  tkt_line_dispatch(s->client);
}

struct tkt_span tkt_session_output(struct tkt_session *session, int64_t now) {
  struct tkt_session *s = session;
  struct tkt_client *c = s->client;
  tkt_set_now(c, now);
  if (s->state >= TKT_SESSION_LAST) return tkt_span(NULL, 0);
  tkt_output_pull_back(s); /* not taken last time: fresh waits and releases first, once more */
  if (s->state == TKT_SESSION_USABLE) {
    if (tkt_output_blocked(s))
      s->stalled = true;
    else if (s->stalled)
      flows_again(s);
    struct tkt_msg msg;
    encode_releases(s, &msg);
    encode_acquires(s, &msg);
    if (!s->pending) tkt_list_remove(&s->dirty); /* served: else a full stream would come forever */
  }
  if (!tkt_output_blocked(s))
    tkt_wheel_cancel(&c->wheel, &s->write_timer);
  else if (!tkt_timer_armed(&s->write_timer) && s->state <= TKT_SESSION_USABLE)
    tkt_wheel_set(&c->wheel, &s->write_timer, c->now + TKT_PROGRESS_LIMIT);
  return tkt_buf_span(&s->out);
}

void tkt_session_handed(struct tkt_session *session, size_t n) {
  struct tkt_session *s = session;
  size_t len = tkt_buf_len(&s->out);
  uint64_t upto = s->out_start + (n < len ? n : len);
  if (upto <= s->handed) return;
  s->handed = upto;
  for (struct tkt_list *node; (node = tkt_list_first(&s->encoded));) {
    struct tkt_frame *f = TKT_CONTAINER(node, struct tkt_frame, node);
    if (f->start >= upto) return;
    s->requested = true;
    tkt_list_remove(node);
    if (f->release) {
      tkt_release_sent(attempt_of(f));
    } else {
      struct tkt_waiter *w = waiter_of(f);
      w->state = TKT_WAITER_SENT;
      w->attempts++;
      tkt_list_append(&s->sent, node);
    }
  }
}

/* All that was offered is taken. */
static void drained(struct tkt_session *s) {
  struct tkt_client *c = s->client;
  tkt_wheel_cancel(&c->wheel, &s->write_timer);
  switch (s->state) {
  case TKT_SESSION_PROVING:
    if (!s->greets_like_ours) tkt_wheel_set(&c->wheel, &s->timer, c->now + TKT_SILENT_ACCEPTANCE);
    break;
  case TKT_SESSION_USABLE:
    if (!tkt_list_empty(&s->queue) || !tkt_list_empty(&s->releases)) tkt_session_touch(s, 0);
    if (s->stalled) flows_again(s);
    tkt_release_dispatch(c);
    tkt_line_dispatch(c);
    break;
  case TKT_SESSION_FINISHING:
    tkt_session_finished_writing(s);
    break;
  default:
    break;
  }
}

void tkt_session_written(struct tkt_session *session, size_t n, int64_t now) {
  struct tkt_session *s = session;
  struct tkt_client *c = s->client;
  tkt_set_now(c, now);
  if (s->state >= TKT_SESSION_LAST) return;
  tkt_session_handed(s, n);
  size_t len = tkt_buf_len(&s->out);
  if (n > len) n = len;
  tkt_buf_consume(&s->out, n);
  s->out_start += n;
  if (n == len) {
    if (n) drained(s);
    return;
  }
  if (n) tkt_wheel_set(&c->wheel, &s->write_timer, c->now + TKT_PROGRESS_LIMIT);
  if (s->state != TKT_SESSION_USABLE) return;
  s->stalled = true;
  tkt_line_return_all(c, s, false); /* another session may take them sooner */
  tkt_line_dispatch(c);
}
