/* One attempt to connect a TCP socket, and what its errors mean. */
#ifndef TKT_NET_CONNECT_H
#define TKT_NET_CONNECT_H

#include "net/endpoint.h"

/* Sets what every socket of ours has (stream.h); one that refuses still carries bytes. */
void tkt_socket_tune(int fd);

/* A descriptor (non-blocking, CLOEXEC) on its way, or -errno where it failed at once. */
int tkt_connect_start(const struct tkt_endpoint *to);

/* 0: connected; -EINPROGRESS: not yet; another -errno: failed. */
int tkt_connect_check(int fd);

/* The sentence for an error of a socket. Static. */
const char *tkt_connect_fault(int error);

#endif
