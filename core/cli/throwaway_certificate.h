/* A certificate for a private server on loopback, its own authority, gone with its folder. */
#ifndef TKT_CLI_THROWAWAY_CERTIFICATE_H
#define TKT_CLI_THROWAWAY_CERTIFICATE_H

#include <stdbool.h>

enum { TKT_THROWAWAY_PATH_SIZE = 600 };

struct tkt_throwaway {
  char certificate[TKT_THROWAWAY_PATH_SIZE]; /* PEM; also what a client may trust */
  char key[TKT_THROWAWAY_PATH_SIZE];         /* PEM, mode 0600 */
};

/* Makes a key (P-256) and a certificate for 127.0.0.1, ::1 and localhost in `folder`, valid for a
 * day. False: a sentence in `why` (TKT_VALUE_WHY_SIZE bytes). */
bool tkt_throwaway_make(struct tkt_throwaway *throwaway, const char *folder, char *why);

#endif
