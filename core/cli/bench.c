/* `ticketing bench`: options, the private server, the workloads one after the other. */
#include "cli/bench.h"

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/private_server.h"
#include "cli/scratch.h"
#include "cli/status.h"
#include "cli/values.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKLOADS = 2, CPU_MAX = CPU_SETSIZE - 1 };

enum option_id {
  OPT_ADDR = 256,
  OPT_TASKS,
  OPT_KEYS,
  OPT_CYCLES,
  OPT_IO,
  OPT_THREADS,
  OPT_PIN,
  OPT_JSON,
  OPT_HELP
};

struct bench {
  const char *name;
  const char *address;                   /* NULL: a private server */
  uint64_t tasks, keys, cycles, threads; /* 0: not given */
  int io_mode;                           /* -1: not given */
  int server_cpu, client_cpu;
  bool json;
  bool cycle, latency;
};

static const char help[] =
    "usage: ticketing bench [cycle] [latency] [OPTION...]\n"
    "\n"
    "Measures acquire/release cycles against a lock server. Without --addr it starts a private\n"
    "one on a free loopback port and stops it afterwards. Without a workload it runs both.\n"
    "\n"
    "  cycle     many tasks, each acquires its key, releases it and waits for the answer;\n"
    "            with fewer keys than tasks they contend\n"
    "  latency   one task, one key that nobody else wants, blocking calls\n"
    "\n"
    "  --addr HOST:PORT     measure this server instead of a private one\n"
    "  --tasks N            tasks of `cycle` (64; up to 16384)\n"
    "  --keys N             keys of `cycle` (32; up to 1000000); task t uses key t modulo N\n"
    "  --cycles N           cycles in all (40000 for `cycle`, 10000 for `latency`)\n"
    "  --io caller|thread   caller: one event loop, no further thread (default);\n"
    "                       thread: the broker has an I/O thread, every task is a blocking thread\n"
    "  --threads N          the tasks of --io thread (64; up to 4096)\n"
    "  --pin SERVER,CLIENT  run the private server and this program on one CPU each, by number\n"
    "  --json               one JSON document on standard output, durations in ns\n"
    "  --help               this text\n"
    "\n"
    "A bar on standard error shows the progress where that is a terminal.\n";

static void print_help(void) {
  static const int statuses[] = {TKT_EXIT_FAILED, TKT_EXIT_USAGE, TKT_EXIT_NO_SERVER,
                                 TKT_EXIT_SYSTEM, TKT_EXIT_AUTH,  -1};
  char text[2048];
  printf("%s\nExit status (1: a cycle failed; 128 and the signal's number after Ctrl-C):\n%s", help,
         tkt_exit_help(statuses, text, sizeof text));
}

static int refuse(const struct bench *bench, const char *why) {
  fprintf(stderr, "%s: %s\nTry '%s --help'.\n", bench->name, why, bench->name);
  return TKT_EXIT_USAGE;
}

static bool read_pin(struct bench *bench, const char *text, char *why) {
  char copy[32];
  uint64_t server, client;
  char *comma;
  if (strlen(text) < sizeof copy) {
    strcpy(copy, text);
    comma = strchr(copy, ',');
    if (comma) {
      *comma = '\0';
      if (!tkt_value_count("--pin", copy, 0, CPU_MAX, "", &server, why)) return false;
      if (!tkt_value_count("--pin", comma + 1, 0, CPU_MAX, "", &client, why)) return false;
      cpu_set_t allowed;
      if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 &&
          (!CPU_ISSET(server, &allowed) || !CPU_ISSET(client, &allowed))) {
        snprintf(why, TKT_VALUE_WHY_SIZE,
                 "--pin: %s names a CPU that this process may not use (taskset -p shows which)",
                 text);
        return false;
      }
      bench->server_cpu = (int)server;
      bench->client_cpu = (int)client;
      return true;
    }
  }
  char quoted[TKT_VALUE_QUOTE_SIZE];
  snprintf(why, TKT_VALUE_WHY_SIZE, "--pin: %s is not SERVER,CLIENT, two CPU numbers such as 0,1",
           tkt_value_quote(text, quoted));
  return false;
}

static bool read_io(struct bench *bench, const char *text, char *why) {
  if (strcmp(text, "caller") == 0) {
    bench->io_mode = TICKETING_IO_CALLER;
  } else if (strcmp(text, "thread") == 0) {
    bench->io_mode = TICKETING_IO_THREAD;
  } else {
    char quoted[TKT_VALUE_QUOTE_SIZE];
    snprintf(why, TKT_VALUE_WHY_SIZE, "--io: %s is neither caller nor thread",
             tkt_value_quote(text, quoted));
    return false;
  }
  return true;
}

