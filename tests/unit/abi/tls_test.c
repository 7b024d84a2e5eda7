/* The public interface over TLS, in both I/O modes and both versions (rules T1, S1, S3). */
#include "unit/abi/abi_test.h"

#include "unit/abi/tls_relay.h"

struct scene {
  struct world world;
  struct lock_server *server;
  struct tls_relay *relay;
};

static struct scene scene_make(int version) {
  struct scene s;
  s.world = world_make((struct claim){.names = "IP:127.0.0.1,DNS:localhost"});
  if (version) limit_to(s.world.server_tls, version);
  s.server = lock_server_start();
  s.relay = tls_relay_start(s.world.server_tls, s.server->port);
  return s;
}

static void scene_end(struct scene *s) {
  tls_relay_stop(s->relay);
  lock_server_stop(s->server);
  world_end(&s->world);
}

static ticketing_options *options_for(const char *address, int io_mode) {
  ticketing_options *options;
  assert_int_equal(ticketing_options_new(&options), TICKETING_OK);
  assert_int_equal(ticketing_options_add_address(options, address), TICKETING_OK);
  assert_int_equal(ticketing_options_set_io_mode(options, io_mode), TICKETING_OK);
  return options;
}

static ticketing_broker *open_tls(const char *address, int io_mode, int tls_mode,
                                  const char *ca_file) {
  ticketing_options *options = options_for(address, io_mode);
  ticketing_broker *broker;
  int rc = ticketing_options_set_tls(options, tls_mode, ca_file);
  if (rc != TICKETING_OK) fail_msg("%s", ticketing_options_message(options));
  assert_int_equal(ticketing_broker_open(options, &broker), TICKETING_OK);
  ticketing_options_free(options);
  return broker;
}

static void must_be_ready(ticketing_broker *broker) {
  assert_int_equal(ticketing_broker_wait_ready(broker, 20 * TICKETING_SECOND), TICKETING_OK);
}

static void end_broker(ticketing_broker *broker) {
  assert_int_equal(ticketing_broker_close(broker), TICKETING_OK);
  ticketing_broker_free(broker);
}

static uint64_t counter(ticketing_broker *broker, const char *name) {
  ticketing_counter all[128];
  size_t count = ticketing_broker_counters(broker, all, 128);
  for (size_t i = 0; i < count && i < 128; i++)
    if (strcmp(all[i].name, name) == 0) return all[i].value;
  fail_msg("there is no counter %s", name);
  return 0;
}

static const int io_modes[] = {TICKETING_IO_THREAD, TICKETING_IO_CALLER};

static void t1_tickets_are_granted_and_released_over_tls(void **state) {
  (void)state;
  static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
  for (int v = 0; v < 2; v++) {
    struct scene s = scene_make(versions[v]);
    for (int m = 0; m < 2; m++) {
      ticketing_broker *broker =
          open_tls(s.relay->address, io_modes[m], TICKETING_TLS_CA_FILE, s.world.ca);
      must_be_ready(broker);
      for (int i = 0; i < 50; i++) {
        ticketing_ticket *ticket = must_acquire(broker, "key");
        assert_int_equal(ticketing_ticket_release(ticket, NULL), TICKETING_OK);
        ticketing_ticket_free(ticket);
      }
      assert_int_equal(counter(broker, "tls_unverified_sessions"), 0);
      end_broker(broker);
    }
    scene_end(&s);
  }
}

static void t1_a_name_is_dialled_and_checked(void **state) {
  (void)state;
  struct scene s = scene_make(0);
  char address[32];
  snprintf(address, sizeof address, "localhost:%u", (unsigned)s.relay->port);
  ticketing_broker *broker =
      open_tls(address, TICKETING_IO_THREAD, TICKETING_TLS_CA_FILE, s.world.ca);
  must_be_ready(broker);
  end_broker(broker);
  scene_end(&s);
}

