#include "client/log.h"

#include "client/engine.h"

#include <inttypes.h>
#include <stdio.h>

void tkt_log_say(struct tkt_client *c, enum tkt_log_level level, int address, const char *text,
                 const char *reason, int64_t number) {
  struct tkt_log *log = &c->log;
  if (log->end - log->first == TKT_LOG_ENTRIES) {
    log->first++;
    log->lost++;
  }
  log->ring[log->end++ % TKT_LOG_ENTRIES] = (struct tkt_log_entry){
      .at = c->now,
      .where = address >= 0 ? c->addresses[address].text : NULL,
      .text = text,
      .reason = reason,
      .number = number,
      .level = level,
  };
}

bool tkt_client_log_next(struct tkt_client *client, struct tkt_log_entry *entry_out) {
  struct tkt_log *log = &client->log;
  if (log->first == log->end) return false;
  *entry_out = log->ring[log->first++ % TKT_LOG_ENTRIES];
  entry_out->lost = log->lost;
  log->lost = 0;
  return true;
}

void tkt_client_note(struct tkt_client *client, enum tkt_log_level level, const char *text) {
  tkt_log_say(client, level, -1, text, NULL, 0);
}

size_t tkt_log_sentence(const struct tkt_log_entry *entry, char *out, size_t size) {
  const char *hash = strchr(entry->text, '#');
  int before = hash ? (int)(hash - entry->text) : (int)strlen(entry->text);
  char number[24] = "";
  if (hash) snprintf(number, sizeof number, "%" PRId64, entry->number);
  int n = snprintf(out, size, "%s%s%.*s%s%s%s%s", entry->where ? entry->where : "",
                   entry->where ? ": " : "", before, entry->text, number, hash ? hash + 1 : "",
                   entry->reason ? ": " : "", entry->reason ? entry->reason : "");
  return n > 0 ? (size_t)n : 0;
}
