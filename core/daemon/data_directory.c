#include "daemon/data_directory.h"

#include "daemon/why.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define REFUSE(why, ...) (tkt_why(why, __VA_ARGS__), TKT_DATA_REFUSED)

enum tkt_data_result tkt_data_directory_default(char *(*environment)(const char *name), char *path,
                                                size_t size, char *why) {
  const char *base = environment("STATE_DIRECTORY"); /* systemd: a list divided by colons */
  int n;
  if (base && *base) {
    n = snprintf(path, size, "%.*s", (int)strcspn(base, ":"), base);
  } else if ((base = environment("XDG_STATE_HOME")) && *base == '/') { /* relative ones are void */
    n = snprintf(path, size, "%s/ticketing", base);
  } else if ((base = environment("HOME")) && *base == '/') {
    n = snprintf(path, size, "%s/.local/state/ticketing", base);
  } else {
    return REFUSE(why, "no data directory: none of $STATE_DIRECTORY, $XDG_STATE_HOME and $HOME is "
                       "set to a full path; say --data DIR");
  }
  if (n <= 0 || (size_t)n >= size)
    return REFUSE(why,
                  "the data directory's path from the environment is longer than %zu bytes; "
                  "say --data DIR",
                  size - 1);
  return TKT_DATA_OK;
}

/* mkdir -p with 0700 for what is missing. 0 or -errno. */
static int make_directories(const char *path) {
  char partial[TKT_DATA_PATH_MAX];
  size_t len = strlen(path);
  memcpy(partial, path, len + 1);
  for (size_t i = 1; i <= len; i++) {
    if (partial[i] != '/' && partial[i] != '\0') continue;
    char kept = partial[i];
    partial[i] = '\0';
    if (mkdir(partial, 0700) != 0 && errno != EEXIST) {
      /* A read-only or foreign parent that exists is no fault: mkdir says so before EEXIST. */
      int reason = errno;
      struct stat st;
      if (stat(partial, &st) != 0) return -reason;
    }
    partial[i] = kept;
  }
  return 0;
}

static long holder_pid(int lock_fd) {
  char text[32];
  ssize_t n = pread(lock_fd, text, sizeof text - 1, 0);
  if (n <= 0) return 0;
  text[n] = '\0';
  return strtol(text, NULL, 10);
}

static enum tkt_data_result lock(struct tkt_data_directory *data, char *why) {
  data->lock_fd =
      openat(data->directory_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (data->lock_fd < 0)
    return REFUSE(why,
                  "cannot open the lock file of the data directory %.512s: %s; give this user "
                  "write permission there, or say --data with another directory",
                  data->path, strerror(errno));
  if (flock(data->lock_fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      return REFUSE(why,
                    "cannot lock the data directory %.512s: %s; say --data with a directory on "
                    "a local file system",
                    data->path, strerror(errno));
    long pid = holder_pid(data->lock_fd);
    char who[48] = "another server";
    if (pid > 0) snprintf(who, sizeof who, "the server with pid %ld", pid);
    tkt_why(why,
            "the data directory %.512s is in use by %s; stop that one, or give this one a "
            "directory of its own with --data DIR",
            data->path, who);
    return TKT_DATA_IN_USE;
  }
  char text[32];
  int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
  if (ftruncate(data->lock_fd, 0) != 0 || pwrite(data->lock_fd, text, (size_t)n, 0) != n)
    return REFUSE(why,
                  "cannot write into the data directory %.512s: %s; make room there, or say "
                  "--data with another directory",
                  data->path, strerror(errno));
  return TKT_DATA_OK;
}

enum tkt_data_result tkt_data_directory_open(struct tkt_data_directory *data, const char *path,
                                             char *why) {
  data->directory_fd = data->lock_fd = -1;
  size_t len = strlen(path);
  if (len == 0 || len >= TKT_DATA_PATH_MAX)
    return REFUSE(why, "--data has %zu bytes; it may be a path of 1 to %d bytes", len,
                  TKT_DATA_PATH_MAX - 1);
  memcpy(data->path, path, len + 1);
  int rc = make_directories(path);
  if (rc != 0)
    return REFUSE(why,
                  "cannot create the data directory %.512s: %s; create it for this user, or "
                  "say --data with another directory",
                  path, strerror(-rc));
  data->directory_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (data->directory_fd < 0)
    return REFUSE(why,
                  "cannot use the data directory %.512s: %s; say --data with a directory of "
                  "this user",
                  path, strerror(errno));
  enum tkt_data_result result = lock(data, why);
  if (result != TKT_DATA_OK) tkt_data_directory_close(data);
  return result;
}

void tkt_data_directory_close(struct tkt_data_directory *data) {
  /* The lock file stays: removing it would let two servers lock two files of one name. */
  if (data->lock_fd >= 0) close(data->lock_fd);
  if (data->directory_fd >= 0) close(data->directory_fd);
  data->directory_fd = data->lock_fd = -1;
}
