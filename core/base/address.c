#include "base/address.h"

#include <arpa/inet.h>

enum {
  HOST_NAME_MAX_LEN = 253, /* RFC 1035, without a final dot */
  LABEL_MAX = 63,
  PORT_DIGITS_MAX = 5,
  ZONE_MAX = 15, /* longest name of a network interface */
};

static bool is_digit(uint8_t c) {
  return c >= '0' && c <= '9';
}

static bool is_name_byte(uint8_t c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
}

static void copy_text(char *out, struct tkt_span text) {
  memcpy(out, text.data, text.len);
  out[text.len] = '\0';
}

/* A v6 address, with a zone (`fe80::1%eth0`) where it has one. */
static bool v6_ok(struct tkt_span host) {
  char literal[INET6_ADDRSTRLEN];
  const uint8_t *percent = host.len ? memchr(host.data, '%', host.len) : NULL;
  size_t len = percent ? (size_t)(percent - host.data) : host.len;
  if (percent) {
    size_t zone = host.len - len - 1;
    if (zone == 0 || zone > ZONE_MAX) return false;
    for (size_t i = 1; i <= zone; i++)
      if (!is_name_byte(percent[i]) && percent[i] != '.') return false;
  }
  if (len == 0 || len >= sizeof literal || memchr(host.data, '\0', len)) return false;
  copy_text(literal, tkt_span(host.data, len));
  struct in6_addr ignored;
  return inet_pton(AF_INET6, literal, &ignored) == 1;
}

/* A DNS name or a dotted v4 address. What ends in a label of digits must be a whole v4 address:
 * resolvers read `1.2.3` and `5225` as addresses nobody meant. */
static bool name_ok(struct tkt_span host) {
  size_t len = host.len;
  if (len > 1 && host.data[len - 1] == '.') len--; /* the root's dot: the name is complete */
  if (len == 0 || len > HOST_NAME_MAX_LEN) return false;
  size_t label = 0;
  bool all_digits = true;
  for (size_t i = 0; i < len; i++) {
    uint8_t c = host.data[i];
    if (c == '.') {
      if (label == 0) return false;
      label = 0;
      all_digits = true;
      continue;
    }
    if (!is_name_byte(c) || ++label > LABEL_MAX) return false;
    if (!is_digit(c)) all_digits = false;
  }
  if (label == 0) return false;
  if (!all_digits) return true;
  char literal[INET_ADDRSTRLEN];
  if (host.len >= sizeof literal) return false;
  copy_text(literal, host);
  struct in_addr ignored;
  return inet_pton(AF_INET, literal, &ignored) == 1;
}

static bool port_ok(struct tkt_span text, bool allow_zero, uint16_t *out) {
  if (text.len > PORT_DIGITS_MAX) return false;
  uint32_t value = 0;
  for (size_t i = 0; i < text.len; i++) {
    if (!is_digit(text.data[i])) return false;
    value = value * 10 + (uint32_t)(text.data[i] - '0');
  }
  if (value > UINT16_MAX || (value == 0 && !allow_zero)) return false;
  *out = (uint16_t)value;
  return true;
}

enum tkt_address_fault tkt_address_parse(struct tkt_span text, bool allow_zero,
                                         struct tkt_address *out) {
  struct tkt_span host = text, port = tkt_span(NULL, 0);
  bool brackets = text.len > 0 && text.data[0] == '[';
  if (brackets) {
    const uint8_t *close = memchr(text.data, ']', text.len);
    if (!close) return TKT_ADDRESS_BAD_HOST;
    size_t after = (size_t)(close - text.data) + 1;
    host = tkt_span(text.data + 1, after - 2);
    if (after == text.len) return TKT_ADDRESS_NO_PORT;
    if (text.data[after] != ':') return TKT_ADDRESS_BAD_HOST;
    port = tkt_span(text.data + after + 1, text.len - after - 1);
  } else {
    const uint8_t *colon = text.len ? memrchr(text.data, ':', text.len) : NULL;
    if (!colon) return TKT_ADDRESS_NO_PORT;
    host.len = (size_t)(colon - text.data);
    port = tkt_span(colon + 1, text.len - host.len - 1);
  }
  if (brackets ? !v6_ok(host) : !name_ok(host)) return TKT_ADDRESS_BAD_HOST;
  if (port.len == 0) return TKT_ADDRESS_NO_PORT;
  if (!port_ok(port, allow_zero, &out->port)) return TKT_ADDRESS_BAD_PORT;
  copy_text(out->host, host);
  out->v6_literal = brackets;
  return TKT_ADDRESS_OK;
}

const char *tkt_address_fault_text(enum tkt_address_fault fault) {
  switch (fault) {
  case TKT_ADDRESS_OK:
    return "";
  case TKT_ADDRESS_NO_PORT:
    return "the port is missing; write host:port or [v6]:port, there is no default";
  case TKT_ADDRESS_BAD_PORT:
    return "the port must be a decimal number from 1 to 65535";
  case TKT_ADDRESS_BAD_HOST:
    return "the host must be a name, an IPv4 address, or an IPv6 address in brackets";
  }
  return "the address cannot be read";
}
