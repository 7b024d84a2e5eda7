#include "drive/link.h"

#include "base/address.h"
#include "drive/broker.h"
#include "net/stream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Registers what to poll for; 0 takes it out. False where the system refused. */
static bool poll_for(struct tkt_broker *broker, struct tkt_link *link, unsigned interest) {
  if (interest == link->interest) return true;
  int rc = 0;
  if (interest == 0)
    tkt_poller_remove(&broker->poller, link->stream->fd);
  else if (link->interest == 0)
    rc = tkt_poller_add(&broker->poller, link->stream->fd, interest, link);
  else
    rc = tkt_poller_change(&broker->poller, link->stream->fd, interest, link);
  if (rc != 0) return false;
  link->interest = interest;
  return true;
}

/* What an established link polls for. After the end of the stream not for reading, which would be
 * reported for ever. */
static void poll_as_needed(struct tkt_broker *broker, struct tkt_link *link, int64_t now) {
  unsigned interest =
      (link->eof ? 0u : (unsigned)TKT_POLL_READ) | (link->blocked ? (unsigned)TKT_POLL_WRITE : 0u);
  if (!poll_for(broker, link, interest))
    tkt_session_failed(link->session, "the system refused to poll the connection", now);
}

static void close_link(struct tkt_broker *broker, struct tkt_link *link) {
  poll_for(broker, link, 0);
  tkt_fork_guard_forget(&broker->guard, link->stream->fd);
  tkt_stream_destroy(link->stream);
  link->stream = NULL;
  tkt_session_set_stream(link->session, NULL);
  link->session = NULL;
  tkt_list_remove(&link->node);
  tkt_list_append(&broker->graveyard, &link->node);
}

static void opened(void *context, int fd) {
  struct tkt_broker *broker = context;
  tkt_fork_guard_note(&broker->guard, fd);
}

static void closing(void *context, int fd) {
  struct tkt_broker *broker = context;
  tkt_fork_guard_forget(&broker->guard, fd);
}

static struct tkt_tls *trust_now(struct tkt_broker *broker) {
  const struct tkt_trust *trust = &broker->trust;
  uint64_t renewed = trust->renewed, refused = trust->refused;
  struct tkt_tls *tls = tkt_trust_now(&broker->trust);
  if (trust->renewed != renewed)
    tkt_client_note(broker->client, TKT_LOG_INFO, "the CA file has changed: the new one holds");
  if (trust->refused != refused)
    tkt_client_note(broker->client, TKT_LOG_WARNING,
                    "the CA file has changed and cannot be used: the former stays in force");
  return tls;
}

static void note_unverified(struct tkt_broker *broker) {
  if (!broker->trust.tls || broker->trust.mode != TKT_TLS_SKIP_VERIFY) return;
  if (broker->unverified++ == 0)
    tkt_client_note(broker->client, TKT_LOG_WARNING,
                    "TLS without a look at the server's certificate: for tests only");
}

static struct tkt_stream *dial(struct tkt_broker *broker, const char *text,
                               const char **reason_out) {
  struct tkt_address address;
  enum tkt_address_fault fault = tkt_address_parse(tkt_span_str(text), false, &address);
  if (fault != TKT_ADDRESS_OK) {
    *reason_out = tkt_address_fault_text(fault);
    return NULL;
  }
  const struct tkt_dialer dialer = {broker->resolver, opened, closing, broker};
  struct tkt_stream *stream = tkt_dial(&address, &dialer, reason_out);
  if (!stream || !broker->trust.tls) return stream;
  *reason_out = "out of memory";
  return tkt_tls_connect(trust_now(broker), stream, address.host);
}

static void open_link(struct tkt_broker *broker, struct tkt_session *session, int64_t now) {
  const char *reason = "out of memory";
  struct tkt_link *link = calloc(1, sizeof *link);
  if (link) link->stream = dial(broker, tkt_session_address_text(session), &reason);
  if (!link || !link->stream) {
    free(link);
    tkt_session_failed(session, reason, now);
    return;
  }
  link->session = session;
  tkt_list_init(&link->node);
  tkt_list_append(&broker->links, &link->node);
  tkt_session_set_stream(session, link);
  tkt_fork_guard_note(&broker->guard, link->stream->fd);
  if (!poll_for(broker, link, link->stream->interest))
    tkt_session_failed(session, "the system refused to poll the connection", now);
}

/* Reads once and hands it in. The bytes read, 0 where there is nothing more for now or for good. */
static size_t read_once(struct tkt_broker *broker, struct tkt_link *link, size_t room,
                        int64_t now) {
  ssize_t n = link->stream->ops->read(link->stream, broker->read_buffer, room);
  if (n > 0) {
    tkt_session_input(link->session, tkt_span(broker->read_buffer, (size_t)n), now);
    return (size_t)n;
  }
  if (n == TKT_STREAM_AGAIN) return 0;
  link->eof = true;
  if (n == TKT_STREAM_EOF)
    tkt_session_eof(link->session, now);
  else
    tkt_session_failed(link->session, link->stream->reason, now);
  poll_as_needed(broker, link, now);
  return 0;
}

