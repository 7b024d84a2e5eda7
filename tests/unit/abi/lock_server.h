/* A small lock server on a thread of the test: wire 2, first come first served, no leases.
 *
 * It can be told to misbehave: to keep its replies back, to refuse capacity, to refuse the proof.
 */
#ifndef TESTS_UNIT_ABI_LOCK_SERVER_H
#define TESTS_UNIT_ABI_LOCK_SERVER_H

#include "base/time.h"
#include "net/clock.h"
#include "net/listener.h"
#include "wire/parser.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LS_PEERS = 64, LS_WAITERS = 4096, LS_HELD = 1024 };

struct ls_peer {
  int fd; /* -1: free */
  bool proven, half;
  struct tkt_parser parser;
  struct tkt_buf out;
};

struct ls_waiter {
  int peer; /* -1: free */
  uint64_t owner;
  int64_t until;
  uint64_t order;
  uint8_t len;
  uint8_t key[TKT_KEY_MAX];
};

struct ls_held {
  uint64_t token; /* 0: free */
  uint8_t len;
  uint8_t key[TKT_KEY_MAX];
};

struct lock_server {
  pthread_t thread;
  int listener, stop_fd;
  uint16_t port;
  char address[32];
  atomic_bool stop;
  /* What the test sets. */
  atomic_bool mute; /* requests are carried out, their replies kept back */
  atomic_bool busy; /* acquires are answered B */
  atomic_bool refuse_proof;
  /* What the test looks at. */
  atomic_uint acquires, releases, accepted, held_now;
  atomic_ullong bytes;
  /* The thread's own. */
  uint64_t token, order;
  struct ls_peer peers[LS_PEERS];
  struct ls_waiter waiters[LS_WAITERS];
  struct ls_held held[LS_HELD];
};

static void ls_send(struct ls_peer *p, const struct tkt_msg *msg) {
  bool fits = tkt_wire_append(&tkt_wire2, msg, &p->out, 1u << 24);
  assert(fits);
  (void)fits;
}

static struct ls_held *ls_find(struct lock_server *s, struct tkt_span key) {
  for (int i = 0; i < LS_HELD; i++)
    if (s->held[i].token && tkt_span_equal(tkt_span(s->held[i].key, s->held[i].len), key))
      return &s->held[i];
  return NULL;
}

static void ls_answer(struct ls_peer *p, enum tkt_msg_kind kind, uint64_t id, uint64_t token,
                      struct tkt_span key) {
  struct tkt_msg m = {.kind = kind, .id = id, .token = token, .key_count = 1};
  m.keys[0] = key;
  ls_send(p, &m);
}

static void ls_grant(struct lock_server *s, struct ls_peer *p, uint64_t owner,
                     struct tkt_span key) {
  int i = 0;
  while (i < LS_HELD - 1 && s->held[i].token)
    i++;
  struct ls_held *h = &s->held[i];
  h->token = ++s->token;
  h->len = (uint8_t)key.len;
  memcpy(h->key, key.data, key.len);
  atomic_fetch_add(&s->held_now, 1);
  ls_answer(p, TKT_MSG_GRANTED, owner, h->token, key);
}

/* The waiter of this key that came first, if the key is free. */
static void ls_hand_over(struct lock_server *s, struct tkt_span key) {
  if (ls_find(s, key)) return;
  struct ls_waiter *first = NULL;
  for (int i = 0; i < LS_WAITERS; i++) {
    struct ls_waiter *w = &s->waiters[i];
    if (w->peer >= 0 && tkt_span_equal(tkt_span(w->key, w->len), key) &&
        (!first || w->order < first->order))
      first = w;
  }
  if (!first) return;
  struct ls_peer *p = &s->peers[first->peer];
  first->peer = -1;
  ls_grant(s, p, first->owner, tkt_span(first->key, first->len));
}

