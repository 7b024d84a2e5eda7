/* The life of a session up to its end: dial, greeting, proof, use. */
#include "client/engine.h"
#include "wire/proof.h"

#include <stdlib.h>

struct tkt_session *tkt_session_new(struct tkt_client *c, struct tkt_place *place) {
  struct tkt_session *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->client = c;
  s->place = place;
  s->address = place->address;
  s->usable_since = TKT_NEVER;
  s->dialled_at = c->now;
  struct tkt_list *lists[] = {&s->dirty,   &s->closing, &s->queue, &s->releases,
                              &s->encoded, &s->sent,    &s->flying};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    tkt_list_init(lists[i]);
  tkt_list_append(&c->sessions, &s->all);
  tkt_timer_init(&s->timer, TKT_TIMER_SESSION);
  tkt_timer_init(&s->write_timer, TKT_TIMER_WRITE);
  tkt_timer_init(&s->read_timer, TKT_TIMER_READ);
  s->serial = ++c->serials;
  s->next_id = 1;
  tkt_parser_init(&s->parser, &tkt_wire_either, TKT_PHASE_GREETING);
  return s;
}

void tkt_session_free(struct tkt_session *s) {
  struct tkt_client *c = s->client;
  tkt_wheel_cancel(&c->wheel, &s->timer);
  tkt_wheel_cancel(&c->wheel, &s->write_timer);
  tkt_wheel_cancel(&c->wheel, &s->read_timer);
  tkt_list_remove(&s->all);
  tkt_list_remove(&s->dirty);
  if (tkt_list_linked(&s->closing)) {
    tkt_list_remove(&s->closing);
    c->addresses[s->address].closing_count--;
  }
  tkt_parser_release(&s->parser);
  tkt_buf_release(&s->out);
  free(s);
}

void tkt_session_set_stream(struct tkt_session *session, void *stream) {
  session->stream = stream;
}
void *tkt_session_stream(const struct tkt_session *session) {
  return session->stream;
}
size_t tkt_session_address(const struct tkt_session *session) {
  return session->address;
}
const char *tkt_session_address_text(const struct tkt_session *session) {
  return session->client->addresses[session->address].text;
}

void tkt_session_touch(struct tkt_session *s, unsigned wants) {
  s->pending |= wants;
  if (!tkt_list_linked(&s->dirty)) tkt_list_append(&s->client->dirty, &s->dirty);
}

struct tkt_session *tkt_client_next_dirty(struct tkt_client *client) {
  for (struct tkt_list *node; (node = tkt_list_shift(&client->dirty));) {
    struct tkt_session *s = TKT_CONTAINER(node, struct tkt_session, dirty);
    s->told = s->pending;
    s->pending = 0;
    if (tkt_session_wants(s)) return s;
  }
  return NULL;
}

unsigned tkt_session_wants(const struct tkt_session *session) {
  unsigned wants = session->told;
  switch (session->state) {
  case TKT_SESSION_ENDED:
    return TKT_WANT_CLOSE;
  case TKT_SESSION_LAST:
    return TKT_WANT_CLOSE | TKT_WANT_LAST_READ;
  case TKT_SESSION_USABLE:
    if (session->stalled || !tkt_list_empty(&session->queue) || !tkt_list_empty(&session->releases))
      wants |= TKT_WANT_WRITE;
    break;
  default:
    break;
  }
  if (tkt_buf_len(&session->out)) wants |= TKT_WANT_WRITE;
  return wants;
}

void tkt_session_connected(struct tkt_session *session, int64_t now) {
  tkt_set_now(session->client, now);
  session->told = 0;
  if (session->state == TKT_SESSION_DIALLING) session->state = TKT_SESSION_GREETING;
}

static void become_usable(struct tkt_session *s) {
  struct tkt_client *c = s->client;
  s->state = TKT_SESSION_USABLE;
  s->usable_since = c->now;
  c->usable++;
  c->ups++;
  if (s->framed) {
    c->usable_framed++;
    c->ups_framed++;
  }
  tkt_wheel_cancel(&c->wheel, &s->timer);
  c->addresses[s->address].fault = NULL;
  tkt_count(c, TKT_COUNT_SESSIONS_USABLE);
  tkt_log_say(c, TKT_LOG_INFO, s->address,
              s->framed ? "session usable after # ms, wire 3" : "session usable after # ms, wire 2",
              NULL, (c->now - s->dialled_at) / TKT_MS);
  tkt_ready_announce(c);
  tkt_hint_choose_again(c);
}

static void refused(struct tkt_session *s, enum tkt_verdict verdict, const char *reason) {
  struct tkt_client *c = s->client;
  c->addresses[s->address].verdict = verdict;
  tkt_session_close_hard(s, TKT_LEAVE_REFUSED, reason);
  tkt_ready_reconsider(c);
}

