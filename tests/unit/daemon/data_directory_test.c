#include "daemon/data_directory.h"
#include "daemon/why.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static char why[TKT_DAEMON_WHY_SIZE];

static const char *in_folder(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/tkt-data-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static void a_missing_directory_is_made_for_its_user_alone(void **state) {
  (void)state;
  struct tkt_data_directory data;
  struct stat st;
  assert_int_equal(tkt_data_directory_open(&data, in_folder("a/b/c"), why), TKT_DATA_OK);
  assert_int_equal(stat(in_folder("a/b/c"), &st), 0);
  assert_int_equal(st.st_mode & 07777, 0700);
  assert_int_equal(stat(in_folder("a"), &st), 0);
  assert_int_equal(st.st_mode & 07777, 0700);
  tkt_data_directory_close(&data);
}

static void a_second_server_is_told_directory_and_pid(void **state) {
  (void)state;
  struct tkt_data_directory first, second;
  char pid[48];
  assert_int_equal(tkt_data_directory_open(&first, in_folder("one"), why), TKT_DATA_OK);
  assert_int_equal(tkt_data_directory_open(&second, in_folder("one"), why), TKT_DATA_IN_USE);
  snprintf(pid, sizeof pid, "pid %ld", (long)getpid());
  assert_non_null(strstr(why, pid));
  assert_non_null(strstr(why, in_folder("one")));
  assert_non_null(strstr(why, "--data"));
  assert_int_equal(second.lock_fd, -1);
  tkt_data_directory_close(&first);
  /* The lock is the kernel's: with its holder gone it is free, whatever the file still says. */
  assert_int_equal(tkt_data_directory_open(&second, in_folder("one"), why), TKT_DATA_OK);
  tkt_data_directory_close(&second);
}

static void a_file_in_its_place_is_refused(void **state) {
  (void)state;
  struct tkt_data_directory data;
  int fd = open(in_folder("file"), O_CREAT | O_WRONLY, 0600);
  assert_true(fd >= 0);
  close(fd);
  assert_int_equal(tkt_data_directory_open(&data, in_folder("file"), why), TKT_DATA_REFUSED);
  assert_non_null(strstr(why, in_folder("file")));
  assert_int_equal(tkt_data_directory_open(&data, in_folder("file/below"), why), TKT_DATA_REFUSED);
  assert_non_null(strstr(why, in_folder("file/below")));
}

static void an_absurd_path_is_refused(void **state) {
  (void)state;
  static char path[2 * TKT_DATA_PATH_MAX];
  struct tkt_data_directory data;
  assert_int_equal(tkt_data_directory_open(&data, "", why), TKT_DATA_REFUSED);
  memset(path, 'x', sizeof path - 1);
  assert_int_equal(tkt_data_directory_open(&data, path, why), TKT_DATA_REFUSED);
  assert_non_null(strstr(why, "4095"));
}

static const char *service, *xdg, *home;
static char *environment(const char *name) {
  const char *value = strcmp(name, "STATE_DIRECTORY") == 0  ? service
                      : strcmp(name, "XDG_STATE_HOME") == 0 ? xdg
                      : strcmp(name, "HOME") == 0           ? home
                                                            : NULL;
  static char copy[TKT_DATA_PATH_MAX * 2];
  if (!value) return NULL;
  snprintf(copy, sizeof copy, "%s", value);
  return copy;
}

static void assert_default(const char *expected) {
  char path[TKT_DATA_PATH_MAX];
  enum tkt_data_result result = tkt_data_directory_default(environment, path, sizeof path, why);
  assert_int_equal(result, expected ? TKT_DATA_OK : TKT_DATA_REFUSED);
  if (expected) assert_string_equal(path, expected);
}

static void the_default_follows_the_environment(void **state) {
  (void)state;
  service = "/var/lib/ticketing:/var/lib/other";
  xdg = "/x/state";
  home = "/users/me";
  assert_default("/var/lib/ticketing");
  service = "";
  assert_default("/x/state/ticketing");
  xdg = "relative"; /* void by its specification */
  assert_default("/users/me/.local/state/ticketing");
  home = NULL;
  assert_default(NULL);
  assert_non_null(strstr(why, "--data"));
  static char longest[TKT_DATA_PATH_MAX + 1];
  memset(longest, '/', sizeof longest - 1);
  service = longest;
  assert_default(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_missing_directory_is_made_for_its_user_alone),
      cmocka_unit_test(a_second_server_is_told_directory_and_pid),
      cmocka_unit_test(a_file_in_its_place_is_refused),
      cmocka_unit_test(an_absurd_path_is_refused),
      cmocka_unit_test(the_default_follows_the_environment),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
