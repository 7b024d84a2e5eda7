#include "measure.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

void fail(const char *what) {
  perror(what);
  exit(1);
}

int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint32_t number(const char *text, uint32_t least, uint32_t most) {
  char *end;
  errno = 0;
  unsigned long value = strtoul(text, &end, 10);
  if (errno || end == text || *end || value < least || value > most) {
    fprintf(stderr, "%s is not a number from %u to %u\n", text, least, most);
    exit(64);
  }
  return (uint32_t)value;
}

int connect_loopback(uint16_t port) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) fail("connect");
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

static int compare(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

void report(uint32_t *samples, uint32_t count, int64_t elapsed_ns) {
  qsort(samples, count, sizeof *samples, compare);
  printf("{\"cycles\": %u, \"seconds\": %.6f, \"cycles_per_second\": %.0f, \"p50_ns\": %u, "
         "\"p99_ns\": %u, \"max_ns\": %u}\n",
         count, (double)elapsed_ns / 1e9, count / ((double)elapsed_ns / 1e9), samples[count / 2],
         samples[(uint64_t)count * 99 / 100], samples[count - 1]);
}
