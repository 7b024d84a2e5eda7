/* The tokens clients prove to know. Several may be valid at a time, so that one can be replaced
 * without an outage. */
#ifndef TKT_SERVER_TOKENS_H
#define TKT_SERVER_TOKENS_H

#include "server/server.h"

struct tkt_tokens;

/* Copies labels and secrets. NULL: out of memory. */
struct tkt_tokens *tkt_tokens_new(const struct tkt_client_token *tokens, size_t count);

/* Wipes the secrets. */
void tkt_tokens_free(struct tkt_tokens *tokens);

/* Carries the counters of tokens with the same label over. */
void tkt_tokens_inherit(struct tkt_tokens *tokens, const struct tkt_tokens *before);

enum tkt_verdict {
  TKT_VERDICT_ACCEPTED,
  TKT_VERDICT_REFUSED,
  TKT_VERDICT_NONE, /* the hash is not to be had */
};

/* Judges the proof of a session on wire 2 or 3, in time that does not depend on which token it is
 * of. Without tokens any well-formed proof will do. */
enum tkt_verdict tkt_tokens_judge(struct tkt_tokens *tokens, unsigned wire, struct tkt_span nonce,
                                  struct tkt_span proof);

size_t tkt_tokens_count(const struct tkt_tokens *tokens);
const char *tkt_tokens_label(const struct tkt_tokens *tokens, size_t index);
uint64_t tkt_tokens_accepted(const struct tkt_tokens *tokens, size_t index);

/* 22 characters of base64url for 16 bytes, no NUL. */
void tkt_nonce_text(const uint8_t bytes[16], char out[22]);

#endif
