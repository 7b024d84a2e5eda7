/* Tells a forked child from its parent, and remembers which descriptors it inherited (rule B9).
 *
 * The mark stands on a page the kernel wipes at fork, so the check is one load, and a child created
 * in any way (also by a raw clone) notices. The descriptors stand beside it in memory that is
 * copied, in slots a child can read whatever its parent's threads were doing at the instant of the
 * fork: it walks no list and takes no lock. */
#ifndef TKT_DRIVE_FORK_GUARD_H
#define TKT_DRIVE_FORK_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The poller's three, each address with its sessions, those closing among them, and for each host
 * with a name that is being dialled its set, timer, look-up and attempts. One beyond is left to
 * close-on-exec. */
enum { TKT_GUARD_SLOTS = 128 };

struct tkt_fork_guard {
  _Atomic uint32_t *mark; /* on the wiped page */
  struct {
    _Atomic int fd;         /* -1: free */
    _Atomic uint64_t inode; /* so that a child closes no descriptor that only has its number */
  } slots[TKT_GUARD_SLOTS];
};

/* 0 or -errno. */
int tkt_fork_guard_init(struct tkt_fork_guard *guard);
/* In the process that made it. */
void tkt_fork_guard_release(struct tkt_fork_guard *guard);

/* True in a child of the process that made it. */
static inline bool tkt_fork_guard_forked(const struct tkt_fork_guard *guard) {
  return atomic_load_explicit(guard->mark, memory_order_relaxed) == 0;
}

/* Notes a descriptor just opened (again: the same), and forgets it right before it is closed; one
 * thread at a time. */
void tkt_fork_guard_note(struct tkt_fork_guard *guard, int fd);
void tkt_fork_guard_forget(struct tkt_fork_guard *guard, int fd);

/* In the child: closes what was inherited. Once; later calls find nothing. */
void tkt_fork_guard_close_inherited(struct tkt_fork_guard *guard);

/* Closes `fd` if it still is the file of this inode. */
void tkt_fork_guard_close_if(int fd, uint64_t inode);
/* 0 where it is not to be had. */
uint64_t tkt_fork_guard_inode(int fd);

#endif
