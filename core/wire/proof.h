/* The proof that a client knows the token, without sending it. The functions return false where the
 * hash is not to be had (libcrypto refused): the session cannot go on. */
#ifndef TKT_WIRE_PROOF_H
#define TKT_WIRE_PROOF_H

#include "base/bytes.h"

/* Wire 2: base64url without padding of SHA-256(token || nonce). */
enum { TKT_WIRE2_PROOF_LEN = 43 };

/* Writes TKT_WIRE2_PROOF_LEN characters, no NUL. */
bool tkt_wire2_proof(struct tkt_span token, struct tkt_span nonce, char *out);

/* Wire 3: HMAC-SHA-256 with the token as key over what the server said of itself. The identity is
 * what a deployment is known by: tkt_wire3_single_identity for a server that works alone, else
 * TKT_WIRE3_IDENTITY_LEN bytes that the deployment chose. */
enum { TKT_WIRE3_PROOF_LEN = 32, TKT_WIRE3_NONCE_LEN = 16, TKT_WIRE3_IDENTITY_LEN = 32 };

/* SHA-256 of the text `ticketing/single/v3`. */
extern const uint8_t tkt_wire3_single_identity[TKT_WIRE3_IDENTITY_LEN];

/* Writes TKT_WIRE3_PROOF_LEN bytes. `mode`, `slot` and `nonce` (TKT_WIRE3_NONCE_LEN bytes) are
 * those of the greeting. */
bool tkt_wire3_proof(struct tkt_span token, uint8_t mode, const uint8_t *identity, uint8_t slot,
                     struct tkt_span nonce, uint8_t *out);

/* Compares in time that depends on the lengths alone. */
bool tkt_proof_equal(struct tkt_span a, struct tkt_span b);

#endif