/* The answer goes out; `phase` comes next. */
static void prove(struct tkt_session *s, size_t len, enum tkt_phase phase) {
  tkt_buf_commit(&s->out, len);
  s->proof_end = len;
  s->state = TKT_SESSION_PROVING;
  s->parser.phase = phase;
  tkt_session_touch(s, 0);
}

static void cannot_prove(struct tkt_session *s) {
  tkt_session_close_hard(s, TKT_LEAVE_ENDED, "the proof for the server could not be made");
}

/* Why a server of wire 3 does not belong to the list of addresses (B3), NULL where it does. */
static const char *misfit(const struct tkt_session *s, const struct tkt_msg *msg) {
  const struct tkt_client *c = s->client;
  if (c->address_count != 1 && c->address_count != 3 && c->address_count != 5)
    return "wire 3 takes 1, 3 or 5 addresses, another number is configured";
  if (msg->mode == TKT_WIRE_SINGLE && c->address_count > 1)
    return "the server works alone, but several addresses are configured";
  if (msg->mode == TKT_WIRE_SINGLE)
    return msg->slot == TKT_SLOT_NONE ? NULL : "the server works alone, but says it has a slot";
  if (msg->slot != s->address) return "the server's slot is not its place in the list of addresses";
  if (!c->has_identity) return "the server is one of a cluster, whose identity is not configured";
  return NULL;
}

static void greeted_framed(struct tkt_session *s, const struct tkt_msg *msg) {
  struct tkt_client *c = s->client;
  const char *why_not = misfit(s, msg);
  if (why_not) {
    refused(s, TKT_VERDICT_MODE, why_not);
    return;
  }
  s->framed = true;
  s->mode = msg->mode;
  s->greets_like_ours = true; /* there is a verdict to wait for */
  const uint8_t *identity = msg->mode == TKT_WIRE_CLUSTER ? c->identity : tkt_wire3_single_identity;
  uint8_t *room = tkt_buf_reserve(&s->out, TKT_WIRE3_PROOF_LEN, TKT_CHUNK);
  if (room && tkt_wire3_proof(tkt_span(c->token, c->token_len), msg->mode, identity, msg->slot,
                              msg->nonce, room))
    prove(s, TKT_WIRE3_PROOF_LEN, TKT_PHASE_VERDICT);
  else
    cannot_prove(s);
}

static void greeted(struct tkt_session *s, const struct tkt_msg *msg) {
  struct tkt_client *c = s->client;
  c->addresses[s->address].wire = msg->version;
  s->parser.wire = tkt_wire_of(msg->version);
  if (c->wire && c->wire != msg->version) {
    tkt_session_close_hard(s, TKT_LEAVE_ENDED,
                           c->wire == 2 ? "the server speaks wire 3, but only wire 2 is allowed"
                                        : "the server speaks wire 2, but only wire 3 is allowed");
    return;
  }
  if (msg->version == 3) {
    greeted_framed(s, msg);
    return;
  }
  tkt_ready_reconsider(c); /* sets may have lost their last hope */
  bool single = tkt_span_equal(msg->text, tkt_span_str("single"));
  s->greets_like_ours = single || tkt_span_equal(msg->text, tkt_span_str("cluster"));
  if (single && c->address_count > 1) {
    refused(s, TKT_VERDICT_MODE, "the server works alone, but several addresses are configured");
    return;
  }
  uint8_t *room = tkt_buf_reserve(&s->out, TKT_WIRE2_PROOF_LEN + 1, TKT_CHUNK);
  if (!room || !tkt_wire2_proof(tkt_span(c->token, c->token_len), msg->nonce, (char *)room)) {
    cannot_prove(s);
    return;
  }
  room[TKT_WIRE2_PROOF_LEN] = '\n';
  prove(s, TKT_WIRE2_PROOF_LEN + 1, TKT_PHASE_REPLIES);
}

static bool proof_written(const struct tkt_session *s) {
  return s->proof_end && s->out_start >= s->proof_end;
}

/* A frame behind the proof means that it was accepted, unless it says otherwise. */
static void first_frame(struct tkt_session *s, const struct tkt_msg *msg) {
  if (!proof_written(s)) return;
  if (msg->kind == TKT_MSG_LEADER || msg->kind == TKT_MSG_KEEPALIVE) {
    struct tkt_client *c = s->client;
    c->addresses[s->address].verdict = TKT_VERDICT_ACCEPTED;
    if (msg->kind == TKT_MSG_LEADER) tkt_match(s, msg); /* before any request is given to it */
    become_usable(s);
  }
}

static void refused_token(struct tkt_session *s) {
  tkt_count(s->client, TKT_COUNT_AUTH_REFUSALS);
  refused(s, TKT_VERDICT_AUTH, "the server refused the token");
}

/* Wire 3: whether our answer was right. */
static void judged(struct tkt_session *s, bool accepted) {
  if (!proof_written(s)) {
    tkt_session_poison(s, "the server sent its verdict before it had our answer", false);
  } else if (accepted) {
    s->client->addresses[s->address].verdict = TKT_VERDICT_ACCEPTED;
    s->parser.phase = TKT_PHASE_REPLIES;
    become_usable(s);
  } else {
    refused_token(s);
  }
}

