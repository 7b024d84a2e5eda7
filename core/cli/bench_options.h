/* The command line of `ticketing bench`. */
#ifndef TKT_CLI_BENCH_OPTIONS_H
#define TKT_CLI_BENCH_OPTIONS_H

#include "cli/tls_options.h"

#include <stdbool.h>
#include <stdint.h>

struct tkt_bench_options {
  const char *address;                   /* NULL: a private server */
  const char *token_file;                /* NULL: $TICKETING_CLIENT_TOKEN, else none */
  uint64_t tasks, keys, cycles, threads; /* 0: not given */
  int io_mode;                           /* TICKETING_IO_*, of the broker */
  bool event_loop;                       /* one thread for all tasks */
  int server_cpu, client_cpu;            /* TKT_PRIVATE_ANY_CPU: not pinned */
  bool json;
  struct tkt_cli_tls tls; /* with a private server: only whether */
  bool cycle, latency;    /* at least one */
};

/* Reads and checks it. A wrong one ends the process with TKT_EXIT_USAGE and a sentence, --help with
 * 0. False: out of memory. */
bool tkt_bench_options_read(struct tkt_bench_options *options, int argc, char **argv);

#endif
