/* Host names: looked up beside the I/O path, their addresses raced (rule B4, and dead addresses
 * that cost less than their timeout). The system's look-up is replaced by one the test commands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/listener.h"
#include "net/resolver.h"
#include "net/stream.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the look-up of the test --- */

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool held;              /* look-ups wait */
  unsigned inside, calls; /* look-ups under way, so far */
  int error;
  char addresses[256]; /* with commas */
  bool signals_blocked;
} names = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void answer(const char *addresses, int error) {
  pthread_mutex_lock(&names.lock);
  snprintf(names.addresses, sizeof names.addresses, "%s", addresses);
  names.error = error;
  pthread_mutex_unlock(&names.lock);
}

static void hold(bool on) {
  pthread_mutex_lock(&names.lock);
  names.held = on;
  pthread_cond_broadcast(&names.changed);
  pthread_mutex_unlock(&names.lock);
}

static unsigned inside(void) {
  pthread_mutex_lock(&names.lock);
  unsigned n = names.inside;
  pthread_mutex_unlock(&names.lock);
  return n;
}

static struct addrinfo *found(const char *text, uint16_t port) {
  struct found {
    struct addrinfo info;
    struct sockaddr_storage address;
  } *f = calloc(1, sizeof *f);
  if (!f) abort();
  struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&f->address;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&f->address;
  f->info.ai_addr = (struct sockaddr *)(void *)&f->address;
  if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
    f->info.ai_family = v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    f->info.ai_addrlen = sizeof *v4;
  } else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
    f->info.ai_family = v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    f->info.ai_addrlen = sizeof *v6;
  } else {
    f->info.ai_family = AF_UNIX;
  }
  return &f->info;
}

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **list_out) {
  sigset_t mask;
  (void)host;
  (void)hints;
  pthread_sigmask(SIG_BLOCK, NULL, &mask);
  pthread_mutex_lock(&names.lock);
  names.signals_blocked = sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGUSR1) == 1;
  names.inside++;
  names.calls++;
  while (names.held)
    pthread_cond_wait(&names.changed, &names.lock);
  int error = names.error;
  struct addrinfo **end = list_out;
  *end = NULL;
  char copy[256], *rest = copy, *text;
  strcpy(copy, names.addresses);
  while (error == 0 && (text = strsep(&rest, ","))) {
    *end = found(text, (uint16_t)atoi(service));
    end = &(*end)->ai_next;
  }
  names.inside--;
  pthread_mutex_unlock(&names.lock);
  return error;
}

void freeaddrinfo(struct addrinfo *list) {
  while (list) {
    struct addrinfo *next = list->ai_next;
    free(list);
    list = next;
  }
}

/* --- helpers --- */

static struct tkt_address named(uint16_t port) {
  struct tkt_address a = {.port = port};
  strcpy(a.host, "locks.example");
  return a;
}

static void wait_fd(int fd, short events) {
  struct pollfd p = {.fd = fd, .events = events};
  assert_int_equal(poll(&p, 1, 20000), 1);
}

static int open_fds(void) {
  DIR *dir = opendir("/proc/self/fd");
  int n = 0;
  assert_non_null(dir);
  while (readdir(dir))
    n++;
  closedir(dir);
  return n;
}

static int settled; /* descriptors open before the first test */

/* After each test. A thread that was given up closes what it had a little later. */
static int nothing_stays_open(void **state) {
  (void)state;
  for (int i = 0; i < 20000 && open_fds() != settled; i++)
    usleep(1000);
  return open_fds() == settled ? 0 : -1;
}

static int look_up(struct tkt_resolver *resolver, struct tkt_endpoint *out, const char **reason) {
  struct tkt_lookup *lookup = tkt_lookup_start(resolver, "locks.example", 5225, reason);
  assert_non_null(lookup);
  wait_fd(tkt_lookup_fd(lookup), POLLIN);
  int n = tkt_lookup_result(lookup, out, reason);
  tkt_lookup_drop(lookup);
  return n;
}

static const char *text_of(const struct tkt_endpoint *e, char out[64]) {
  const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&e->address;
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&e->address;
  bool is_v4 = e->address.ss_family == AF_INET;
  assert_int_equal(ntohs(is_v4 ? v4->sin_port : v6->sin6_port), 5225);
  assert_int_equal(e->len, is_v4 ? sizeof *v4 : sizeof *v6);
  inet_ntop(e->address.ss_family,
            is_v4 ? (const void *)&v4->sin_addr : (const void *)&v6->sin6_addr, out, 64);
  return out;
}

/* --- looking up --- */

