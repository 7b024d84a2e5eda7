#include "cli/status.h"

#include <stdio.h>
#include <ticketing.h>

int tkt_exit_of(int result) {
  switch (result) {
  case TICKETING_OK:
    return TKT_EXIT_OK;
  case TICKETING_NOT_CURRENT:
    return TKT_EXIT_NOT_CURRENT;
  case TICKETING_E_TIMEOUT:
    return TKT_EXIT_NOT_OBTAINED;
  case TICKETING_E_BUSY:
    return TKT_EXIT_BUSY;
  case TICKETING_E_INDETERMINATE:
    return TKT_EXIT_INDETERMINATE;
  case TICKETING_E_INSUFFICIENT_LEASE:
    return TKT_EXIT_INSUFFICIENT;
  case TICKETING_E_INVALID_ARGUMENT:
  case TICKETING_E_UNSUPPORTED:
    return TKT_EXIT_USAGE;
  case TICKETING_E_NOT_CONNECTED:
    return TKT_EXIT_NO_SERVER;
  case TICKETING_E_AUTH:
    return TKT_EXIT_AUTH;
  case TICKETING_E_PROTOCOL:
    return TKT_EXIT_PROTOCOL;
  case TICKETING_E_NO_MEMORY:
  case TICKETING_E_SYSTEM:
    return TKT_EXIT_SYSTEM;
  default: /* cancelled, closed, forked, state, capacity: only a program makes them happen */
    return TKT_EXIT_INTERNAL;
  }
}

static const struct {
  int status;
  const char *text;
} texts[] = {
    {TKT_EXIT_OK, "done"},
    {TKT_EXIT_FAILED, "what was to be shown did not hold"},
    {TKT_EXIT_USAGE, "an option or argument is wrong; nothing was sent"},
    {TKT_EXIT_NO_SERVER, "no server could be used in time; nothing was sent"},
    {TKT_EXIT_INTERNAL, "a defect of this program"},
    {TKT_EXIT_SYSTEM, "memory, descriptors or processes: the system refused"},
    {TKT_EXIT_CANNOT_OPEN, "a listening address or the data directory is not to be had"},
    {TKT_EXIT_OUTPUT, "standard output is closed or cannot be written"},
    {TKT_EXIT_NOT_OBTAINED, "the wait ended while others held the key"},
    {TKT_EXIT_PROTOCOL, "the server broke the protocol"},
    {TKT_EXIT_AUTH, "the server refuses the client token"},
    {TKT_EXIT_BUSY, "the server lacks capacity; try again after a pause"},
    {TKT_EXIT_INDETERMINATE, "the request was sent and never answered: nobody knows"},
    {TKT_EXIT_INSUFFICIENT, "granted with too little lease left for the budget, given back"},
    {TKT_EXIT_LOST, "the ticket would have ended before the command: the command was ended"},
    {TKT_EXIT_NOT_CURRENT, "the token holds nothing (any more)"},
    {TKT_EXIT_DATA_IN_USE, "another server works on the data directory"},
    {TKT_EXIT_CANNOT_RUN, "the command cannot be executed"},
    {TKT_EXIT_NOT_FOUND, "there is no such command"},
    {TKT_EXIT_SIGNAL, "ended by signal n"},
};

static const char *text_of(int status) {
  for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++)
    if (texts[i].status == status) return texts[i].text;
  return "";
}

static int write_line(int status, char *out, unsigned long room) {
  if (status == TKT_EXIT_SIGNAL) return snprintf(out, room, "128+n  %s\n", text_of(status));
  return snprintf(out, room, "  %3d  %s\n", status, text_of(status));
}

char *tkt_exit_help(const int *statuses, char *out, unsigned long size) {
  unsigned long at = (unsigned long)write_line(TKT_EXIT_OK, out, size);
  for (; *statuses >= 0 && at < size; statuses++)
    at += (unsigned long)write_line(*statuses, out + at, size - at);
  return out;
}
