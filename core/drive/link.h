/* A link: one session of the engine with the stream that carries it. All with the broker's lock
 * held. Born when the engine wants a connection, closed when it wants that; its memory outlives the
 * poll that may still name it. */
#ifndef TKT_DRIVE_LINK_H
#define TKT_DRIVE_LINK_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct tkt_broker;
struct tkt_session;
struct tkt_stream;

struct tkt_link {
  struct tkt_list node;
  struct tkt_session *session; /* NULL: closed */
  struct tkt_stream *stream;
  unsigned interest; /* TKT_POLL_* registered; 0: not in the poller */
  bool established;
  bool eof;         /* nothing more to read */
  bool blocked;     /* the socket took less than it was given; wait for room */
  bool shut_wanted; /* shut the write side once nothing is left to write */
};

/* Does what the session wants. */
void tkt_link_serve(struct tkt_broker *broker, struct tkt_session *session, int64_t now);

/* What the poller said about it. */
void tkt_link_event(struct tkt_broker *broker, struct tkt_link *link, unsigned events, int64_t now);

/* Closes every stream without asking the engine. */
void tkt_links_abandon(struct tkt_broker *broker);

/* Frees closed links: for whoever polls, after its events are through. */
void tkt_links_bury(struct tkt_broker *broker);

#endif
