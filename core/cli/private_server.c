#include "cli/private_server.h"

#include "cli/throwaway_certificate.h"
#include "cli/values.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  READY_LIMIT_MS = 10000,
  STOP_LIMIT_MS = 6000, /* the server promises 5 s */
  STOP_STEP_MS = 5,
  READY_LINE_SIZE = 2048,
  READY_FD = 3,
  PATH_SIZE = 600,
  EXEC_FAILED = 127,
};

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_BOOTTIME, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_ms(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

/* A copy of our environment without what would make it another server: settings of ours, and what
 * a service manager gave to us alone. The strings stay those of `environ`. NULL: out of memory. */
static char **server_environment(void) {
  static const char *const left_out[] = {"TICKETING_", "LISTEN_",
                                         "NOTIFY_SOCKET=", "STATE_DIRECTORY="};
  size_t count = 0, kept = 0;
  while (environ[count])
    count++;
  char **copy = calloc(count + 1, sizeof *copy);
  for (size_t i = 0; copy && i < count; i++) {
    bool keep = true;
    for (size_t j = 0; j < sizeof left_out / sizeof *left_out; j++)
      if (strncmp(environ[i], left_out[j], strlen(left_out[j])) == 0) keep = false;
    if (keep) copy[kept++] = environ[i];
  }
  return copy;
}

/* The child's half; never returns. Only async-signal-safe calls: the parent may have threads. */
static void become_server(const char *data, const char *log, int cpu,
                          const struct tkt_throwaway *tls, int ready_fd, pid_t parent,
                          char **environment) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(EXEC_FAILED);
  struct sigaction plain = {.sa_handler = SIG_DFL};
  sigaction(SIGINT, &plain, NULL);
  sigaction(SIGTERM, &plain, NULL);
  sigaction(SIGHUP, &plain, NULL);
  if (cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  int none = open("/dev/null", O_RDWR | O_CLOEXEC);
  int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (none < 0 || out < 0) _exit(EXEC_FAILED);
  dup2(none, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  if (ready_fd == READY_FD) {
    fcntl(ready_fd, F_SETFD, 0);
  } else {
    dup2(ready_fd, READY_FD);
  }
  char *const arguments[] = {(char[]){"ticketing"},
                             (char[]){"serve"},
                             (char[]){"--listen"},
                             tls ? (char[]){"127.0.0.1:0,tls"} : (char[]){"127.0.0.1:0"},
                             (char[]){"--durability"},
                             (char[]){"memory"},
                             (char[]){"--ready-fd"},
                             (char[]){"3"},
                             (char[]){"--data"},
                             (char *)(uintptr_t)data,
                             tls ? (char[]){"--tls-cert"} : NULL,
                             tls ? (char *)(uintptr_t)tls->certificate : NULL,
                             (char[]){"--tls-key"},
                             tls ? (char *)(uintptr_t)tls->key : NULL,
                             NULL};
  execve("/proc/self/exe", arguments, environment);
  static const char sentence[] = "cannot run /proc/self/exe\n";
  ssize_t ignored = write(STDERR_FILENO, sentence, sizeof sentence - 1);
  (void)ignored;
  _exit(EXEC_FAILED);
}

/* One line from `fd` without its LF, or false where none came in time. */
static bool read_ready_line(int fd, char *line, size_t size) {
  int64_t limit = now_ms() + READY_LIMIT_MS;
  size_t have = 0;
  for (;;) {
    int64_t left = limit - now_ms();
    if (left <= 0 || have + 1 >= size) return false;
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    int n = poll(&wanted, 1, (int)left);
    if (n < 0 && errno == EINTR) return false;
    if (n <= 0) continue;
    ssize_t got = read(fd, line + have, size - 1 - have);
    if (got <= 0) return false;
    have += (size_t)got;
    line[have] = '\0';
    char *end = strchr(line, '\n');
    if (end) {
      *end = '\0';
      return true;
    }
  }
}

/* The server listens on one address only, so the first loopback one in the line is it. */
static bool find_address(const char *line, char *address) {
  static const char host[] = "127.0.0.1:";
  const char *start = strstr(line, host);
  if (!start) return false;
  size_t len = sizeof host - 1;
  while (isdigit((unsigned char)start[len]))
    len++;
  if (len == sizeof host - 1 || len >= TKT_PRIVATE_ADDRESS_SIZE) return false;
  memcpy(address, start, len);
  address[len] = '\0';
  return true;
}

/* The last line the server wrote, for the error sentence. */
static void last_log_line(const char *log, char *line, size_t size) {
  snprintf(line, size, "it left no message");
  FILE *file = fopen(log, "re");
  if (!file) return;
  char next[256];
  while (fgets(next, sizeof next, file)) {
    next[strcspn(next, "\n")] = '\0';
    if (next[0]) snprintf(line, size, "%s", next);
  }
  fclose(file);
}

bool tkt_private_server_start(struct tkt_private_server *server, const char *folder, int cpu,
                              const struct tkt_throwaway *tls, char *why) {
  *server = (struct tkt_private_server){0};
  char data[PATH_SIZE], log[PATH_SIZE];
  snprintf(data, sizeof data, "%s/server", folder);
  snprintf(log, sizeof log, "%s/server.log", folder);
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) {
    snprintf(why, TKT_VALUE_WHY_SIZE, "cannot make a pipe to the server: %s", strerror(errno));
    return false;
  }
  char **environment = server_environment();
  pid_t parent = getpid();
  pid_t pid = environment ? fork() : -1;
  if (pid == 0) become_server(data, log, cpu, tls, ready[1], parent, environment);
  close(ready[1]);
  free(environment);
  if (pid < 0) {
    snprintf(why, TKT_VALUE_WHY_SIZE, "cannot start the server process: %s", strerror(errno));
    close(ready[0]);
    return false;
  }
  server->pid = pid;
  char line[READY_LINE_SIZE];
  bool serves = read_ready_line(ready[0], line, sizeof line) && find_address(line, server->address);
  close(ready[0]);
  if (serves) return true;
  tkt_private_server_stop(server);
  char said[256];
  last_log_line(log, said, sizeof said);
  snprintf(why, TKT_VALUE_WHY_SIZE, "the private server did not start: %s", said);
  return false;
}

bool tkt_private_server_alive(struct tkt_private_server *server) {
  if (server->pid && waitpid(server->pid, NULL, WNOHANG) == server->pid) server->pid = 0;
  return server->pid != 0;
}

void tkt_private_server_stop(struct tkt_private_server *server) {
  if (!tkt_private_server_alive(server)) return;
  kill(server->pid, SIGTERM);
  for (int64_t limit = now_ms() + STOP_LIMIT_MS; now_ms() < limit;) {
    if (!tkt_private_server_alive(server)) return;
    sleep_ms(STOP_STEP_MS);
  }
  kill(server->pid, SIGKILL);
  while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
    ;
  server->pid = 0;
}
