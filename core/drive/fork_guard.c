#include "drive/fork_guard.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t page_size(void) {
  return (size_t)sysconf(_SC_PAGESIZE);
}

int tkt_fork_guard_init(struct tkt_fork_guard *guard) {
  for (int i = 0; i < TKT_GUARD_SLOTS; i++) {
    atomic_init(&guard->slots[i].fd, -1);
    atomic_init(&guard->slots[i].inode, 0);
  }
  void *page = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    guard->mark = NULL;
    return -errno;
  }
  guard->mark = page;
  if (madvise(page, page_size(), MADV_WIPEONFORK) != 0) {
    int error = errno;
    tkt_fork_guard_release(guard);
    return -error;
  }
  atomic_init(guard->mark, 1);
  return 0;
}

void tkt_fork_guard_release(struct tkt_fork_guard *guard) {
  if (guard->mark) munmap((void *)(uintptr_t)guard->mark, page_size());
  guard->mark = NULL;
}

uint64_t tkt_fork_guard_inode(int fd) {
  struct stat s;
  return fstat(fd, &s) == 0 ? (uint64_t)s.st_ino : 0;
}

void tkt_fork_guard_note(struct tkt_fork_guard *guard, int fd) {
  for (int i = 0; i < TKT_GUARD_SLOTS; i++)
    if (atomic_load(&guard->slots[i].fd) == fd) return;
  for (int i = 0; i < TKT_GUARD_SLOTS; i++) {
    if (atomic_load(&guard->slots[i].fd) >= 0) continue;
    atomic_store(&guard->slots[i].inode, tkt_fork_guard_inode(fd));
    atomic_store(&guard->slots[i].fd, fd);
    return;
  }
}

void tkt_fork_guard_forget(struct tkt_fork_guard *guard, int fd) {
  for (int i = 0; i < TKT_GUARD_SLOTS; i++)
    if (atomic_load(&guard->slots[i].fd) == fd) {
      atomic_store(&guard->slots[i].fd, -1);
      return;
    }
}

void tkt_fork_guard_close_if(int fd, uint64_t inode) {
  if (inode != 0 && tkt_fork_guard_inode(fd) == inode) close(fd);
}

void tkt_fork_guard_close_inherited(struct tkt_fork_guard *guard) {
  for (int i = 0; i < TKT_GUARD_SLOTS; i++) {
    int fd = atomic_exchange(&guard->slots[i].fd, -1);
    if (fd >= 0) tkt_fork_guard_close_if(fd, atomic_load(&guard->slots[i].inode));
  }
}
