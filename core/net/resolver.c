#include "net/resolver.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct tkt_resolver {
  _Atomic unsigned refs;
  _Atomic unsigned running;
};

/* Shared by whoever asked and the thread; the last one frees it. */
struct tkt_lookup {
  _Atomic unsigned refs;
  _Atomic bool done; /* what follows it is complete */
  struct tkt_resolver *resolver;
  int fd; /* eventfd */
  const char *reason;
  int count;
  struct tkt_endpoint endpoints[TKT_LOOKUP_ENDPOINTS_MAX];
  char host[TKT_HOST_SIZE];
  char port[8];
};

struct tkt_resolver *tkt_resolver_new(void) {
  struct tkt_resolver *resolver = calloc(1, sizeof *resolver);
  if (resolver) atomic_init(&resolver->refs, 1);
  return resolver;
}

void tkt_resolver_free(struct tkt_resolver *resolver) {
  if (resolver && atomic_fetch_sub(&resolver->refs, 1) == 1) free(resolver);
}

void tkt_lookup_drop(struct tkt_lookup *lookup) {
  if (atomic_fetch_sub(&lookup->refs, 1) != 1) return;
  close(lookup->fd);
  free(lookup);
}

static const char *fault_text(int error) {
  switch (error) {
  case EAI_NONAME:
  case EAI_NODATA:
  case EAI_ADDRFAMILY:
    return "the host name is not known, or has no address";
  case EAI_AGAIN:
    return "the host name cannot be looked up now: no name server answers";
  case EAI_FAIL:
    return "the name server could not answer for the host name";
  case EAI_MEMORY:
    return "out of memory";
  default:
    return "the system failed to look the host name up";
  }
}

static bool usable(const struct addrinfo *info) {
  return (info->ai_family == AF_INET || info->ai_family == AF_INET6) &&
         info->ai_addrlen <= sizeof(struct sockaddr_storage);
}

/* The next of one family from `from` on, or of the other where `same` is false. */
static const struct addrinfo *next_of(const struct addrinfo *from, int family, bool same) {
  while (from && (!usable(from) || (from->ai_family == family) != same))
    from = from->ai_next;
  return from;
}

static void keep(struct tkt_lookup *lookup, const struct addrinfo *info) {
  struct tkt_endpoint *endpoint = &lookup->endpoints[lookup->count++];
  memcpy(&endpoint->address, info->ai_addr, info->ai_addrlen);
  endpoint->len = info->ai_addrlen;
}

/* The system's order within each family, the families in turn: where one of them leads nowhere, the
 * second attempt already takes the other (RFC 8305, section 4). */
static void keep_in_turn(struct tkt_lookup *lookup, const struct addrinfo *found) {
  while (found && !usable(found))
    found = found->ai_next;
  if (!found) return;
  int family = found->ai_family;
  const struct addrinfo *first = found, *other = next_of(found, family, false);
  while ((first || other) && lookup->count < TKT_LOOKUP_ENDPOINTS_MAX) {
    if (first) {
      keep(lookup, first);
      first = next_of(first->ai_next, family, true);
    }
    if (other && lookup->count < TKT_LOOKUP_ENDPOINTS_MAX) {
      keep(lookup, other);
      other = next_of(other->ai_next, family, false);
    }
  }
}

static void *run(void *argument) {
  struct tkt_lookup *lookup = argument;
  struct tkt_resolver *resolver = lookup->resolver;
  const struct addrinfo hints = {
      .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
  struct addrinfo *found = NULL;
  int error = getaddrinfo(lookup->host, lookup->port, &hints, &found);
  if (error == 0) {
    keep_in_turn(lookup, found);
    freeaddrinfo(found);
  }
  if (lookup->count == 0) lookup->reason = fault_text(error ? error : EAI_NONAME);
  atomic_fetch_sub(&resolver->running, 1);
  atomic_store(&lookup->done, true);
  uint64_t one = 1;
  ssize_t n = write(lookup->fd, &one, sizeof one);
  (void)n;
  tkt_lookup_drop(lookup);
  tkt_resolver_free(resolver);
  return NULL;
}

static bool start_thread(struct tkt_lookup *lookup) {
  pthread_attr_t attributes;
  pthread_t thread;
  sigset_t all, before;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int rc = pthread_create(&thread, &attributes, run, lookup);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return rc == 0;
}

struct tkt_lookup *tkt_lookup_start(struct tkt_resolver *resolver, const char *host, uint16_t port,
                                    const char **reason_out) {
  if (atomic_fetch_add(&resolver->running, 1) >= TKT_LOOKUPS_MAX) {
    atomic_fetch_sub(&resolver->running, 1);
    *reason_out = "too many look-ups of host names are still waiting for an answer";
    return NULL;
  }
  struct tkt_lookup *lookup = calloc(1, sizeof *lookup);
  int fd = lookup ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
  *reason_out = lookup ? "no file descriptor left" : "out of memory";
  if (fd >= 0) {
    atomic_init(&lookup->refs, 2);
    lookup->resolver = resolver;
    lookup->fd = fd;
    snprintf(lookup->host, sizeof lookup->host, "%s", host);
    snprintf(lookup->port, sizeof lookup->port, "%u", (unsigned)port);
    atomic_fetch_add(&resolver->refs, 1);
    if (start_thread(lookup)) return lookup;
    *reason_out = "the system refused a thread to look the host name up";
    tkt_resolver_free(resolver);
    close(fd);
  }
  free(lookup);
  atomic_fetch_sub(&resolver->running, 1);
  return NULL;
}

int tkt_lookup_fd(const struct tkt_lookup *lookup) {
  return lookup->fd;
}

int tkt_lookup_result(struct tkt_lookup *lookup, struct tkt_endpoint out[TKT_LOOKUP_ENDPOINTS_MAX],
                      const char **reason_out) {
  if (!atomic_load(&lookup->done)) return -1;
  memcpy(out, lookup->endpoints, (size_t)lookup->count * sizeof *out);
  *reason_out = lookup->reason;
  return lookup->count;
}
