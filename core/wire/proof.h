/* The proof that a client knows the token, without sending it. */
#ifndef TKT_WIRE_PROOF_H
#define TKT_WIRE_PROOF_H

#include "base/bytes.h"

/* Wire 2: base64url without padding of SHA-256(token || nonce). */
enum { TKT_WIRE2_PROOF_LEN = 43 };

/* Writes TKT_WIRE2_PROOF_LEN characters, no NUL. False where the hash is not to be had (libcrypto
 * refused): the session cannot go on. */
bool tkt_wire2_proof(struct tkt_span token, struct tkt_span nonce, char *out);

/* Compares in time that depends on the lengths alone. */
bool tkt_proof_equal(struct tkt_span a, struct tkt_span b);

#endif