static bool read_option(struct bench *bench, int option, const char *value, char *why) {
  switch (option) {
  case OPT_ADDR:
    bench->address = value;
    return tkt_value_address("--addr", value, why);
  case OPT_TASKS:
    return tkt_value_count("--tasks", value, 1, TKT_BENCH_TASKS_MAX, "tasks", &bench->tasks, why);
  case OPT_KEYS:
    return tkt_value_count("--keys", value, 1, TKT_BENCH_KEYS_MAX, "keys", &bench->keys, why);
  case OPT_CYCLES:
    return tkt_value_count("--cycles", value, 1, TKT_BENCH_CYCLES_MAX, "cycles", &bench->cycles,
                           why);
  case OPT_THREADS:
    return tkt_value_count("--threads", value, 1, TKT_BENCH_THREADS_MAX, "threads", &bench->threads,
                           why);
  case OPT_IO:
    return read_io(bench, value, why);
  default:
    return read_pin(bench, value, why);
  }
}

static bool read_workloads(struct bench *bench, int argc, char **argv, char *why) {
  for (int i = optind; i < argc; i++) {
    if (strcmp(argv[i], "cycle") == 0) {
      bench->cycle = true;
    } else if (strcmp(argv[i], "latency") == 0) {
      bench->latency = true;
    } else {
      char quoted[TKT_VALUE_QUOTE_SIZE];
      snprintf(why, TKT_VALUE_WHY_SIZE, "no workload is called %s; there are cycle and latency",
               tkt_value_quote(argv[i], quoted));
      return false;
    }
  }
  if (!bench->cycle && !bench->latency) bench->cycle = bench->latency = true;
  return true;
}

/* What single options cannot see. */
static bool check_together(const struct bench *bench, char *why) {
  if (bench->address && bench->server_cpu >= 0) {
    snprintf(why, TKT_VALUE_WHY_SIZE,
             "--pin places the private server, and --addr names another one: leave one out "
             "(taskset pins a server of yours)");
  } else if (bench->threads && bench->io_mode == TICKETING_IO_CALLER) {
    snprintf(why, TKT_VALUE_WHY_SIZE,
             "--threads belongs to --io thread; an event loop has --tasks");
  } else if (bench->threads && bench->tasks && bench->threads != bench->tasks) {
    snprintf(why, TKT_VALUE_WHY_SIZE,
             "--threads %llu and --tasks %llu: every task is a thread, "
             "give one of them",
             (unsigned long long)bench->threads, (unsigned long long)bench->tasks);
  } else if (bench->io_mode == TICKETING_IO_THREAD && bench->tasks > TKT_BENCH_THREADS_MAX) {
    snprintf(why, TKT_VALUE_WHY_SIZE, "--tasks %llu: with --io thread at most %d, each is a thread",
             (unsigned long long)bench->tasks, TKT_BENCH_THREADS_MAX);
  } else {
    return true;
  }
  return false;
}

/* -1: go on; else the exit status. */
static int read_command_line(struct bench *bench, int argc, char **argv) {
  static const struct option options[] = {{"addr", required_argument, NULL, OPT_ADDR},
                                          {"tasks", required_argument, NULL, OPT_TASKS},
                                          {"keys", required_argument, NULL, OPT_KEYS},
                                          {"cycles", required_argument, NULL, OPT_CYCLES},
                                          {"io", required_argument, NULL, OPT_IO},
                                          {"threads", required_argument, NULL, OPT_THREADS},
                                          {"pin", required_argument, NULL, OPT_PIN},
                                          {"json", no_argument, NULL, OPT_JSON},
                                          {"help", no_argument, NULL, OPT_HELP},
                                          {NULL, 0, NULL, 0}};
  char why[TKT_VALUE_WHY_SIZE];
  optind = 1;
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (option == OPT_HELP) {
      print_help();
      return TKT_EXIT_OK;
    }
    if (option == '?') {
      fprintf(stderr, "Try '%s --help'.\n", bench->name);
      return TKT_EXIT_USAGE;
    }
    if (option == OPT_JSON) {
      bench->json = true;
    } else if (!read_option(bench, option, optarg, why)) {
      return refuse(bench, why);
    }
  }
  if (!read_workloads(bench, argc, argv, why)) return refuse(bench, why);
  if (bench->io_mode < 0)
    bench->io_mode = bench->threads ? TICKETING_IO_THREAD : TICKETING_IO_CALLER;
  if (!check_together(bench, why)) return refuse(bench, why);
  return -1;
}

