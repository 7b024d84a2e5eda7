/* The `ticketing` program: finds the command and hands it its arguments. */
#include "cli/commands.h"
#include "cli/status.h"
#include "cli/streams.h"
#include "cli/values.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>
#include <ticketing.h>

struct command {
  const char *name;
  const char *summary;
  int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
    {"serve", "run a lock server", tkt_cli_serve},
    {"run", "run a command while holding a lock", tkt_cli_run},
    {"acquire", "obtain a lock and print its token", tkt_cli_acquire},
    {"release", "release a lock by its token", tkt_cli_release},
    {"bench", "measure a server", tkt_cli_bench},
    {"demo", "watch real processes hold real locks", tkt_cli_demo},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

const char *argp_program_version = "ticketing " TICKETING_VERSION;

static void print_help(FILE *to) {
  fprintf(to, "Usage: ticketing COMMAND [OPTION...]\n"
              "Distributed locks with fencing tokens: a server and its command line.\n\n"
              "Commands:\n");
  for (int i = 0; i < COMMANDS; i++)
    fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].summary);
  fprintf(to, "  %-9s %s\n", "help", "say this, or `help COMMAND`: what --help says there");
  fprintf(to,
          "\n  --help, --version\n\n"
          "Every command has --help with its options, ranges, units, examples and exit statuses.\n"
          "\nA first look:\n"
          "  ticketing serve &\n"
          "  ticketing run my-lock -- sh -c 'echo I hold it, my token is $TICKETING_TOKEN'\n");
}

static const struct command *find(const char *name) {
  for (int i = 0; i < COMMANDS; i++)
    if (strcmp(name, commands[i].name) == 0) return &commands[i];
  return NULL;
}

static int run_command(const struct command *command, int argc, char **argv) {
  char program[32];
  snprintf(program, sizeof program, "ticketing %s", command->name);
  argv[0] = program;
  return command->run(argc, argv);
}

static int unknown(const char *name) {
  char quoted[TKT_VALUE_QUOTE_SIZE];
  fprintf(stderr, "ticketing: there is no command %s; it may be", tkt_value_quote(name, quoted));
  for (int i = 0; i < COMMANDS; i++)
    fprintf(stderr, " %s,", commands[i].name);
  fprintf(stderr, " help\n");
  return TKT_EXIT_USAGE;
}

static int help_on(char *name) {
  const struct command *command = find(name);
  if (!command) return unknown(name);
  char option[] = "--help";
  char *argv[] = {name, option, NULL};
  return run_command(command, 2, argv);
}

int main(int argc, char **argv) {
  if (!tkt_streams_open()) return TKT_EXIT_SYSTEM;
  if (argc < 2) {
    print_help(stderr);
    return TKT_EXIT_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, "help") == 0 && argc > 2) return help_on(argv[2]);
  if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
    print_help(stdout);
    return TKT_EXIT_OK;
  }
  if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
    printf("%s\n", argp_program_version);
    return TKT_EXIT_OK;
  }
  const struct command *command = find(name);
  return command ? run_command(command, argc - 1, argv + 1) : unknown(name);
}
