/* The driver of a client engine that is fuzzed: it does what the sessions want, as the real one. */
#ifndef TKT_TESTS_FUZZ_CLIENT_DRIVER_H
#define TKT_TESTS_FUZZ_CLIENT_DRIVER_H

#include "fuzz/client_servers.h"

enum { SERVE_MAX = 5000 /* sessions served in one turn: beyond, the engine spins */ };

/* The first `n` bytes on their way arrive (0: all). */
static inline void deliver(struct world *w, struct peer *p, size_t n) {
  size_t len = tkt_buf_len(&p->inbound);
  if (!p->connected || p->eof || len == 0) return;
  if (n == 0 || n > len) n = len;
  uint8_t *exact = malloc(n); /* so that a sanitizer sees a read beyond it */
  FUZZ_REQUIRE(exact);
  memcpy(exact, tkt_buf_span(&p->inbound).data, n);
  tkt_buf_consume(&p->inbound, n);
  observe(w, p, tkt_span(exact, n));
  tkt_session_input(p->session, tkt_span(exact, n), w->now);
  free(exact);
}

static inline void connect_peer(struct world *w, struct peer *p) {
  if (p->connected || p->eof) return;
  p->connected = true;
  tkt_session_connected(p->session, w->now);
}

static inline struct peer *dial_peer(struct world *w, struct tkt_session *s) {
  FUZZ_REQUIRE(w->peer_count < PEERS && tkt_session_address(s) < w->addresses);
  struct peer *p = calloc(1, sizeof *p);
  FUZZ_REQUIRE(p);
  p->session = s;
  p->speaks = &tkt_wire2;
  p->heard = &tkt_wire_either;
  p->sends = TKT_PHASE_GREETING;
  p->gets = TKT_PHASE_PROOF;
  p->room = SIZE_MAX;
  p->tls = w->tls;
  w->peers[w->peer_count++] = p;
  tkt_session_set_stream(s, p);
  if (w->at_once) {
    connect_peer(w, p);
    greet(w, p);
  }
  return p;
}

static inline void free_peer(struct world *w, struct peer *p) {
  for (size_t i = 0; i < w->peer_count; i++)
    if (w->peers[i] == p) {
      memmove(&w->peers[i], &w->peers[i + 1], (w->peer_count - i - 1) * sizeof w->peers[0]);
      break;
    }
  w->peer_count--;
  if (p->begun) w->asked[p->begun_asked].outstanding = true; /* who knows */
  tkt_buf_release(&p->received);
  tkt_buf_release(&p->inbound);
  tkt_buf_release(&p->fed);
  tkt_buf_release(&p->offered);
  free(p);
}

static inline void write_peer(struct world *w, struct peer *p) {
  for (int i = 0;; i++) {
    FUZZ_REQUIRE(i < SERVE_MAX);
    struct tkt_span out = tkt_session_output(p->session, w->now);
    if (out.len == 0) break;
    FUZZ_REQUIRE(out.len <= TKT_CHUNK && !p->shut);
    size_t n = out.len < p->room ? out.len : p->room;
    if (p->tls) { /* what SSL_write did not take is offered again as it was; it may all have left */
      size_t before = tkt_buf_len(&p->offered);
      FUZZ_REQUIRE(before <= out.len);
      if (before) FUZZ_REQUIRE(memcmp(tkt_buf_span(&p->offered).data, out.data, before) == 0);
      append(&p->offered, out.data + before, out.len - before);
      receive(w, p, tkt_span(out.data + before, out.len - before));
      tkt_session_handed(p->session, out.len);
    } else {
      receive(w, p, tkt_span(out.data, n));
    }
    if (p->room != SIZE_MAX) p->room -= n;
    if (p->tls) tkt_buf_consume(&p->offered, n);
    bool whole = n == out.len;
    if (n) tkt_session_handed(p->session, n);
    tkt_session_written(p->session, n, w->now);
    if (!whole) {
      p->blocked = true;
      return;
    }
  }
  p->blocked = false;
}

static inline void shut_peer(struct peer *p) {
  if (!p->shut_wanted || p->blocked || p->eof) return;
  p->shut_wanted = false;
  p->shut = true;
}

static inline void close_peer(struct world *w, struct tkt_session *s, struct peer *p, bool read) {
  if (p && read) deliver(w, p, TKT_READ_BEFORE_CLOSE);
  if (p) free_peer(w, p);
  tkt_session_set_stream(s, NULL);
  tkt_session_closed(s, w->now);
}

/* Carries out what the sessions want, as the real driver does. */
static inline void serve(struct world *w) {
  struct tkt_session *s;
  for (int i = 0; (s = tkt_client_next_dirty(w->client)); i++) {
    FUZZ_REQUIRE(i < SERVE_MAX);
    struct peer *p = tkt_session_stream(s);
    unsigned wants = tkt_session_wants(s);
    FUZZ_REQUIRE(wants);
    if (wants & TKT_WANT_CONNECT && !(wants & TKT_WANT_CLOSE)) {
      FUZZ_REQUIRE(!p);
      p = dial_peer(w, s);
      wants = tkt_session_wants(s);
    }
    if (wants & TKT_WANT_CLOSE) {
      close_peer(w, s, p, wants & TKT_WANT_LAST_READ);
      continue;
    }
    if (!p || !p->connected) continue;
    if (wants & TKT_WANT_WRITE && !p->blocked) write_peer(w, p);
    if (wants & TKT_WANT_SHUT) {
      FUZZ_REQUIRE(!p->shut && !p->shut_wanted); /* once */
      p->shut_wanted = true;
    }
    shut_peer(p);
  }
}

#endif