static void families_take_turns_in_the_systems_order(void **state) {
  (void)state;
  static const char *const samples[][2] = {
      {"10.0.0.1", "10.0.0.1"},
      {"::1,::2,10.0.0.1,10.0.0.2", "::1,10.0.0.1,::2,10.0.0.2"},
      {"10.0.0.1,10.0.0.2,10.0.0.3,::1", "10.0.0.1,::1,10.0.0.2,10.0.0.3"},
      {"::1,::2,::3", "::1,::2,::3"},
      {"what,::1,what,10.0.0.1", "::1,10.0.0.1"},
      {"::1,::2,::3,::4,::5,::6,::7,::8,::9,10.0.0.1", "::1,10.0.0.1,::2,::3,::4,::5,::6,::7"},
  };
  struct tkt_resolver *resolver = tkt_resolver_new();
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
    struct tkt_endpoint out[TKT_LOOKUP_ENDPOINTS_MAX];
    const char *reason = NULL;
    char all[512] = "", one[64];
    answer(samples[i][0], 0);
    int n = look_up(resolver, out, &reason);
    for (int j = 0; j < n; j++) {
      if (j) strcat(all, ",");
      strcat(all, text_of(&out[j], one));
    }
    assert_string_equal(all, samples[i][1]);
  }
  assert_true(names.signals_blocked);
  tkt_resolver_free(resolver);
}

static void names_without_addresses_say_why(void **state) {
  (void)state;
  static const struct {
    int error;
    const char *addresses, *part;
  } samples[] = {
      {EAI_NONAME, "", "not known"},         {EAI_AGAIN, "", "no name server answers"},
      {EAI_FAIL, "", "could not answer"},    {EAI_MEMORY, "", "memory"},
      {EAI_SYSTEM, "", "the system failed"}, {0, "what", "not known"},
  };
  struct tkt_resolver *resolver = tkt_resolver_new();
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
    struct tkt_endpoint out[TKT_LOOKUP_ENDPOINTS_MAX];
    const char *reason = NULL;
    answer(samples[i].addresses, samples[i].error);
    assert_int_equal(look_up(resolver, out, &reason), 0);
    if (!strstr(reason, samples[i].part)) fail_msg("%s", reason);
  }
  tkt_resolver_free(resolver);
}

static void given_up_lookups_wait_for_nothing_and_leave_nothing(void **state) {
  (void)state;
  struct tkt_resolver *resolver = tkt_resolver_new();
  struct tkt_endpoint out[TKT_LOOKUP_ENDPOINTS_MAX];
  struct tkt_lookup *lookups[TKT_LOOKUPS_MAX];
  const char *reason = NULL;
  answer("10.0.0.1", 0);
  hold(true);
  for (int i = 0; i < TKT_LOOKUPS_MAX; i++) {
    lookups[i] = tkt_lookup_start(resolver, "locks.example", 5225, &reason);
    assert_non_null(lookups[i]);
    assert_int_equal(tkt_lookup_result(lookups[i], out, &reason), -1);
  }
  assert_null(tkt_lookup_start(resolver, "locks.example", 5225, &reason));
  assert_non_null(strstr(reason, "too many"));
  for (int i = 0; i < TKT_LOOKUPS_MAX; i++)
    tkt_lookup_drop(lookups[i]);
  /* They still run, and still count. */
  assert_null(tkt_lookup_start(resolver, "locks.example", 5225, &reason));
  hold(false);
  struct tkt_lookup *next = NULL;
  for (int i = 0; i < 20000 && !next; i++) {
    next = tkt_lookup_start(resolver, "locks.example", 5225, &reason);
    if (!next) usleep(1000);
  }
  assert_non_null(next);
  tkt_resolver_free(resolver); /* before the last look-up has ended */
  tkt_lookup_drop(next);
}

/* --- dialling --- */

static struct {
  int fds[64];
  int count, most;
} seen;

static void opened(void *context, int fd) {
  (void)context;
  assert_true(seen.count < 64);
  seen.fds[seen.count++] = fd;
  if (seen.count > seen.most) seen.most = seen.count;
}

static void closing(void *context, int fd) {
  (void)context;
  for (int i = 0; i < seen.count; i++)
    if (seen.fds[i] == fd) {
      seen.fds[i] = seen.fds[--seen.count];
      return;
    }
  fail_msg("descriptor %d was never opened", fd);
}

static struct tkt_stream *dial(struct tkt_resolver *resolver, uint16_t port, const char **reason) {
  const struct tkt_dialer dialer = {resolver, opened, closing, NULL};
  struct tkt_address a = named(port);
  memset(&seen, 0, sizeof seen);
  return tkt_dial(&a, &dialer, reason);
}

/* As the driver does. */
static int establish(struct tkt_stream *s) {
  for (;;) {
    wait_fd(s->fd, s->interest & 2 ? POLLOUT : POLLIN);
    int rc = s->ops->establish(s);
    if (s->replaced_fd >= 0) {
      closing(NULL, s->replaced_fd);
      close(s->replaced_fd);
      s->replaced_fd = -1;
    }
    if (rc != TKT_STREAM_AGAIN) return rc;
  }
}