static void ls_acquire(struct lock_server *s, int peer, const struct tkt_msg *m) {
  atomic_fetch_add(&s->acquires, 1);
  if (atomic_load(&s->busy)) {
    ls_answer(&s->peers[peer], TKT_MSG_BUSY, m->id, 0, m->keys[0]);
    return;
  }
  if (!ls_find(s, m->keys[0])) {
    ls_grant(s, &s->peers[peer], m->id, m->keys[0]);
    return;
  }
  if (m->wait_s == 0) {
    ls_answer(&s->peers[peer], TKT_MSG_TIMED_OUT, m->id, 0, m->keys[0]);
    return;
  }
  int i = 0;
  while (i < LS_WAITERS - 1 && s->waiters[i].peer >= 0)
    i++;
  struct ls_waiter *w = &s->waiters[i];
  w->peer = peer;
  w->owner = m->id;
  w->until = tkt_clock_now() + m->wait_s * TKT_S;
  w->order = ++s->order;
  w->len = (uint8_t)m->keys[0].len;
  memcpy(w->key, m->keys[0].data, m->keys[0].len);
}

static void ls_release(struct lock_server *s, int peer, const struct tkt_msg *m) {
  atomic_fetch_add(&s->releases, 1);
  struct ls_held *h = ls_find(s, m->keys[0]);
  bool ours = h && h->token == m->token;
  if (ours) {
    h->token = 0;
    atomic_fetch_sub(&s->held_now, 1);
  }
  ls_answer(&s->peers[peer], ours ? TKT_MSG_RELEASED : TKT_MSG_NOT_CURRENT, 0, m->token,
            m->keys[0]);
  if (ours) ls_hand_over(s, m->keys[0]);
}

static void ls_withdraw(struct lock_server *s, int peer, bool tell) {
  for (int i = 0; i < LS_WAITERS; i++) {
    struct ls_waiter *w = &s->waiters[i];
    if (w->peer != peer) continue;
    w->peer = -1;
    if (tell) ls_answer(&s->peers[peer], TKT_MSG_TIMED_OUT, w->owner, 0, tkt_span(w->key, w->len));
  }
}

static void ls_drop(struct lock_server *s, int peer) {
  struct ls_peer *p = &s->peers[peer];
  ls_withdraw(s, peer, false);
  close(p->fd);
  p->fd = -1;
  tkt_parser_release(&p->parser);
  tkt_buf_release(&p->out);
}

static void ls_message(struct lock_server *s, int peer, const struct tkt_msg *m) {
  struct ls_peer *p = &s->peers[peer];
  struct tkt_msg reply = {.kind = TKT_MSG_KEEPALIVE};
  switch (m->kind) {
  case TKT_MSG_PROOF:
    p->proven = true;
    p->parser.phase = TKT_PHASE_REQUESTS;
    if (atomic_load(&s->refuse_proof)) {
      reply.kind = TKT_MSG_ERROR;
      reply.error = TKT_WIRE_ERROR_AUTH_FAILED;
      reply.text = tkt_span_str("auth_failed");
      p->half = true;
    }
    ls_send(p, &reply);
    break;
  case TKT_MSG_ACQUIRE:
    ls_acquire(s, peer, m);
    break;
  case TKT_MSG_RELEASE:
    ls_release(s, peer, m);
    break;
  default:
    break;
  }
}

static void ls_read(struct lock_server *s, int peer) {
  struct ls_peer *p = &s->peers[peer];
  uint8_t in[16384];
  ssize_t n = recv(p->fd, in, sizeof in, 0);
  if (n < 0) {
    ls_drop(s, peer);
    return;
  }
  if (n == 0) {
    ls_withdraw(s, peer, true);
    p->half = true;
    return;
  }
  atomic_fetch_add(&s->bytes, (unsigned long long)n);
  struct tkt_msg m;
  tkt_parser_push(&p->parser, tkt_span(in, (size_t)n));
  while (tkt_parser_next(&p->parser, &m) == TKT_DECODE_OK)
    ls_message(s, peer, &m);
}

