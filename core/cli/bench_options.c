#include "cli/bench_options.h"

#include "cli/bench.h"
#include "cli/help.h"
#include "cli/private_server.h"
#include "cli/status.h"
#include "cli/values.h"

#include <argp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { CPU_MAX = CPU_SETSIZE - 1, IO_NOT_GIVEN = -1 };

enum key { KEY_CYCLES = 256, KEY_IO, KEY_THREADS, KEY_PIN, KEY_JSON, KEY_TASKS, KEY_KEYS };

static const struct argp_option options[] = {
    {"addr", 'a', "HOST:PORT", 0, "Measure this server instead of a private one", 0},
    {"token-file", 't', "FILE", 0,
     "With --addr: a file whose first entry is the client token (default: the environment variable "
     "TICKETING_CLIENT_TOKEN, else none)",
     0},
    {"tasks", KEY_TASKS, "N", 0, "Tasks of `cycle` (64; up to 16384)", 1},
    {"keys", KEY_KEYS, "N", 0, "Keys of `cycle` (32; up to 1000000); task t uses key t modulo N",
     1},
    {"cycles", KEY_CYCLES, "N", 0, "Cycles in all (40000 for `cycle`, 10000 for `latency`)", 1},
    {"io", KEY_IO, "MODE", 0,
     "caller: one event loop and no further thread (default); queue: one event loop, and the "
     "broker "
     "has an I/O thread; thread: every task is a blocking thread, and the broker has an I/O thread",
     1},
    {"threads", KEY_THREADS, "N", 0, "The tasks of --io thread (64; up to 4096)", 1},
    {"pin", KEY_PIN, "SERVER,CLIENT", 0,
     "Run the private server and this program on one CPU each, by number", 2},
    {"json", KEY_JSON, NULL, 0, "One JSON document on standard output, durations in ns", 2},
    {0}};

static bool read_pin(struct tkt_bench_options *o, const char *text, char *why) {
  char server_text[16];
  uint64_t server, client;
  const char *comma = strchr(text, ',');
  if (!comma || (size_t)(comma - text) >= sizeof server_text) {
    char quoted[TKT_VALUE_QUOTE_SIZE];
    snprintf(why, TKT_VALUE_WHY_SIZE, "--pin: %s is not SERVER,CLIENT, two CPU numbers such as 0,1",
             tkt_value_quote(text, quoted));
    return false;
  }
  memcpy(server_text, text, (size_t)(comma - text));
  server_text[comma - text] = '\0';
  if (!tkt_value_count("--pin", server_text, 0, CPU_MAX, "", &server, why)) return false;
  if (!tkt_value_count("--pin", comma + 1, 0, CPU_MAX, "", &client, why)) return false;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 &&
      (!CPU_ISSET(server, &allowed) || !CPU_ISSET(client, &allowed))) {
    snprintf(why, TKT_VALUE_WHY_SIZE,
             "--pin: %s names a CPU that this process may not use; `taskset -pc $$` shows which it "
             "may",
             text);
    return false;
  }
  o->server_cpu = (int)server;
  o->client_cpu = (int)client;
  return true;
}

static bool read_io(struct tkt_bench_options *o, const char *text, char *why) {
  o->event_loop = true;
  if (strcmp(text, "caller") == 0) {
    o->io_mode = TICKETING_IO_CALLER;
  } else if (strcmp(text, "queue") == 0) {
    o->io_mode = TICKETING_IO_THREAD;
  } else if (strcmp(text, "thread") == 0) {
    o->io_mode = TICKETING_IO_THREAD;
    o->event_loop = false;
  } else {
    char quoted[TKT_VALUE_QUOTE_SIZE];
    snprintf(why, TKT_VALUE_WHY_SIZE, "--io: %s is none of caller, queue and thread",
             tkt_value_quote(text, quoted));
    return false;
  }
  return true;
}

static bool read_workload(struct tkt_bench_options *o, const char *text, char *why) {
  if (strcmp(text, "cycle") == 0) {
    o->cycle = true;
  } else if (strcmp(text, "latency") == 0) {
    o->latency = true;
  } else {
    char quoted[TKT_VALUE_QUOTE_SIZE];
    snprintf(why, TKT_VALUE_WHY_SIZE, "no workload is called %s; there are cycle and latency",
             tkt_value_quote(text, quoted));
    return false;
  }
  return true;
}