static void s3_cancel_of_a_sent_acquire_withdraws_it_over_tls(void **state) {
  (void)state;
  static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
  for (int v = 0; v < 2; v++) {
    struct scene s = scene_make(versions[v]);
    ticketing_broker *holder =
        open_tls(s.relay->address, TICKETING_IO_THREAD, TICKETING_TLS_CA_FILE, s.world.ca);
    ticketing_ticket *held = must_acquire(holder, "key");
    ticketing_broker *broker =
        open_tls(s.relay->address, TICKETING_IO_THREAD, TICKETING_TLS_CA_FILE, s.world.ca);
    for (int i = 0; i < 3; i++) {
      unsigned before = atomic_load(&s.server->acquires);
      ticketing_op *op = start_acquire(broker, "key", 30, NULL, NULL);
      EVENTUALLY(atomic_load(&s.server->acquires) > before);
      ticketing_op_cancel(op);
      assert_int_equal(ticketing_op_wait(op, 20 * TICKETING_SECOND), TICKETING_OK);
      assert_int_equal(ticketing_op_status(op), TICKETING_E_INDETERMINATE);
      ticketing_op_free(op);
    }
    /* Whoever comes now is next in the queue: the cancelled ones are gone from it, by the goodbye
     * that reached the server, long before their waits end. */
    ticketing_op *next = start_acquire(broker, "key", 30, NULL, NULL);
    EVENTUALLY(atomic_load(&s.server->acquires) >= 5);
    assert_int_equal(ticketing_ticket_release(held, NULL), TICKETING_OK);
    ticketing_ticket_free(held);
    assert_int_equal(ticketing_op_wait(next, 20 * TICKETING_SECOND), TICKETING_OK);
    assert_int_equal(ticketing_op_status(next), TICKETING_OK);
    ticketing_ticket *ticket;
    assert_int_equal(ticketing_op_take_ticket(next, &ticket), TICKETING_OK);
    assert_int_equal(ticketing_ticket_release(ticket, NULL), TICKETING_OK);
    ticketing_ticket_free(ticket);
    ticketing_op_free(next);
    EVENTUALLY(atomic_load(&s.server->held_now) == 0);
    end_broker(broker);
    end_broker(holder);
    scene_end(&s);
  }
}

enum { CROWD = 8, CYCLES = 100 };

static void *cycle(void *argument) {
  ticketing_broker *broker = argument;
  for (int i = 0; i < CYCLES; i++) {
    char name[16];
    snprintf(name, sizeof name, "key-%d", i % 3);
    ticketing_ticket *ticket = must_acquire(broker, name);
    assert_int_equal(ticketing_ticket_release(ticket, NULL), TICKETING_OK);
    ticketing_ticket_free(ticket);
  }
  return NULL;
}

static void b8_many_threads_share_sessions_over_tls(void **state) {
  (void)state;
  struct scene s = scene_make(0);
  ticketing_broker *broker =
      open_tls(s.relay->address, TICKETING_IO_THREAD, TICKETING_TLS_CA_FILE, s.world.ca);
  must_be_ready(broker);
  pthread_t threads[CROWD];
  for (int i = 0; i < CROWD; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, cycle, broker), 0);
  for (int i = 0; i < CROWD; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(counter(broker, "acquires_granted"), CROWD * CYCLES);
  assert_int_equal(atomic_load(&s.server->held_now), 0);
  end_broker(broker);
  scene_end(&s);
}

/* True where an entry of the log holds `part`; takes those before it. */
static bool is_logged(ticketing_broker *broker, int level, const char *part) {
  ticketing_log_entry entry = TICKETING_LOG_ENTRY_INIT;
  while (ticketing_broker_log_next(broker, &entry) == TICKETING_OK)
    if (entry.level == level && strstr(entry.text, part)) return true;
  return false;
}

/* Fails in time and returns the sentence. */
static const char *why_not(ticketing_broker *broker) {
  static char message[TICKETING_MESSAGE_SIZE];
  ticketing_op *op;
  assert_int_equal(ticketing_broker_wait_ready_start(broker, TICKETING_SECOND, NULL, NULL, &op),
                   TICKETING_OK);
  assert_int_equal(ticketing_op_wait(op, TICKETING_FOREVER), TICKETING_OK);
  assert_int_equal(ticketing_op_status(op), TICKETING_E_TIMEOUT);
  ticketing_op_message(op, message, sizeof message);
  ticketing_op_free(op);
  return message;
}

static void t1_a_server_that_does_not_hold_is_named_with_its_fault(void **state) {
  (void)state;
  struct scene s = scene_make(0), plain = scene_make(0);
  for (int m = 0; m < 2; m++) {
    ticketing_broker *broker =
        open_tls(s.relay->address, io_modes[m], TICKETING_TLS_CA_FILE, plain.world.ca);
    const char *message = why_not(broker);
    assert_non_null(strstr(message, "not signed by the trusted authority"));
    assert_non_null(strstr(message, s.relay->address));
    end_broker(broker);
    broker = open_tls(plain.server->address, io_modes[m], TICKETING_TLS_CA_FILE, s.world.ca);
    message = why_not(broker);
    assert_non_null(strstr(message, "does not speak TLS"));
    end_broker(broker);
  }
  assert_int_equal(atomic_load(&s.server->bytes), 0); /* nothing was said to it */
  scene_end(&s);
  scene_end(&plain);
}

