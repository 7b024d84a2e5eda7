/* Client tokens as people store them: a file, or the same text in an environment variable, never an
 * argument that `ps` shows.
 *
 *   # comment                      blank lines and comments are skipped
 *   3q2-7wAAtu                     a secret
 *   billing  3q2-7wAAtu            a label for the server's log and counters, and the secret
 *
 * Server and client read the same form, so one file can serve both; a client uses the first entry.
 */
#ifndef TKT_CLI_TOKEN_FILE_H
#define TKT_CLI_TOKEN_FILE_H

#include <stdbool.h>
#include <stddef.h>

enum { TKT_TOKEN_FILE_MAX = 64 * 1024, TKT_TOKENS_MAX = 64 };

struct tkt_token_entry {
  const char *label; /* "line-N" where the line gives none */
  const char *secret;
};

struct tkt_tokens {
  struct tkt_token_entry entries[TKT_TOKENS_MAX];
  size_t count;
  char *text; /* what the entries point into */
  size_t size;
};

/* Reads `path`. False: `why` (TKT_VALUE_WHY_SIZE bytes) says what is wrong, never with a secret in
 * it. A file that others can read is accepted with a warning on standard error in `program`'s name
 * (NULL: without).
 * The result is given back with tkt_tokens_release, also after false. */
bool tkt_tokens_read_file(struct tkt_tokens *tokens, const char *program, const char *path,
                          char *why);

/* The same from the text of the environment variable `name`; not set: count 0. */
bool tkt_tokens_read_environment(struct tkt_tokens *tokens, const char *name, char *why);

/* Wipes and frees. */
void tkt_tokens_release(struct tkt_tokens *tokens);

#endif
