/* The log: a bounded ring that whoever wants it drains. No callback, no allocation: what is not
 * drained in time is overwritten by what is newer, and counted. Texts are static and never hold a
 * secret (T3). */
#ifndef TKT_CLIENT_LOG_H
#define TKT_CLIENT_LOG_H

#include <stddef.h>
#include <stdint.h>

enum { TKT_LOG_ENTRIES = 256 };

enum tkt_log_level { TKT_LOG_DEBUG = 1, TKT_LOG_INFO, TKT_LOG_WARNING, TKT_LOG_ERROR };

struct tkt_log_entry {
  int64_t at;
  const char *where;  /* the address it is about, lives as long as the client; or NULL */
  const char *text;   /* static; a '#' in it stands for `number` */
  const char *reason; /* static, or NULL */
  int64_t number;
  uint64_t lost; /* entries overwritten since the one taken before */
  enum tkt_log_level level;
};

struct tkt_log {
  struct tkt_log_entry ring[TKT_LOG_ENTRIES];
  uint64_t first; /* oldest kept */
  uint64_t end;
  uint64_t lost;
};

struct tkt_client;

/* Notes an event of an address (its index, -1 for none). */
void tkt_log_say(struct tkt_client *c, enum tkt_log_level level, int address, const char *text,
                 const char *reason, int64_t number);

/* The entry as a sentence, NUL-terminated and cut if need be; the length it would have had. */
size_t tkt_log_sentence(const struct tkt_log_entry *entry, char *out, size_t size);

#endif
