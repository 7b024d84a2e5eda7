/* The proof at the end of the demo: reads the database through a connection of its own and with SQL
 * of its own, trusting nothing the workers or the watching process counted. */
#ifndef TKT_CLI_DEMO_PROOF_H
#define TKT_CLI_DEMO_PROOF_H

#include "cli/demo_bank.h"

#include <stdbool.h>
#include <stddef.h>

enum { TKT_PROOF_SENTENCE_SIZE = 320 };

struct tkt_proof_plan {
  const char *database;
  uint32_t accounts;
  bool locks;                       /* false: tokens mean nothing and are not looked at */
  const struct tkt_transfer *stale; /* the transfer of the killed worker, or NULL */
};

/* Checks one thing after the other and calls `tell` for each with a sentence. True: all held. */
bool tkt_demo_prove(const struct tkt_proof_plan *plan,
                    void (*tell)(void *context, bool held, const char *sentence), void *context);

#endif
