/* Process exit leaves libcrypto to the I/O thread: whatever of the library is used first, no
 * cleanup is left for exit. Each case is a child of a parent that never touches OpenSSL. */
#include "unit/abi/abi_test.h"

#include <openssl/crypto.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLEANED_UP = 9 };

static void cleaned_up(void) {
  _exit(CLEANED_UP);
}

/* Status of a child that does `first`, then exits with libcrypto told to report a cleanup. */
static int status_after(void (*first)(void)) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    first();
    OPENSSL_atexit(cleaned_up);
    exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void set_tls(int mode, const char *ca_file) {
  ticketing_options *options;
  if (ticketing_options_new(&options) != TICKETING_OK) _exit(1);
  ticketing_options_set_tls(options, mode, ca_file);
  ticketing_options_free(options);
}

static void trust_the_machine(void) {
  set_tls(TICKETING_TLS_SYSTEM_ROOTS, NULL);
}

static void name_a_file_that_is_not_there(void) {
  set_tls(TICKETING_TLS_CA_FILE, "/nonexistent/ca.pem");
}

static void open_a_broker(void) {
  ticketing_broker *broker;
  if (ticketing_connect("127.0.0.1:1", &broker) != TICKETING_OK) _exit(1);
  ticketing_broker_free(broker);
}

static void let_libcrypto_come_up_by_itself(void) {
  OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CRYPTO_STRINGS, NULL);
}

static void exit_cleans_nothing_up_under_an_io_thread(void **state) {
  (void)state;
  assert_int_equal(status_after(let_libcrypto_come_up_by_itself), CLEANED_UP); /* the probe works */
  assert_int_equal(status_after(trust_the_machine), 0);
  assert_int_equal(status_after(name_a_file_that_is_not_there), 0);
  assert_int_equal(status_after(open_a_broker), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exit_cleans_nothing_up_under_an_io_thread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
