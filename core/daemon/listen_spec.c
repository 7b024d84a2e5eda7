#include "daemon/listen_spec.h"

#include "daemon/why.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static bool option_is(const char *option, size_t len, const char *name) {
  return len == strlen(name) && memcmp(option, name, len) == 0;
}

static bool option_begins(const char *option, size_t len, const char *name) {
  return len >= strlen(name) && memcmp(option, name, strlen(name)) == 0;
}

static bool read_option(const char *text, const char *option, size_t len,
                        struct tkt_listen_spec *out, char *why) {
  int shown = len > 64 ? 64 : (int)len;
  if (option_is(option, len, "wire=2") || option_is(option, len, "wire=3")) {
    out->wire = option[len - 1] == '2' ? &tkt_wire2 : &tkt_wire3;
    return true;
  }
  if (option_is(option, len, "tls")) {
    out->tls = true;
    return true;
  }
  if (option_begins(option, len, "advertise="))
    return tkt_why(why, "--listen is '%.300s': '%.*s' is not there yet in this version", text,
                   shown, option);
  return tkt_why(
      why,
      "--listen is '%.300s': '%.*s' is no option of a listener; behind HOST:PORT may stand "
      ",wire=2 or ,wire=3, and ,tls",
      text, shown, option);
}

bool tkt_listen_spec_parse(const char *text, struct tkt_listen_spec *out, char *why) {
  size_t address_len = strcspn(text, ",");
  enum tkt_address_fault fault =
      tkt_address_parse(tkt_span(text, address_len), true, &out->address);
  if (fault != TKT_ADDRESS_OK)
    return tkt_why(why,
                   "--listen is '%.300s': %s; for example 127.0.0.1:5225, port 0 takes a free one",
                   text, tkt_address_fault_text(fault));
  out->wire = &tkt_wire2;
  out->tls = false;
  const char *rest = text + address_len;
  while (*rest == ',') {
    rest++;
    size_t len = strcspn(rest, ",");
    if (!read_option(text, rest, len, out, why)) return false;
    rest += len;
  }
  return true;
}

bool tkt_listen_spec_loopback(const struct tkt_listen_spec *spec) {
  struct in_addr v4;
  struct in6_addr v6;
  const char *host = spec->address.host;
  if (strcmp(host, "localhost") == 0) return true;
  if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  if (inet_pton(AF_INET6, host, &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return false;
}

void tkt_listen_spec_text(const struct tkt_listen_spec *spec, uint16_t port, char *out) {
  const char *format = spec->address.v6_literal ? "[%s]:%u" : "%s:%u";
  snprintf(out, TKT_ADDRESS_TEXT_MAX + 1, format, spec->address.host, (unsigned)port);
}