static int listen_at(const char *host, uint16_t *port) {
  struct tkt_address a = {.port = *port};
  strcpy(a.host, host);
  a.v6_literal = strchr(host, ':') != NULL;
  return tkt_listen(&a, port);
}

/* A listener that answers no further connection, as a machine that is gone does not. */
static int fill_up(const char *host, uint16_t port, int fillers[2]) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, host, &at.sin_addr);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  assert_int_equal(bind(fd, (struct sockaddr *)(void *)&at, sizeof at), 0);
  assert_int_equal(listen(fd, 0), 0);
  for (int i = 0; i < 2; i++) {
    fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    connect(fillers[i], (struct sockaddr *)(void *)&at, sizeof at);
    usleep(20000);
  }
  return fd;
}

static void assert_arrives(int listener) {
  char peer[64];
  wait_fd(listener, POLLIN);
  int fd = tkt_accept(listener, peer, sizeof peer);
  assert_true(fd >= 0);
  close(fd);
}

static void b4_the_next_address_is_taken_where_one_refuses(void **state) {
  (void)state;
  struct tkt_resolver *resolver = tkt_resolver_new();
  uint16_t port = 0;
  int listener = listen_at("127.0.0.1", &port);
  const char *reason = NULL;
  answer("127.0.0.3,::1,127.0.0.2,127.0.0.1", 0);
  struct tkt_stream *s = dial(resolver, port, &reason);
  assert_non_null(s);
  assert_int_equal(establish(s), 0);
  assert_arrives(listener);
  assert_int_equal(seen.count, 1); /* the winner */
  assert_int_equal(seen.fds[0], s->fd);
  assert_int_equal(s->ops->write(s, (const uint8_t *)"x", 1), 1);
  tkt_stream_destroy(s);
  close(listener);
  tkt_resolver_free(resolver);
}

static void b4_a_silent_first_address_does_not_cost_its_timeout(void **state) {
  (void)state;
  struct tkt_resolver *resolver = tkt_resolver_new();
  uint16_t port = 0;
  int listener = listen_at("127.0.0.1", &port), fillers[2];
  int clogged = fill_up("127.0.0.2", port, fillers);
  const char *reason = NULL;
  answer("127.0.0.2,127.0.0.1", 0);
  struct tkt_stream *s = dial(resolver, port, &reason);
  assert_non_null(s);
  assert_int_equal(establish(s), 0); /* the kernel would try the first one for minutes */
  assert_arrives(listener);
  assert_true(seen.most >= 4); /* set, timer and both attempts side by side */
  assert_int_equal(seen.count, 1);
  tkt_stream_destroy(s);
  close(listener);
  close(clogged);
  close(fillers[0]);
  close(fillers[1]);
  tkt_resolver_free(resolver);
}

static void b4_a_slow_first_address_is_not_given_up(void **state) {
  (void)state;
  struct tkt_resolver *resolver = tkt_resolver_new();
  uint16_t port = 0;
  int listener = listen_at("127.0.0.1", &port), fillers[2];
  int clogged = fill_up("127.0.0.2", port, fillers);
  const char *reason = NULL;
  close(listener); /* the second refuses */
  answer("127.0.0.2,127.0.0.1", 0);
  struct tkt_stream *s = dial(resolver, port, &reason);
  assert_non_null(s);
  int rc = TKT_STREAM_AGAIN;
  for (int i = 0; i < 2; i++) { /* the answer, then the timer: the second attempt fails */
    wait_fd(s->fd, POLLIN);
    rc = s->ops->establish(s);
    assert_int_equal(rc, TKT_STREAM_AGAIN);
  }
  /* Room for it now: its connection comes up with the kernel's next try. */
  for (int i = 0; i < 2; i++) {
    int fd = accept(clogged, NULL, NULL);
    if (fd >= 0) close(fd);
  }
  listen(clogged, 16);
  assert_int_equal(establish(s), 0);
  tkt_stream_destroy(s);
  close(clogged);
  close(fillers[0]);
  close(fillers[1]);
  tkt_resolver_free(resolver);
}

static void b4_addresses_that_all_refuse_say_so(void **state) {
  (void)state;
  struct tkt_resolver *resolver = tkt_resolver_new();
  uint16_t port = 0;
  const char *reason = NULL;
  close(listen_at("127.0.0.1", &port));
  answer("127.0.0.1,127.0.0.2", 0);
  struct tkt_stream *s = dial(resolver, port, &reason);
  assert_non_null(s);
  assert_int_equal(establish(s), TKT_STREAM_BROKEN);
  assert_string_equal(s->reason, "connection refused");
  tkt_stream_destroy(s);
  assert_int_equal(seen.count, 0);
  answer("", EAI_NONAME);
  s = dial(resolver, port, &reason);
  assert_int_equal(establish(s), TKT_STREAM_BROKEN);
  assert_non_null(strstr(s->reason, "not known"));
  tkt_stream_destroy(s);
  assert_int_equal(seen.count, 0);
  tkt_resolver_free(resolver);
}

