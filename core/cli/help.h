/* What stands below the options in --help of every command: notes, examples, exit statuses. */
#ifndef TKT_CLI_HELP_H
#define TKT_CLI_HELP_H

#define TKT_HELP_KEYS                                                                              \
  "A KEY is 1 to 128 bytes of UTF-8 without blanks and line ends. Several keys are obtained "      \
  "together or not at all, where the server can do that."
#define TKT_HELP_DURATIONS                                                                         \
  "A DURATION is a number with s (which may be left out), ms, m or h behind it: 5, 2.5, 500ms, "   \
  "1m."

/* The body of an argp help filter: puts `notes` and the meaning of `statuses` (ended by -1; 0 comes
 * by itself) behind the options and leaves all other text alone. argp frees what it returns. */
char *tkt_help_filter(int key, const char *text, const char *notes, const int *statuses);

#endif
