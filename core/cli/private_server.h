/* A lock server of one's own: `ticketing serve` as a child process on a free loopback port, with
 * nothing kept on disk. What `bench` and `demo` work against. */
#ifndef TKT_CLI_PRIVATE_SERVER_H
#define TKT_CLI_PRIVATE_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

enum { TKT_PRIVATE_ADDRESS_SIZE = 64, TKT_PRIVATE_ANY_CPU = -1 };

struct tkt_private_server {
  pid_t pid; /* 0 while none runs */
  char address[TKT_PRIVATE_ADDRESS_SIZE];
};

struct tkt_throwaway;

/* Starts one whose data directory and log ("server.log") are in `folder`, on CPU `cpu` or any. It
 * is a process group of its own, so that Ctrl-C in the terminal does not reach it, and ends when
 * the calling thread does. With `tls` it speaks TLS with this certificate. Blocks until it serves,
 * at most 10 s. False: a sentence in `why` (TKT_VALUE_WHY_SIZE bytes), nothing runs. */
bool tkt_private_server_start(struct tkt_private_server *server, const char *folder, int cpu,
                              const struct tkt_throwaway *tls, char *why);

/* True while it runs; afterwards its pid is 0. */
bool tkt_private_server_alive(struct tkt_private_server *server);

/* Ends it, by force after 6 s, and waits for that. Harmless where none runs. */
void tkt_private_server_stop(struct tkt_private_server *server);

#endif