static void b4_names_are_looked_up_at_each_attempt(void **state) {
  (void)state;
  struct tkt_resolver *resolver = tkt_resolver_new();
  uint16_t port = 0;
  int first = listen_at("127.0.0.1", &port), second = listen_at("127.0.0.2", &port);
  const char *reason = NULL, *const where[] = {"127.0.0.1", "127.0.0.2"};
  int listeners[] = {first, second};
  for (int i = 0; i < 2; i++) {
    answer(where[i], 0);
    struct tkt_stream *s = dial(resolver, port, &reason);
    assert_int_equal(establish(s), 0);
    assert_arrives(listeners[i]);
    tkt_stream_destroy(s);
    close(listeners[i]);
  }
  tkt_resolver_free(resolver);
}

static void a_dial_ends_at_any_time_and_leaves_nothing(void **state) {
  (void)state;
  struct tkt_resolver *resolver = tkt_resolver_new();
  uint16_t port = 0;
  int listener = listen_at("127.0.0.1", &port), fillers[2];
  int clogged = fill_up("127.0.0.2", port, fillers);
  const char *reason = NULL;
  answer("127.0.0.2,127.0.0.2", 0);
  hold(true);
  struct tkt_stream *s = dial(resolver, port, &reason); /* while the name is looked up */
  assert_int_equal(s->ops->establish(s), TKT_STREAM_AGAIN);
  for (int i = 0; i < 20000 && inside() == 0; i++)
    usleep(1000);
  assert_int_equal(inside(), 1);
  tkt_stream_destroy(s);
  assert_int_equal(seen.count, 0);
  hold(false);
  for (int steps = 1; steps <= 2; steps++) { /* with one attempt under way, with two */
    s = dial(resolver, port, &reason);
    for (int i = 0; i < steps; i++) {
      wait_fd(s->fd, POLLIN);
      assert_int_equal(s->ops->establish(s), TKT_STREAM_AGAIN);
    }
    tkt_stream_destroy(s);
    assert_int_equal(seen.count, 0);
  }
  close(listener);
  close(clogged);
  close(fillers[0]);
  close(fillers[1]);
  tkt_resolver_free(resolver);
}

static void localhost_and_numbers_need_no_lookup(void **state) {
  (void)state;
  uint16_t port = 0;
  int listener = listen_at("127.0.0.1", &port);
  const char *const hosts[] = {"127.0.0.1", "localhost", "LOCALHOST"};
  unsigned calls = names.calls;
  for (int i = 0; i < 3; i++) {
    const struct tkt_dialer dialer = {0};
    struct tkt_address a = {.port = port};
    const char *reason = NULL;
    strcpy(a.host, hosts[i]);
    struct tkt_stream *s = tkt_dial(&a, &dialer, &reason);
    assert_non_null(s);
    int rc = TKT_STREAM_AGAIN;
    while (rc == TKT_STREAM_AGAIN) {
      wait_fd(s->fd, POLLOUT);
      rc = s->ops->establish(s);
      if (s->replaced_fd >= 0) close(s->replaced_fd);
      s->replaced_fd = -1;
    }
    assert_int_equal(rc, 0);
    tkt_stream_destroy(s);
  }
  assert_int_equal(names.calls, calls);
  close(listener);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(families_take_turns_in_the_systems_order, nothing_stays_open),
      cmocka_unit_test_teardown(names_without_addresses_say_why, nothing_stays_open),
      cmocka_unit_test_teardown(given_up_lookups_wait_for_nothing_and_leave_nothing,
                                nothing_stays_open),
      cmocka_unit_test_teardown(b4_the_next_address_is_taken_where_one_refuses, nothing_stays_open),
      cmocka_unit_test_teardown(b4_a_silent_first_address_does_not_cost_its_timeout,
                                nothing_stays_open),
      cmocka_unit_test_teardown(b4_a_slow_first_address_is_not_given_up, nothing_stays_open),
      cmocka_unit_test_teardown(b4_addresses_that_all_refuse_say_so, nothing_stays_open),
      cmocka_unit_test_teardown(b4_names_are_looked_up_at_each_attempt, nothing_stays_open),
      cmocka_unit_test_teardown(a_dial_ends_at_any_time_and_leaves_nothing, nothing_stays_open),
      cmocka_unit_test_teardown(localhost_and_numbers_need_no_lookup, nothing_stays_open),
  };
  settled = open_fds();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
