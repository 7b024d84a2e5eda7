/* The commands of the `ticketing` program: one file a command, one table in main.c.
 *
 * Each entry gets the arguments from the command's name on, with argv[0] rewritten to
 * "ticketing NAME" (what --help and error sentences begin with), and returns the exit status, one
 * of status.h. An entry may also end the process with exit() where option parsing wants it;
 * standard input, output and error are open descriptors by then (on /dev/null where the caller had
 * closed them, see streams.h). */
#ifndef TKT_CLI_COMMANDS_H
#define TKT_CLI_COMMANDS_H

int tkt_cli_serve(int argc, char **argv);
int tkt_cli_acquire(int argc, char **argv);
int tkt_cli_release(int argc, char **argv);
int tkt_cli_run(int argc, char **argv);
int tkt_cli_bench(int argc, char **argv);
int tkt_cli_demo(int argc, char **argv);

#endif
