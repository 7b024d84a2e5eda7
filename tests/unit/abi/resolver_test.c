/* Brokers of servers that have names. The system's look-up is replaced by one the test commands. */
#include "unit/abi/abi_test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netdb.h>
#include <sys/wait.h>

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool held;              /* look-ups wait */
  unsigned inside, calls; /* look-ups under way, so far */
  const char *address;    /* NULL: the name is not known */
} names = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void answer(const char *address, bool held) {
  pthread_mutex_lock(&names.lock);
  names.address = address;
  names.held = held;
  pthread_cond_broadcast(&names.changed);
  pthread_mutex_unlock(&names.lock);
}

static unsigned look(const unsigned *what) {
  pthread_mutex_lock(&names.lock);
  unsigned n = *what;
  pthread_mutex_unlock(&names.lock);
  return n;
}

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **list_out) {
  struct found {
    struct addrinfo info;
    struct sockaddr_in address;
  } *f = calloc(1, sizeof *f);
  (void)host;
  (void)hints;
  if (!f) abort();
  pthread_mutex_lock(&names.lock);
  names.inside++;
  names.calls++;
  while (names.held)
    pthread_cond_wait(&names.changed, &names.lock);
  names.inside--;
  const char *address = names.address;
  pthread_mutex_unlock(&names.lock);
  if (!address) {
    free(f);
    return EAI_NONAME;
  }
  f->address.sin_family = AF_INET;
  f->address.sin_port = htons((uint16_t)atoi(service));
  inet_pton(AF_INET, address, &f->address.sin_addr);
  f->info.ai_family = AF_INET;
  f->info.ai_addr = (struct sockaddr *)(void *)&f->address;
  f->info.ai_addrlen = sizeof f->address;
  *list_out = &f->info;
  return 0;
}

void freeaddrinfo(struct addrinfo *list) {
  free(list);
}

static ticketing_broker *open_named(const struct lock_server *server, int io_mode) {
  char address[64];
  snprintf(address, sizeof address, "locks.example:%u", (unsigned)server->port);
  return open_broker(address, io_mode);
}

static int open_fds(void) {
  DIR *dir = opendir("/proc/self/fd");
  int n = 0;
  while (dir && readdir(dir))
    n++;
  if (dir) closedir(dir);
  return n;
}

static const int io_modes[] = {TICKETING_IO_THREAD, TICKETING_IO_CALLER};

static void tickets_of_a_server_with_a_name(void **state) {
  (void)state;
  struct lock_server *server = lock_server_start();
  answer("127.0.0.1", false);
  for (int m = 0; m < 2; m++) {
    ticketing_broker *broker = open_named(server, io_modes[m]);
    ticketing_ticket *ticket = must_acquire(broker, "key");
    assert_int_equal(ticketing_ticket_release(ticket, NULL), TICKETING_OK);
    ticketing_ticket_free(ticket);
    assert_int_equal(ticketing_broker_close(broker), TICKETING_OK);
    ticketing_broker_free(broker);
  }
  lock_server_stop(server);
}

static void b4_the_name_is_looked_up_again_at_each_attempt(void **state) {
  (void)state;
  struct lock_server *server = lock_server_start();
  for (int m = 0; m < 2; m++) {
    answer(NULL, false);
    ticketing_broker *broker = open_named(server, io_modes[m]);
    char message[TICKETING_MESSAGE_SIZE];
    ticketing_op *op;
    assert_int_equal(
        ticketing_broker_wait_ready_start(broker, TICKETING_SECOND / 2, NULL, NULL, &op),
        TICKETING_OK);
    assert_int_equal(ticketing_op_wait(op, TICKETING_FOREVER), TICKETING_OK);
    assert_int_equal(ticketing_op_status(op), TICKETING_E_TIMEOUT);
    ticketing_op_message(op, message, sizeof message);
    assert_non_null(strstr(message, "the host name is not known"));
    ticketing_op_free(op);
    answer("127.0.0.2", false); /* a machine without a server */
    unsigned calls = look(&names.calls);
    op = start_acquire(broker, "key", 30, NULL, NULL);
    while (look(&names.calls) < calls + 2)
      assert_int_equal(ticketing_op_wait(op, 10 * TICKETING_MILLISECOND), TICKETING_PENDING);
    answer("127.0.0.1", false);
    assert_int_equal(ticketing_op_wait(op, TICKETING_FOREVER), TICKETING_OK);
    assert_int_equal(ticketing_op_status(op), TICKETING_OK);
    ticketing_op_free(op); /* gives the ticket back */
    assert_int_equal(ticketing_broker_close(broker), TICKETING_OK);
    ticketing_broker_free(broker);
    EVENTUALLY(atomic_load(&server->held_now) == 0);
  }
  lock_server_stop(server);
}

static void b7_close_does_not_wait_for_lookups(void **state) {
  (void)state;
  struct lock_server *server = lock_server_start();
  int before = open_fds();
  for (int m = 0; m < 2; m++) {
    answer("127.0.0.1", true);
    ticketing_broker *broker = open_named(server, io_modes[m]);
    ticketing_op *op = start_acquire(broker, "key", 30, NULL, NULL);
    while (look(&names.inside) == 0) {
      if (io_modes[m] == TICKETING_IO_CALLER) ticketing_broker_dispatch(broker, 0);
      usleep(1000);
    }
    assert_int_equal(ticketing_broker_close(broker), TICKETING_OK);
    assert_true(look(&names.inside) > 0); /* it still runs */
    assert_int_equal(ticketing_op_status(op), TICKETING_E_CLOSED);
    ticketing_op_free(op);
    ticketing_broker_free(broker);
    answer("127.0.0.1", false);
    EVENTUALLY(look(&names.inside) == 0);
  }
  EVENTUALLY(open_fds() == before);
  lock_server_stop(server);
}

static void b9_a_child_closes_what_a_dial_had_open(void **state) {
  (void)state;
  struct lock_server *server = lock_server_start();
  answer("127.0.0.1", true);
  int before = open_fds();
  ticketing_broker *broker = open_named(server, TICKETING_IO_THREAD);
  EVENTUALLY(look(&names.inside) == 2);       /* its two sessions */
  ticketing_broker_counters(broker, NULL, 0); /* behind the turn that dialled */
  pid_t child = fork();
  if (child == 0) {
    leaks_are_not_ours = true;
    ticketing_broker_free(broker);
    _exit(open_fds() - before);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  answer("127.0.0.1", false);
  assert_int_equal(ticketing_broker_wait_ready(broker, 20 * TICKETING_SECOND), TICKETING_OK);
  assert_int_equal(ticketing_broker_close(broker), TICKETING_OK);
  ticketing_broker_free(broker);
  lock_server_stop(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tickets_of_a_server_with_a_name),
      cmocka_unit_test(b4_the_name_is_looked_up_again_at_each_attempt),
      cmocka_unit_test(b7_close_does_not_wait_for_lookups),
      cmocka_unit_test(b9_a_child_closes_what_a_dial_had_open),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
