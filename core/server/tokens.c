#include "server/tokens.h"

#include "wire/proof.h"

#include <stdlib.h>

struct token {
  char *label;
  uint8_t *secret;
  size_t secret_len;
  uint64_t accepted;
};

struct tkt_tokens {
  size_t count;
  struct token tokens[];
};

struct tkt_tokens *tkt_tokens_new(const struct tkt_client_token *tokens, size_t count) {
  struct tkt_tokens *made = calloc(1, sizeof *made + count * sizeof made->tokens[0]);
  if (!made) return NULL;
  for (; made->count < count; made->count++) {
    const struct tkt_client_token *from = &tokens[made->count];
    struct token *to = &made->tokens[made->count];
    to->label = strdup(from->label ? from->label : "");
    to->secret_len = from->secret.len;
    to->secret = malloc(from->secret.len ? from->secret.len : 1);
    if (to->secret && from->secret.len) memcpy(to->secret, from->secret.data, from->secret.len);
    if (!to->label || !to->secret) {
      made->count++;
      tkt_tokens_free(made);
      return NULL;
    }
  }
  return made;
}

void tkt_tokens_free(struct tkt_tokens *tokens) {
  if (!tokens) return;
  for (size_t i = 0; i < tokens->count; i++) {
    struct token *token = &tokens->tokens[i];
    if (token->secret) explicit_bzero(token->secret, token->secret_len);
    free(token->secret);
    free(token->label);
  }
  free(tokens);
}

void tkt_tokens_inherit(struct tkt_tokens *tokens, const struct tkt_tokens *before) {
  for (size_t i = 0; i < tokens->count; i++)
    for (size_t j = 0; j < before->count; j++)
      if (strcmp(tokens->tokens[i].label, before->tokens[j].label) == 0)
        tokens->tokens[i].accepted = before->tokens[j].accepted;
}

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Longest proof of either wire. */
enum { PROOF_MAX = TKT_WIRE2_PROOF_LEN };

static bool well_formed(unsigned wire, struct tkt_span proof) {
  if (wire == 3) return proof.len == TKT_WIRE3_PROOF_LEN;
  if (proof.len != TKT_WIRE2_PROOF_LEN) return false;
  for (size_t i = 0; i < proof.len; i++)
    if (proof.data[i] == 0 || !strchr(alphabet, proof.data[i])) return false;
  return true;
}

static bool make_proof(const struct token *token, unsigned wire, struct tkt_span nonce,
                       uint8_t *out) {
  struct tkt_span secret = tkt_span(token->secret, token->secret_len);
  if (wire != 3) return tkt_wire2_proof(secret, nonce, (char *)out);
  return tkt_wire3_proof(secret, TKT_WIRE_SINGLE, tkt_wire3_single_identity, TKT_SLOT_NONE, nonce,
                         out);
}

enum tkt_verdict tkt_tokens_judge(struct tkt_tokens *tokens, unsigned wire, struct tkt_span nonce,
                                  struct tkt_span proof) {
  if (!well_formed(wire, proof)) return TKT_VERDICT_REFUSED;
  if (tokens->count == 0) return TKT_VERDICT_ACCEPTED;
  struct token *found = NULL;
  for (size_t i = 0; i < tokens->count; i++) {
    struct token *token = &tokens->tokens[i];
    uint8_t expected[PROOF_MAX];
    if (!make_proof(token, wire, nonce, expected)) return TKT_VERDICT_NONE;
    if (tkt_proof_equal(tkt_span(expected, proof.len), proof)) found = token;
  }
  if (!found) return TKT_VERDICT_REFUSED;
  found->accepted++;
  return TKT_VERDICT_ACCEPTED;
}

size_t tkt_tokens_count(const struct tkt_tokens *tokens) {
  return tokens->count;
}

const char *tkt_tokens_label(const struct tkt_tokens *tokens, size_t index) {
  return tokens->tokens[index].label;
}

uint64_t tkt_tokens_accepted(const struct tkt_tokens *tokens, size_t index) {
  return tokens->tokens[index].accepted;
}

void tkt_nonce_text(const uint8_t bytes[16], char out[22]) {
  unsigned bits = 0, held = 0;
  size_t n = 0;
  for (size_t i = 0; i < 16; i++) {
    bits = bits << 8 | bytes[i];
    for (held += 8; held >= 6; held -= 6)
      out[n++] = alphabet[bits >> (held - 6) & 63];
  }
  out[n] = alphabet[bits << (6 - held) & 63];
}
