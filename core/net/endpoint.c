#include "net/endpoint.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

const char tkt_endpoint_unknown[] =
    "the host is neither a numeric address nor localhost; names are not looked up";

static bool v4(const char *text, uint16_t port, struct tkt_endpoint *out) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
  if (inet_pton(AF_INET, text, &a.sin_addr) != 1) return false;
  memset(out, 0, sizeof *out);
  memcpy(&out->address, &a, sizeof a);
  out->len = sizeof a;
  return true;
}

/* A link-local address may carry its interface behind a percent sign. */
static bool v6(const char *text, uint16_t port, struct tkt_endpoint *out) {
  struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  char host[INET6_ADDRSTRLEN];
  const char *zone = strchr(text, '%');
  size_t len = zone ? (size_t)(zone - text) : strlen(text);
  if (len >= sizeof host) return false;
  memcpy(host, text, len);
  host[len] = 0;
  if (inet_pton(AF_INET6, host, &a.sin6_addr) != 1) return false;
  if (zone) {
    a.sin6_scope_id = if_nametoindex(zone + 1);
    if (a.sin6_scope_id == 0) return false;
  }
  memset(out, 0, sizeof *out);
  memcpy(&out->address, &a, sizeof a);
  out->len = sizeof a;
  return true;
}

size_t tkt_endpoints(const struct tkt_address *address,
                     struct tkt_endpoint out[TKT_ENDPOINTS_MAX]) {
  if (address->v6_literal) return v6(address->host, address->port, &out[0]) ? 1 : 0;
  if (strcasecmp(address->host, "localhost") == 0)
    return v6("::1", address->port, &out[0]) && v4("127.0.0.1", address->port, &out[1]) ? 2 : 0;
  return v4(address->host, address->port, &out[0]) ? 1 : 0;
}