/* Once, and again while the stream keeps something that no poller would tell of. */
static void read_seen(struct tkt_broker *broker, struct tkt_link *link, int64_t now) {
  while (read_once(broker, link, TKT_READ_SIZE, now) > 0 && link->stream->unread)
    ;
}

static void establish(struct tkt_broker *broker, struct tkt_link *link, int64_t now) {
  struct tkt_stream *stream = link->stream;
  int rc = stream->ops->establish(stream);
  if (stream->replaced_fd >= 0) {
    tkt_poller_remove(&broker->poller, stream->replaced_fd);
    link->interest = 0;
    tkt_fork_guard_forget(&broker->guard, stream->replaced_fd);
    close(stream->replaced_fd);
    stream->replaced_fd = -1;
    tkt_fork_guard_note(&broker->guard, stream->fd);
  }
  if (rc == TKT_STREAM_BROKEN) {
    tkt_session_failed(link->session, stream->reason, now);
  } else if (rc == TKT_STREAM_AGAIN) {
    if (!poll_for(broker, link, stream->interest))
      tkt_session_failed(link->session, "the system refused to poll the connection", now);
  } else {
    link->established = true;
    note_unverified(broker);
    poll_as_needed(broker, link, now);
    tkt_session_connected(link->session, now);
    if (stream->unread) read_seen(broker, link, now);
  }
}

/* S4: what is readable at once, bounded. */
static void read_the_rest(struct tkt_broker *broker, struct tkt_link *link, int64_t now) {
  size_t left = TKT_READ_BEFORE_CLOSE;
  while (left > 0 && link->established && !link->eof) {
    size_t n = read_once(broker, link, left < TKT_READ_SIZE ? left : TKT_READ_SIZE, now);
    if (n == 0) return;
    left -= n;
  }
}

static void write_failed(struct tkt_broker *broker, struct tkt_link *link, int64_t now) {
  const char *reason = link->stream->reason;
  link->blocked = false;
  read_the_rest(broker, link, now);
  if (!link->eof) tkt_session_failed(link->session, reason, now);
}

/* Hands over what the socket takes. */
static void write_out(struct tkt_broker *broker, struct tkt_link *link, int64_t now) {
  struct tkt_stream *stream = link->stream;
  for (;;) {
    struct tkt_span bytes = tkt_session_output(link->session, now);
    if (bytes.len == 0) break;
    if (stream->hands_over_whole) tkt_session_handed(link->session, bytes.len);
    ssize_t n = stream->ops->write(stream, bytes.data, bytes.len);
    if (n == TKT_STREAM_BROKEN) {
      write_failed(broker, link, now);
      return;
    }
    if (n > 0) tkt_session_handed(link->session, (size_t)n);
    tkt_session_written(link->session, n > 0 ? (size_t)n : 0, now);
    if (n < (ssize_t)bytes.len) {
      link->blocked = true;
      poll_as_needed(broker, link, now);
      return;
    }
  }
  link->blocked = false;
  poll_as_needed(broker, link, now);
}

/* Shuts the write side once everything before it was taken. */
static void shut_if_due(struct tkt_broker *broker, struct tkt_link *link, int64_t now) {
  if (!link->shut_wanted || link->blocked || link->eof) return;
  link->shut_wanted = !link->stream->ops->shut_write(link->stream);
  link->blocked = link->shut_wanted;
  if (link->blocked) poll_as_needed(broker, link, now);
}

void tkt_link_serve(struct tkt_broker *broker, struct tkt_session *session, int64_t now) {
  struct tkt_link *link = tkt_session_stream(session);
  unsigned wants = tkt_session_wants(session);
  if (wants & TKT_WANT_CONNECT && !(wants & TKT_WANT_CLOSE) && !link) {
    open_link(broker, session, now);
    link = tkt_session_stream(session);
    wants |= tkt_session_wants(session);
  }
  if (wants & TKT_WANT_CLOSE) {
    if (link && wants & TKT_WANT_LAST_READ) read_the_rest(broker, link, now);
    if (link) close_link(broker, link);
    tkt_session_closed(session, now);
    return;
  }
  if (!link || !link->established) return;
  if (wants & TKT_WANT_WRITE && !link->blocked) write_out(broker, link, now);
  if (wants & TKT_WANT_SHUT) link->shut_wanted = true;
  shut_if_due(broker, link, now);
}

void tkt_link_event(struct tkt_broker *broker, struct tkt_link *link, unsigned events,
                    int64_t now) {
  if (!link->session) return; /* closed since the poll */
  if (!link->established) {
    establish(broker, link, now);
    return;
  }
  if (events & TKT_POLL_READ && !link->eof) read_seen(broker, link, now);
  if (events & (TKT_POLL_WRITE | TKT_POLL_BROKEN) && link->blocked) {
    write_out(broker, link, now);
    shut_if_due(broker, link, now);
  }
}

void tkt_links_abandon(struct tkt_broker *broker) {
  struct tkt_list *node;
  while ((node = tkt_list_first(&broker->links)))
    close_link(broker, TKT_CONTAINER(node, struct tkt_link, node));
}

void tkt_links_bury(struct tkt_broker *broker) {
  struct tkt_list *node;
  while ((node = tkt_list_shift(&broker->graveyard)))
    free(TKT_CONTAINER(node, struct tkt_link, node));
}
