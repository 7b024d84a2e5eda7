/* Wire 2, the line protocol: its bounds. All of them count the LF.
 *
 * A frame is an opcode byte, big-endian integers, a key or a text, and LF. The integers may contain
 * the byte LF, so their part is consumed by count before LF is looked for. */
#ifndef TKT_WIRE_WIRE2_H
#define TKT_WIRE_WIRE2_H

enum {
  TKT_WIRE2_LINE_MAX = 256,      /* greeting, and any line of a server that we accept */
  TKT_WIRE2_LINE_SENT_MAX = 192, /* M, L, E as we write them: older clients accept no more */
  TKT_WIRE2_PROOF_LINE_MAX = 64, /* the digest is 43 characters; anything else is refused anyway */
};

#endif