static void ls_accept(struct lock_server *s) {
  int fd = tkt_accept(s->listener, NULL, 0);
  if (fd < 0) return;
  for (int i = 0; i < LS_PEERS; i++) {
    struct ls_peer *p = &s->peers[i];
    if (p->fd >= 0) continue;
    memset(p, 0, sizeof *p);
    p->fd = fd;
    tkt_parser_init(&p->parser, &tkt_wire2, TKT_PHASE_PROOF);
    struct tkt_msg hello = {.kind = TKT_MSG_GREETING,
                            .text = tkt_span_str("single"),
                            .nonce = tkt_span_str("aB3dEf_gaB3dEf_gaB3d")};
    ls_send(p, &hello);
    atomic_fetch_add(&s->accepted, 1);
    return;
  }
  close(fd);
}

static void ls_expire(struct lock_server *s) {
  int64_t now = tkt_clock_now();
  for (int i = 0; i < LS_WAITERS; i++) {
    struct ls_waiter *w = &s->waiters[i];
    if (w->peer < 0 || w->until > now) continue;
    ls_answer(&s->peers[w->peer], TKT_MSG_TIMED_OUT, w->owner, 0, tkt_span(w->key, w->len));
    w->peer = -1;
  }
}

static void ls_flush(struct lock_server *s, int peer) {
  struct ls_peer *p = &s->peers[peer];
  if (p->proven && atomic_load(&s->mute)) return;
  struct tkt_span out = tkt_buf_span(&p->out);
  if (out.len > 0) {
    ssize_t n = send(p->fd, out.data, out.len, MSG_NOSIGNAL);
    if (n > 0) tkt_buf_consume(&p->out, (size_t)n);
  }
  if (p->half && tkt_buf_len(&p->out) == 0) ls_drop(s, peer);
}

static void *ls_run(void *argument) {
  struct lock_server *s = argument;
  while (!atomic_load(&s->stop)) {
    struct pollfd polled[LS_PEERS + 2];
    int owner[LS_PEERS + 2], n = 0;
    polled[n++] = (struct pollfd){.fd = s->stop_fd, .events = POLLIN};
    polled[n++] = (struct pollfd){.fd = s->listener, .events = POLLIN};
    for (int i = 0; i < LS_PEERS; i++)
      if (s->peers[i].fd >= 0) {
        owner[n] = i;
        polled[n++] = (struct pollfd){.fd = s->peers[i].fd, .events = POLLIN};
      }
    poll(polled, (nfds_t)n, 20);
    for (int i = 2; i < n; i++)
      if (polled[i].revents) ls_read(s, owner[i]);
    if (polled[1].revents) ls_accept(s);
    ls_expire(s);
    for (int i = 0; i < LS_PEERS; i++)
      if (s->peers[i].fd >= 0) ls_flush(s, i);
  }
  for (int i = 0; i < LS_PEERS; i++)
    if (s->peers[i].fd >= 0) ls_drop(s, i);
  return NULL;
}

static struct lock_server *lock_server_start(void) {
  struct lock_server *s = calloc(1, sizeof *s);
  assert(s);
  for (int i = 0; i < LS_PEERS; i++)
    s->peers[i].fd = -1;
  for (int i = 0; i < LS_WAITERS; i++)
    s->waiters[i].peer = -1;
  struct tkt_address any = {.host = "127.0.0.1"};
  s->listener = tkt_listen(&any, &s->port);
  assert(s->listener >= 0);
  snprintf(s->address, sizeof s->address, "127.0.0.1:%u", (unsigned)s->port);
  s->stop_fd = eventfd(0, EFD_CLOEXEC);
  int rc = pthread_create(&s->thread, NULL, ls_run, s);
  assert(rc == 0);
  (void)rc;
  return s;
}

static void lock_server_stop(struct lock_server *s) {
  uint64_t one = 1;
  atomic_store(&s->stop, true);
  ssize_t n = write(s->stop_fd, &one, sizeof one);
  (void)n;
  pthread_join(s->thread, NULL);
  close(s->listener);
  close(s->stop_fd);
  free(s);
}

#endif
