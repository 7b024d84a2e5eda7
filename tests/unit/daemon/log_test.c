#include "daemon/log.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void a_line_is_logfmt_in_utc(void **state) {
  (void)state;
  char line[TKT_LOG_LINE_MAX];
  struct tkt_log_field fields[] = {TKT_FIELD_TEXT("address", "127.0.0.1:5225"),
                                   TKT_FIELD_NUMBER("wire", 2)};
  size_t len = tkt_log_format(TKT_LOG_WARNING, INT64_C(1767268800007), "serving", fields, 2, line);
  assert_string_equal(line, "time=2026-01-01T12:00:00.007Z level=warning msg=serving "
                            "address=127.0.0.1:5225 wire=2\n");
  assert_int_equal(len, strlen(line));
}

static void odd_values_are_quoted_and_escaped(void **state) {
  (void)state;
  char line[TKT_LOG_LINE_MAX];
  struct tkt_log_field fields[] = {TKT_FIELD_TEXT("a", ""),
                                   TKT_FIELD_TEXT("b", "x y"),
                                   TKT_FIELD_TEXT("c", "say \"no\"\\"),
                                   TKT_FIELD_TEXT("d", "two\nlines\x1b[2J\x7f"),
                                   TKT_FIELD_TEXT("e", "k=v"),
                                   TKT_FIELD_TEXT("f", "\xc3\xa4")};
  tkt_log_format(TKT_LOG_INFO, 0, "an event", fields, 6, line);
  assert_string_equal(line,
                      "time=1970-01-01T00:00:00.000Z level=info msg=\"an event\" a=\"\" b=\"x y\" "
                      "c=\"say \\\"no\\\"\\\\\" d=\"two\\x0alines\\x1b[2J\\x7f\" e=\"k=v\" "
                      "f=\xc3\xa4\n");
}

static void a_long_line_is_cut_and_still_ends(void **state) {
  (void)state;
  static char value[3 * TKT_LOG_LINE_MAX];
  char line[TKT_LOG_LINE_MAX];
  memset(value, 'x', sizeof value - 1);
  struct tkt_log_field field = TKT_FIELD_TEXT("long", value);
  size_t len = tkt_log_format(TKT_LOG_INFO, 0, "cut", &field, 1, line);
  assert_int_equal(len, TKT_LOG_LINE_MAX - 1);
  assert_int_equal(line[len - 1], '\n');
  assert_int_equal(line[len], '\0');
}

static void levels_are_read_by_name(void **state) {
  (void)state;
  enum tkt_log_level level = TKT_LOG_ERROR;
  assert_true(tkt_log_level_parse("debug", &level));
  assert_int_equal(level, TKT_LOG_DEBUG);
  assert_true(tkt_log_level_parse("error", &level));
  assert_int_equal(level, TKT_LOG_ERROR);
  assert_false(tkt_log_level_parse("Debug", &level));
  assert_false(tkt_log_level_parse("", &level));
}

static size_t drain(int fd, char *into, size_t room) {
  ssize_t n = read(fd, into, room - 1);
  if (n < 0) n = 0;
  into[n] = '\0';
  return (size_t)n;
}

static void only_urgent_enough_lines_are_written(void **state) {
  (void)state;
  int ends[2];
  char text[4096];
  assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
  struct tkt_log log = {.fd = ends[1], .level = TKT_LOG_WARNING};
  tkt_log_plain(&log, TKT_LOG_INFO, "quiet");
  assert_int_equal(drain(ends[0], text, sizeof text), 0);
  tkt_log_plain(&log, TKT_LOG_ERROR, "loud");
  assert_true(drain(ends[0], text, sizeof text) > 0);
  assert_non_null(strstr(text, "level=error msg=loud\n"));
  close(ends[0]);
  close(ends[1]);
}

/* A pipe that nobody reads: blocking, as a supervisor hands it out. */
static void an_unread_pipe_never_stops_the_server(void **state) {
  (void)state;
  int ends[2];
  static char text[1 << 20];
  assert_int_equal(pipe2(ends, 0), 0);
  struct tkt_log log = {.fd = ends[1], .level = TKT_LOG_INFO};
  for (int i = 0; i < 5000; i++)
    tkt_log_fields(&log, TKT_LOG_INFO, "filling the pipe", TKT_FIELD_NUMBER("line", (uint64_t)i));
  assert_true(log.dropped > 0);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  while (drain(ends[0], text, sizeof text) > 0)
    continue;
  tkt_log_plain(&log, TKT_LOG_INFO, "after the flood");
  assert_int_equal(log.dropped, 0);
  drain(ends[0], text, sizeof text);
  assert_non_null(strstr(text, "log lines were dropped"));
  assert_non_null(strstr(text, "after the flood"));
  close(ends[0]);
  close(ends[1]);
}

static void a_closed_descriptor_is_harmless(void **state) {
  (void)state;
  struct tkt_log none = {.fd = -1, .level = TKT_LOG_DEBUG};
  tkt_log_plain(&none, TKT_LOG_ERROR, "nowhere");
  int fd = open("/dev/null", O_RDONLY);
  struct tkt_log read_only = {.fd = fd, .level = TKT_LOG_DEBUG};
  tkt_log_plain(&read_only, TKT_LOG_ERROR, "nowhere");
  assert_int_equal(read_only.dropped, 1);
  close(fd);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_line_is_logfmt_in_utc),
      cmocka_unit_test(odd_values_are_quoted_and_escaped),
      cmocka_unit_test(a_long_line_is_cut_and_still_ends),
      cmocka_unit_test(levels_are_read_by_name),
      cmocka_unit_test(only_urgent_enough_lines_are_written),
      cmocka_unit_test(an_unread_pipe_never_stops_the_server),
      cmocka_unit_test(a_closed_descriptor_is_harmless),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