static void t1_skipping_is_counted_and_logged(void **state) {
  (void)state;
  struct scene s = scene_make(0);
  ticketing_broker *broker =
      open_tls(s.relay->address, TICKETING_IO_THREAD, TICKETING_TLS_SKIP_VERIFY, NULL);
  must_be_ready(broker);
  assert_true(counter(broker, "tls_unverified_sessions") > 0);
  assert_true(is_logged(broker, TICKETING_LOG_WARNING, "for tests only"));
  end_broker(broker);
  scene_end(&s);
}

static void t1_a_replaced_ca_file_heals_an_open_broker(void **state) {
  (void)state;
  struct scene s = scene_make(0), other = scene_make(0);
  char file[PATH_ROOM], next[PATH_ROOM];
  write_chain(path_in(&s.world.folder, "trusted", file), &other.world.authority, NULL);
  ticketing_broker *broker =
      open_tls(s.relay->address, TICKETING_IO_THREAD, TICKETING_TLS_CA_FILE, file);
  assert_non_null(strstr(why_not(broker), "not signed by the trusted authority"));
  write_text(path_in(&s.world.folder, "next", next), "no certificate\n");
  rename(next, file);
  EVENTUALLY(counter(broker, "tls_ca_files_refused") > 0);
  assert_true(is_logged(broker, TICKETING_LOG_WARNING, "the former stays in force"));
  write_chain(next, &s.world.authority, NULL);
  rename(next, file);
  must_be_ready(broker);
  assert_int_equal(counter(broker, "tls_ca_files_taken"), 1);
  assert_true(is_logged(broker, TICKETING_LOG_INFO, "the CA file has changed"));
  end_broker(broker);
  scene_end(&s);
  scene_end(&other);
}

static void t1_options_refuse_what_cannot_be(void **state) {
  (void)state;
  struct world w = world_make((struct claim){0});
  ticketing_options *o = options_for("127.0.0.1:1", TICKETING_IO_THREAD);
  char path[PATH_ROOM];
  const struct {
    int mode;
    const char *file, *part;
  } samples[] = {
      {-1, NULL, "tls_mode -1"},
      {4, NULL, "tls_mode 4"},
      {TICKETING_TLS_CA_FILE, NULL, "ca_file is NULL"},
      {TICKETING_TLS_CA_FILE, "", "ca_file is empty"},
      {TICKETING_TLS_CA_FILE, path_in(&w.folder, "missing", path), path},
      {TICKETING_TLS_CA_FILE, w.key, "no certificate"},
      {TICKETING_TLS_OFF, w.ca, w.ca},
      {TICKETING_TLS_SYSTEM_ROOTS, w.ca, "reads none"},
      {TICKETING_TLS_SKIP_VERIFY, w.ca, "reads none"},
  };
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
    int rc = ticketing_options_set_tls(o, samples[i].mode, samples[i].file);
    assert_int_equal(rc, TICKETING_E_INVALID_ARGUMENT);
    if (!strstr(ticketing_options_message(o), samples[i].part))
      fail_msg("%s", ticketing_options_message(o));
  }
  assert_int_equal(ticketing_options_set_tls(NULL, 0, NULL), TICKETING_E_INVALID_ARGUMENT);
  /* Each setting takes the place of the one before. */
  for (int mode = TICKETING_TLS_OFF; mode <= TICKETING_TLS_SKIP_VERIFY; mode++) {
    const char *file = mode == TICKETING_TLS_CA_FILE ? w.ca : NULL;
    assert_int_equal(ticketing_options_set_tls(o, mode, file), TICKETING_OK);
    assert_string_equal(ticketing_options_message(o), "");
  }
  assert_int_equal(TICKETING_HAS_TLS, 1);
  ticketing_options_free(o);
  world_end(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(t1_tickets_are_granted_and_released_over_tls),
      cmocka_unit_test(t1_a_name_is_dialled_and_checked),
      cmocka_unit_test(s3_cancel_of_a_sent_acquire_withdraws_it_over_tls),
      cmocka_unit_test(b8_many_threads_share_sessions_over_tls),
      cmocka_unit_test(t1_a_server_that_does_not_hold_is_named_with_its_fault),
      cmocka_unit_test(t1_skipping_is_counted_and_logged),
      cmocka_unit_test(t1_a_replaced_ca_file_heals_an_open_broker),
      cmocka_unit_test(t1_options_refuse_what_cannot_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
