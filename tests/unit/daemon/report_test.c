#include "daemon/report.h"

#include "daemon/ready.h"
#include "net/clock.h"
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static bool nonce(void *context, uint8_t *out, size_t len) {
  (void)context;
  return tkt_entropy(out, len);
}

/* An engine that refuses every session. */
static struct tkt_server *full_server(void) {
  struct tkt_server_config config = {
      .limits = tkt_server_limits_default, .storage = &tkt_memory_storage, .nonce = nonce};
  config.limits.sessions = 0;
  struct tkt_server *server = tkt_server_new(&config, 0);
  assert_non_null(server);
  return server;
}

static void refuse_one(struct tkt_server *server) {
  assert_null(tkt_server_accept(server, &tkt_wire2, NULL, 0));
}

static const char *said(int fd) {
  static char text[8192];
  ssize_t n = read(fd, text, sizeof text - 1);
  text[n > 0 ? n : 0] = '\0';
  return text;
}

static void refusals_make_a_line_an_interval_not_a_line_each(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
  struct tkt_log log = {.fd = ends[1], .level = TKT_LOG_INFO};
  struct tkt_server *server = full_server();
  struct tkt_report report;
  tkt_report_init(&report, 0);
  tkt_report_refusals(&report, server, &log, 1);
  assert_string_equal(said(ends[0]), ""); /* nothing was refused */
  refuse_one(server);
  tkt_report_refusals(&report, server, &log, 2);
  assert_non_null(strstr(said(ends[0]), " sessions_refused=1\n"));
  refuse_one(server);
  refuse_one(server);
  tkt_report_refusals(&report, server, &log, 1 + TKT_REPORT_INTERVAL_NS);
  assert_string_equal(said(ends[0]), ""); /* too soon */
  tkt_report_refusals(&report, server, &log, 2 + TKT_REPORT_INTERVAL_NS);
  assert_non_null(strstr(said(ends[0]), " sessions_refused=2\n"));
  tkt_report_refusals(&report, server, &log, 9 * TKT_REPORT_INTERVAL_NS);
  assert_string_equal(said(ends[0]), ""); /* told already */
  tkt_report_life(server, &log);
  assert_non_null(strstr(said(ends[0]), " sessions_refused=3\n"));
  tkt_server_free(server);
  close(ends[0]);
  close(ends[1]);
}

static void open_two_listeners(struct tkt_loop *loop, struct tkt_server *server,
                               struct tkt_log *log) {
  struct tkt_listen_spec spec;
  char why[1024];
  assert_int_equal(tkt_loop_open(loop, server, log), 0);
  assert_true(tkt_listen_spec_parse("127.0.0.1:0", &spec, why));
  assert_int_equal(tkt_loop_listen(loop, &spec), 0);
  assert_int_equal(tkt_loop_listen(loop, &spec), 0);
}

static void the_ready_line_is_json_with_real_ports_and_the_end_of_it(void **state) {
  (void)state;
  struct tkt_log log = {.fd = -1};
  struct tkt_server *server = full_server();
  struct tkt_loop loop;
  open_two_listeners(&loop, server, &log);
  int ends[2];
  assert_int_equal(pipe2(ends, 0), 0);
  assert_int_equal(tkt_ready_write(ends[1], &loop), 0);
  char expected[512];
  snprintf(expected, sizeof expected,
           "{\"listeners\":[{\"address\":\"127.0.0.1:%u\",\"wire\":2,\"tls\":false},"
           "{\"address\":\"127.0.0.1:%u\",\"wire\":2,\"tls\":false}],\"pid\":%ld}\n",
           (unsigned)loop.listeners[0].port, (unsigned)loop.listeners[1].port, (long)getpid());
  assert_string_equal(said(ends[0]), expected);
  char end;
  assert_int_equal(read(ends[0], &end, 1), 0); /* closed behind it */
  close(ends[0]);
  tkt_loop_close(&loop);
  tkt_server_free(server);
}

static void a_reader_that_is_gone_is_an_error_and_no_end(void **state) {
  (void)state;
  struct tkt_log log = {.fd = -1};
  struct tkt_server *server = full_server();
  struct tkt_loop loop;
  open_two_listeners(&loop, server, &log);
  int ends[2];
  signal(SIGPIPE, SIG_IGN);
  assert_int_equal(pipe2(ends, 0), 0);
  close(ends[0]);
  assert_int_equal(tkt_ready_write(ends[1], &loop), -EPIPE);
  assert_int_equal(fcntl(ends[1], F_GETFD), -1);
  tkt_loop_close(&loop);
  tkt_server_free(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refusals_make_a_line_an_interval_not_a_line_each),
      cmocka_unit_test(the_ready_line_is_json_with_real_ports_and_the_end_of_it),
      cmocka_unit_test(a_reader_that_is_gone_is_an_error_and_no_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