static void handle(struct tkt_session *s, const struct tkt_msg *msg) {
  if (msg->kind == TKT_MSG_GREETING) {
    greeted(s, msg);
    return;
  }
  if (msg->kind == TKT_MSG_VERDICT) {
    judged(s, msg->accepted);
    return;
  }
  if (s->framed) {
    tkt_match_framed(s, msg);
    return;
  }
  if (s->state == TKT_SESSION_PROVING) {
    first_frame(s, msg);
    if (s->state == TKT_SESSION_USABLE) return;
  }
  if (msg->kind == TKT_MSG_ERROR && msg->error == TKT_WIRE_ERROR_AUTH_FAILED && !s->poisoned) {
    refused_token(s);
    return;
  }
  if (s->state == TKT_SESSION_USABLE && msg->kind != TKT_MSG_ERROR && msg->kind != TKT_MSG_MOVED)
    s->client->addresses[s->address].verdict = TKT_VERDICT_ACCEPTED;
  tkt_match(s, msg);
}

static const char *fault_text(const struct tkt_session *s, enum tkt_decode fault) {
  if (s->state == TKT_SESSION_GREETING)
    return "the server's greeting is neither of wire 2 nor of wire 3";
  switch (fault) {
  case TKT_DECODE_TOO_LONG:
    return "the server sent a frame that is too long";
  case TKT_DECODE_UNKNOWN:
    return "the server sent an unknown reply";
  default:
    return "the server sent a malformed reply";
  }
}

void tkt_session_input(struct tkt_session *session, struct tkt_span bytes, int64_t now) {
  struct tkt_session *s = session;
  struct tkt_client *c = s->client;
  tkt_set_now(c, now);
  s->told = 0;
  if (s->state == TKT_SESSION_DIALLING || s->state == TKT_SESSION_ENDED || bytes.len == 0) return;
  struct tkt_msg msg;
  enum tkt_decode got;
  tkt_parser_push(&s->parser, bytes);
  while ((got = tkt_parser_next(&s->parser, &msg)) == TKT_DECODE_OK) {
    handle(s, &msg);
    if (s->state == TKT_SESSION_ENDED) return;
  }
  if (got != TKT_DECODE_MORE) {
    tkt_session_poison(s, fault_text(s, got), false);
    return;
  }
  bool limited = s->state < TKT_SESSION_LAST && tkt_parser_mid_frame(&s->parser);
  if (limited)
    tkt_wheel_set(&c->wheel, &s->read_timer, c->now + TKT_PROGRESS_LIMIT);
  else
    tkt_wheel_cancel(&c->wheel, &s->read_timer);
}

void tkt_session_eof(struct tkt_session *session, int64_t now) {
  tkt_set_now(session->client, now);
  session->told = 0;
  tkt_session_end(session, TKT_LEAVE_ENDED, "the server closed the connection");
}

void tkt_session_failed(struct tkt_session *session, const char *reason, int64_t now) {
  tkt_set_now(session->client, now);
  session->told = 0;
  tkt_session_end(session, TKT_LEAVE_ENDED, reason);
}

void tkt_session_closed(struct tkt_session *session, int64_t now) {
  struct tkt_client *c = session->client;
  tkt_set_now(c, now);
  tkt_session_end(session, TKT_LEAVE_ENDED, "the connection was closed");
  tkt_session_settle(session);
  tkt_session_free(session);
  tkt_line_dispatch(c);
  tkt_close_review(c);
}

void tkt_session_timer(struct tkt_session *s) {
  switch (s->state) {
  case TKT_SESSION_DIALLING:
  case TKT_SESSION_GREETING:
    tkt_session_end(s, TKT_LEAVE_ENDED, "the handshake took more than 10 s");
    break;
  case TKT_SESSION_PROVING:
    if (!s->greets_like_ours && proof_written(s)) {
      s->client->addresses[s->address].verdict = TKT_VERDICT_NONE;
      become_usable(s);
    } else {
      tkt_session_end(s, TKT_LEAVE_ENDED, "the handshake took more than 10 s");
    }
    break;
  case TKT_SESSION_FINISHING:
    tkt_session_close_hard(s, TKT_LEAVE_BY_US, "a begun request could not be finished in 3 s");
    break;
  case TKT_SESSION_HALF:
    tkt_session_close_hard(s, TKT_LEAVE_BY_US, "the server did not end the session within 2 s");
    break;
  default:
    break;
  }
}

void tkt_session_write_timer(struct tkt_session *s) {
  tkt_session_close_hard(s, TKT_LEAVE_ENDED, "no byte could be written for 3 s");
}

void tkt_session_read_timer(struct tkt_session *s) {
  tkt_session_close_hard(s, TKT_LEAVE_ENDED, "a reply was not finished within 3 s");
}
