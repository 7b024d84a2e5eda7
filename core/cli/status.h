/* Exit statuses of every command. 64..78 are those of sysexits.h, 80.. are ours, 126, 127 and 128+n
 * mean in `run` what they mean in a shell. Scripts depend on the numbers: never reuse one. */
#ifndef TKT_CLI_STATUS_H
#define TKT_CLI_STATUS_H

enum tkt_exit {
  TKT_EXIT_OK = 0,
  TKT_EXIT_FAILED = 1,       /* bench, demo: what was to be shown did not hold */
  TKT_EXIT_USAGE = 64,       /* an option or argument is wrong; nothing was sent */
  TKT_EXIT_NO_SERVER = 69,   /* no server could be used in time; nothing was sent */
  TKT_EXIT_INTERNAL = 70,    /* a defect of this program */
  TKT_EXIT_SYSTEM = 71,      /* memory, descriptors, processes: the system refused */
  TKT_EXIT_CANNOT_OPEN = 73, /* serve: a listening address or the data directory is not to be had */
  TKT_EXIT_OUTPUT = 74,      /* standard output is closed or cannot be written */
  TKT_EXIT_NOT_OBTAINED = 75,  /* the wait ended, others hold the key */
  TKT_EXIT_PROTOCOL = 76,      /* the server broke the protocol */
  TKT_EXIT_AUTH = 77,          /* the servers refuse the client token */
  TKT_EXIT_BUSY = 80,          /* the server lacks capacity */
  TKT_EXIT_INDETERMINATE = 81, /* sent, no final reply: nobody knows */
  TKT_EXIT_INSUFFICIENT = 82,  /* granted with too little lease left, given back */
  TKT_EXIT_LOST = 83,          /* run: the ticket would have ended first, the command was ended */
  TKT_EXIT_NOT_CURRENT = 84,   /* release: that token holds nothing */
  TKT_EXIT_DATA_IN_USE = 85,   /* serve: another server works on the data directory */
  TKT_EXIT_CANNOT_RUN = 126,   /* run: the command cannot be executed */
  TKT_EXIT_NOT_FOUND = 127,    /* run: there is no such command */
  TKT_EXIT_SIGNAL = 128,       /* run: plus the signal that ended the command */
};

/* The status for a TICKETING_* result of the library. */
int tkt_exit_of(int result);

/* Lines "  64  what it means" for --help: success first, then `statuses` (ended by -1). Written to
 * `out`, cut at `size` bytes; returns `out`. */
enum { TKT_EXIT_HELP_SIZE = 2048 };
char *tkt_exit_help(const int *statuses, char *out, unsigned long size);

#endif