static int pin_self(const struct bench *bench) {
  if (bench->client_cpu < 0) return 0;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)bench->client_cpu, &set);
  return sched_setaffinity(0, sizeof set, &set);
}

static int measure(const struct bench *bench, const char *address, struct tkt_bench_result *result,
                   bool cycle) {
  uint64_t tasks = bench->threads ? bench->threads : bench->tasks ? bench->tasks : TKT_BENCH_TASKS;
  uint64_t cycles = cycle ? TKT_BENCH_CYCLES : TKT_BENCH_LATENCY_CYCLES;
  result->workload = cycle ? "cycle" : "latency";
  result->plan = (struct tkt_bench_plan){
      .address = address,
      .tasks = cycle ? (uint32_t)tasks : 1,
      .keys = cycle ? (uint32_t)(bench->keys ? bench->keys : TKT_BENCH_KEYS) : 1,
      .cycles = bench->cycles ? bench->cycles : cycles,
      .io_mode = bench->io_mode,
      .show_progress = isatty(STDERR_FILENO) == 1,
  };
  if (!cycle) return tkt_bench_latency(&result->plan, result);
  return bench->io_mode == TICKETING_IO_CALLER ? tkt_bench_cycle_caller(&result->plan, result)
                                               : tkt_bench_cycle_threads(&result->plan, result);
}

/* Runs what was asked for and shows it; the exit status. */
static int run_workloads(const struct bench *bench, const char *address) {
  struct tkt_bench_result *results[WORKLOADS] = {NULL};
  unsigned count = 0;
  int status = TKT_EXIT_OK;
  for (int i = 0; i < WORKLOADS && status != TKT_EXIT_SYSTEM && !tkt_interrupted(); i++) {
    if (!(i == 0 ? bench->cycle : bench->latency)) continue;
    struct tkt_bench_result *result = calloc(1, sizeof *result);
    if (!result) {
      fprintf(stderr, "%s: out of memory\n", bench->name);
      status = TKT_EXIT_SYSTEM;
      break;
    }
    int rc = measure(bench, address, result, i == 0);
    if (rc != TICKETING_OK) {
      fprintf(stderr, "%s: %s\n", bench->name, result->first_failure);
      free(result);
      status = tkt_exit_of(rc);
      break;
    }
    if (result->failed) status = TKT_EXIT_FAILED;
    if (!bench->json) tkt_bench_print_text(result);
    results[count++] = result;
  }
  if (bench->json && count)
    tkt_bench_print_json((const struct tkt_bench_result *const *)results, count,
                         bench->address ? bench->address : "private");
  for (unsigned i = 0; i < count; i++)
    free(results[i]);
  if (tkt_interrupted()) return TKT_EXIT_SIGNAL + tkt_interrupted();
  return status;
}

static int run_on_private_server(const struct bench *bench) {
  struct tkt_scratch scratch;
  struct tkt_private_server server;
  char why[TKT_VALUE_WHY_SIZE];
  if (!tkt_scratch_make(&scratch, "bench", why)) {
    fprintf(stderr, "%s: %s\n", bench->name, why);
    return TKT_EXIT_SYSTEM;
  }
  int status = TKT_EXIT_NO_SERVER;
  if (tkt_private_server_start(&server, scratch.path, bench->server_cpu, why)) {
    status = run_workloads(bench, server.address);
    tkt_private_server_stop(&server);
  } else if (tkt_interrupted()) {
    status = TKT_EXIT_SIGNAL + tkt_interrupted();
  } else {
    fprintf(stderr, "%s: %s\n", bench->name, why);
  }
  tkt_scratch_remove(&scratch);
  return status;
}

int tkt_cli_bench(int argc, char **argv) {
  struct bench bench = {.name = argv[0],
                        .io_mode = -1,
                        .server_cpu = TKT_PRIVATE_ANY_CPU,
                        .client_cpu = TKT_PRIVATE_ANY_CPU};
  int status = read_command_line(&bench, argc, argv);
  if (status < 0) {
    tkt_interrupt_catch();
    if (pin_self(&bench) != 0) {
      fprintf(stderr, "%s: --pin: the system refused CPU %d\n", bench.name, bench.client_cpu);
      return TKT_EXIT_SYSTEM;
    }
    status = bench.address ? run_workloads(&bench, bench.address) : run_on_private_server(&bench);
  }
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "%s: standard output cannot be written\n", bench.name);
    return TKT_EXIT_OUTPUT;
  }
  return status;
}
