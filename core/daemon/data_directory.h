/* The directory of one server's state, held by one server at a time.
 *
 * The holder keeps an flock on the file `lock` in it, so that the kernel gives it back however the
 * process ends; the file says the holder's pid for the sentence a second server prints. */
#ifndef TKT_DAEMON_DATA_DIRECTORY_H
#define TKT_DAEMON_DATA_DIRECTORY_H

#include <stddef.h>

enum { TKT_DATA_PATH_MAX = 4096 };

enum tkt_data_result {
  TKT_DATA_OK = 0,
  TKT_DATA_IN_USE,  /* another server holds it */
  TKT_DATA_REFUSED, /* it cannot be had: no default, no permission, no directory */
};

struct tkt_data_directory {
  char path[TKT_DATA_PATH_MAX];
  int directory_fd;
  int lock_fd;
};

/* Where the state goes if nobody says: $STATE_DIRECTORY (its first entry), else
 * $XDG_STATE_HOME/ticketing, else ~/.local/state/ticketing. `environment` is getenv or a test's
 * stand-in. TKT_DATA_REFUSED with a sentence in `why` (TKT_DAEMON_WHY_SIZE bytes): none is set. */
enum tkt_data_result tkt_data_directory_default(char *(*environment)(const char *name), char *path,
                                                size_t size, char *why);

/* Creates `path` (mode 0700, parents too) where it is missing, and locks it. On another result than
 * OK nothing is open and `why` says what to do. */
enum tkt_data_result tkt_data_directory_open(struct tkt_data_directory *data, const char *path,
                                             char *why);

/* Unlocks. The directory stays. */
void tkt_data_directory_close(struct tkt_data_directory *data);

#endif
