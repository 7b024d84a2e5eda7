/* scenario_runner STYLE SERVER FOLDER|FILE...: every scenario in a process of its own, some at a
 * time; one line each and a closing line. */
#include "runner.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  AT_ONCE_DEFAULT = 10, /* most of them sleep most of the time */
  AT_ONCE_MAX = 64,
  SCENARIO_LIMIT_S = 150,
  FILES_MAX = 1000,
};

struct job {
  char name[200];
  int pid, pipe;
  int64_t started;
  char text[FAILURE_MAX];
  size_t have;
};

static const char *const style_names[] = {"blocking", "thread", "caller"};
static int passed, failed, running;
static struct job jobs[AT_ONCE_MAX];

static void conclude(struct job *job) {
  int status = 0;
  waitpid(job->pid, &status, 0);
  close(job->pipe);
  double took = (double)(ticketing_now_ns() - job->started) / 1e9;
  job->text[job->have] = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    printf("ok   %s (%.2f s)\n", job->name, took);
    passed++;
  } else {
    if (WIFSIGNALED(status))
      printf("FAIL %s (%.2f s): signal %d %s\n", job->name, took, WTERMSIG(status), job->text);
    else
      printf("FAIL %s (%.2f s): exit %d: %s\n", job->name, took, WEXITSTATUS(status), job->text);
    failed++;
  }
  fflush(stdout);
  *job = jobs[--running];
}

/* Waits until fewer than `limit` run. */
static void settle(int limit) {
  while (running && running >= limit) {
    struct pollfd fds[AT_ONCE_MAX];
    for (int i = 0; i < running; i++)
      fds[i] = (struct pollfd){.fd = jobs[i].pipe, .events = POLLIN};
    if (poll(fds, (nfds_t)running, -1) < 0) continue;
    for (int i = running - 1; i >= 0; i--) {
      if (!fds[i].revents) continue;
      struct job *job = &jobs[i];
      ssize_t n = read(job->pipe, job->text + job->have, sizeof job->text - 1 - job->have);
      if (n > 0)
        job->have += (size_t)n;
      else
        conclude(job);
    }
  }
}

static void work(const struct script *script, enum style style, const char *server,
                 const char *value, int out) {
  alarm(SCENARIO_LIMIT_S);
  signal(SIGPIPE, SIG_IGN);
  static struct run run;
  run.script = script;
  run.style = style;
  pthread_mutex_init(&run.lock, NULL);
  bool good = scenario_run(&run, server, value);
  if (good) return;
  ssize_t n = write(out, run.failure, strlen(run.failure));
  (void)n;
  _exit(1);
}

/* What each style can do, of what a scenario may need (README.md). */
static const char *const abilities[] = {"background", "handles background", "handles turns"};

static bool style_able(const struct script *script, enum style style) {
  char needs[100];
  snprintf(needs, sizeof needs, "%s", script->needs ? script->needs : "");
  char *state = NULL;
  for (char *word = strtok_r(needs, " ", &state); word; word = strtok_r(NULL, " ", &state))
    if (!strstr(abilities[style], word)) return false;
  return true;
}

static void run_script(struct script *script, enum style style, const char *server, int at_once) {
  for (int i = 0; i < (script->vary ? script->value_count : 1); i++) {
    const char *value = script->vary ? script->values[i] : NULL;
    settle(at_once);
    struct job *job = &jobs[running];
    memset(job, 0, sizeof *job);
    snprintf(job->name, sizeof job->name, value ? "%s[%.60s]" : "%s", script->name, value);
    job->started = ticketing_now_ns();
    int ends[2];
    if (pipe(ends)) exit(70);
    job->pid = fork();
    if (job->pid < 0) exit(70);
    if (job->pid == 0) {
      close(ends[0]);
      for (int j = 0; j < running; j++)
        close(jobs[j].pipe);
      int keep = dup(ends[1]);
      close(ends[1]);
      work(script, style, server, value, keep);
      script_free(script);
      exit(0);
    }
    close(ends[1]);
    job->pipe = ends[0];
    running++;
  }
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_folder(const char *folder, char **files) {
  DIR *dir = opendir(folder);
  int count = 0;
  for (struct dirent *entry; dir && (entry = readdir(dir)) && count < FILES_MAX;) {
    const char *dot = strrchr(entry->d_name, '.');
    if (!dot || strcmp(dot, ".scenario")) continue;
    if (asprintf(&files[count], "%s/%s", folder, entry->d_name) > 0) count++;
  }
  if (dir) closedir(dir);
  qsort(files, (size_t)count, sizeof *files, by_name);
  return count;
}

static void run_file(const char *path, enum style style, const char *server, int at_once) {
  char error[400];
  struct script *script = script_read(path, error, sizeof error);
  if (!script) {
    printf("FAIL %s\n", error);
    failed++;
    return;
  }
  if (style_able(script, style)) run_script(script, style, server, at_once);
  script_free(script);
}

int main(int argc, char **argv) {
  int style = 0;
  while (style < 3 && argc > 1 && strcmp(argv[1], style_names[style]))
    style++;
  if (argc < 4 || style == 3) {
    fputs("usage: scenario_runner blocking|thread|caller FAULT_SERVER FOLDER|FILE...\n", stderr);
    return 64;
  }
  const char *wish = getenv("TICKETING_SCENARIOS_AT_ONCE");
  int at_once = wish ? atoi(wish) : AT_ONCE_DEFAULT;
  if (at_once < 1 || at_once > AT_ONCE_MAX) at_once = AT_ONCE_DEFAULT;
  for (int i = 3; i < argc; i++) {
    struct stat info;
    if (stat(argv[i], &info) || !S_ISDIR(info.st_mode)) {
      run_file(argv[i], (enum style)style, argv[2], at_once);
      continue;
    }
    static char *files[FILES_MAX];
    int count = list_folder(argv[i], files);
    for (int j = 0; j < count; j++) {
      run_file(files[j], (enum style)style, argv[2], at_once);
      free(files[j]);
    }
  }
  settle(1);
  printf("%d passed, %d failed\n", passed, failed);
  return failed || !passed;
}
