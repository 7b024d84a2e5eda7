#include <stddef.h>

#include <ticketing.h>

#include "client/outcome.h"
#include "drive/broker.h"

/* The header's constants and the table agree. */
#define TKT_RESULT(name, number, text, advice)                                                     \
  _Static_assert(TICKETING_##name == (number), "header and table differ in " #name);
#include "errors.def"
#undef TKT_RESULT

/* The engine's outcomes and the driver's results are the public numbers. */
_Static_assert(
    (int)TKT_OK == TICKETING_OK && (int)TKT_PENDING == TICKETING_PENDING &&
        (int)TKT_NOT_CURRENT == TICKETING_NOT_CURRENT && (int)TKT_TIMEOUT == TICKETING_E_TIMEOUT &&
        (int)TKT_BUSY == TICKETING_E_BUSY && (int)TKT_CANCELLED == TICKETING_E_CANCELLED &&
        (int)TKT_INDETERMINATE == TICKETING_E_INDETERMINATE &&
        (int)TKT_INSUFFICIENT_LEASE == TICKETING_E_INSUFFICIENT_LEASE &&
        (int)TKT_INVALID_ARGUMENT == TICKETING_E_INVALID_ARGUMENT &&
        (int)TKT_NOT_CONNECTED == TICKETING_E_NOT_CONNECTED && (int)TKT_AUTH == TICKETING_E_AUTH &&
        (int)TKT_CLIENT_CAPACITY == TICKETING_E_CLIENT_CAPACITY &&
        (int)TKT_CLOSED == TICKETING_E_CLOSED && (int)TKT_PROTOCOL == TICKETING_E_PROTOCOL &&
        (int)TKT_UNSUPPORTED == TICKETING_E_UNSUPPORTED && (int)TKT_FORKED == TICKETING_E_FORKED &&
        (int)TKT_NO_MEMORY == TICKETING_E_NO_MEMORY,
    "enum tkt_outcome and the header differ");
_Static_assert((int)TKT_DRIVE_STATE == TICKETING_E_STATE &&
                   (int)TKT_DRIVE_INTERRUPTED == TICKETING_E_INTERRUPTED &&
                   (int)TKT_DRIVE_SYSTEM == TICKETING_E_SYSTEM,
               "the driver's results and the header differ");

struct result {
  int number;
  const char *name;
  const char *text;
  const char *advice;
};

static const struct result *find(int code) {
#define TKT_RESULT(name, number, text, advice) {number, "TICKETING_" #name, text, advice},
  static const struct result table[] = {
#include "errors.def"
  };
#undef TKT_RESULT
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (table[i].number == code) return &table[i];
  return NULL;
}

const char *ticketing_error_name(int code) {
  const struct result *r = find(code);
  return r ? r->name : "?";
}

const char *ticketing_error_text(int code) {
  const struct result *r = find(code);
  return r ? r->text : "not a result of this library";
}

const char *ticketing_error_advice(int code) {
  const struct result *r = find(code);
  return r ? r->advice : "compare with the version of the library that runs";
}