/* What single options cannot see, and defaults that depend on others. */
static bool complete(struct tkt_bench_options *o, char *why) {
  if (!o->cycle && !o->latency) o->cycle = o->latency = true;
  if (o->io_mode == IO_NOT_GIVEN) {
    o->io_mode = o->threads ? TICKETING_IO_THREAD : TICKETING_IO_CALLER;
    o->event_loop = !o->threads;
  }
  if (o->address && o->server_cpu >= 0) {
    snprintf(
        why, TKT_VALUE_WHY_SIZE,
        "--pin places the private server, and --addr names another one: leave one out (taskset "
        "pins a server of yours)");
  } else if (o->token_file && !o->address) {
    snprintf(why, TKT_VALUE_WHY_SIZE,
             "--token-file belongs to --addr; the private server asks none");
  } else if (!o->address && (o->tls.ca_file || o->tls.skip_verify)) {
    snprintf(why, TKT_VALUE_WHY_SIZE,
             "%s belongs to --addr; with the private server write --tls, it makes its own "
             "certificate",
             o->tls.ca_file ? "--tls-ca" : "--tls-skip-verify");
  } else if (o->threads && o->event_loop) {
    snprintf(why, TKT_VALUE_WHY_SIZE,
             "--threads belongs to --io thread; an event loop has --tasks");
  } else if (o->threads && o->tasks && o->threads != o->tasks) {
    snprintf(why, TKT_VALUE_WHY_SIZE,
             "--threads %llu and --tasks %llu: every task is a thread, give one of them",
             (unsigned long long)o->threads, (unsigned long long)o->tasks);
  } else if (!o->event_loop && o->tasks > TKT_BENCH_THREADS_MAX) {
    snprintf(why, TKT_VALUE_WHY_SIZE, "--tasks %llu: with --io thread at most %d, each is a thread",
             (unsigned long long)o->tasks, TKT_BENCH_THREADS_MAX);
  } else {
    return true;
  }
  return false;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  struct tkt_bench_options *o = state->input;
  char why[TKT_VALUE_WHY_SIZE];
  bool good = true;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->tls;
    break;
  case 'a':
    o->address = arg;
    good = tkt_value_address("--addr", arg, why);
    break;
  case 't':
    o->token_file = arg;
    break;
  case KEY_TASKS:
    good = tkt_value_count("--tasks", arg, 1, TKT_BENCH_TASKS_MAX, "tasks", &o->tasks, why);
    break;
  case KEY_KEYS:
    good = tkt_value_count("--keys", arg, 1, TKT_BENCH_KEYS_MAX, "keys", &o->keys, why);
    break;
  case KEY_CYCLES:
    good = tkt_value_count("--cycles", arg, 1, TKT_BENCH_CYCLES_MAX, "cycles", &o->cycles, why);
    break;
  case KEY_THREADS:
    good = tkt_value_count("--threads", arg, 1, TKT_BENCH_THREADS_MAX, "threads", &o->threads, why);
    break;
  case KEY_IO:
    good = read_io(o, arg, why);
    break;
  case KEY_PIN:
    good = read_pin(o, arg, why);
    break;
  case KEY_JSON:
    o->json = true;
    break;
  case ARGP_KEY_ARG:
    good = read_workload(o, arg, why);
    break;
  case ARGP_KEY_END:
    good = complete(o, why);
    break;
  default:
    return ARGP_ERR_UNKNOWN;
  }
  if (!good) argp_error(state, "%s", why);
  return 0;
}

static char *help(int key, const char *text, void *input) {
  static const int statuses[] = {
      TKT_EXIT_FAILED, TKT_EXIT_USAGE, TKT_EXIT_NO_SERVER, TKT_EXIT_SYSTEM,
      TKT_EXIT_OUTPUT, TKT_EXIT_AUTH,  TKT_EXIT_SIGNAL,    -1};
  (void)input;
  return tkt_help_filter(key, text,
                         "Workloads (both, where none is named):\n"
                         "  cycle    many tasks, each acquires its key, releases it and waits for\n"
                         "           the answer; with fewer keys than tasks they contend\n"
                         "  latency  one task, one key that nobody else wants, blocking calls\n"
                         "\nA bar on standard error shows progress where that is a terminal. The "
                         "exit status is 1 if any cycle failed.\n",
                         statuses);
}

static const struct argp_child children[] = {{&tkt_cli_tls_argp, 0, NULL, 0}, {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .args_doc = "[cycle] [latency]",
    .doc = "Measure acquire/release cycles against a lock server: a private one on a free loopback "
           "port, started and stopped here, or the one named by --addr.",
    .help_filter = help,
};

bool tkt_bench_options_read(struct tkt_bench_options *o, int argc, char **argv) {
  *o = (struct tkt_bench_options){.io_mode = IO_NOT_GIVEN,
                                  .server_cpu = TKT_PRIVATE_ANY_CPU,
                                  .client_cpu = TKT_PRIVATE_ANY_CPU};
  return argp_parse(&argp, argc, argv, 0, NULL, o) == 0;
}
