#include "net/trust.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct tkt_trust_mark mark_of(const char *file) {
  struct tkt_trust_mark mark = {0};
  struct stat st;
  if (!file || stat(file, &st) != 0) return mark;
  mark.device = st.st_dev;
  mark.inode = st.st_ino;
  mark.size = st.st_size;
  mark.modified = st.st_mtim;
  mark.changed = st.st_ctim;
  return mark;
}

static bool same_instant(struct timespec a, struct timespec b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool same(const struct tkt_trust_mark *a, const struct tkt_trust_mark *b) {
  return a->device == b->device && a->inode == b->inode && a->size == b->size &&
         same_instant(a->modified, b->modified) && same_instant(a->changed, b->changed);
}

bool tkt_trust_open(struct tkt_trust *trust, enum tkt_tls_trust mode, const char *ca_file,
                    char *why) {
  memset(trust, 0, sizeof *trust);
  trust->mode = mode;
  if (mode == TKT_TLS_CA_FILE) {
    /* Before the reading: a change meanwhile is one more reading, not one less. */
    trust->mark = mark_of(ca_file);
    trust->ca_file = strdup(ca_file);
    if (!trust->ca_file) {
      strcpy(why, "out of memory");
      return false;
    }
  }
  trust->tls = tkt_tls_client(mode, ca_file, why);
  if (trust->tls) return true;
  tkt_trust_close(trust);
  return false;
}

bool tkt_trust_copy(struct tkt_trust *trust, const struct tkt_trust *from) {
  *trust = *from;
  if (from->ca_file) {
    trust->ca_file = strdup(from->ca_file);
    if (!trust->ca_file) {
      memset(trust, 0, sizeof *trust);
      return false;
    }
  }
  tkt_tls_ref(trust->tls);
  return true;
}

void tkt_trust_close(struct tkt_trust *trust) {
  tkt_tls_free(trust->tls);
  free(trust->ca_file);
  memset(trust, 0, sizeof *trust);
}

struct tkt_tls *tkt_trust_now(struct tkt_trust *trust) {
  if (!trust->ca_file) return trust->tls;
  struct tkt_trust_mark mark = mark_of(trust->ca_file);
  if (same(&mark, &trust->mark)) return trust->tls;
  trust->mark = mark;
  char why[TKT_TLS_WHY_SIZE];
  struct tkt_tls *tls = tkt_tls_client(trust->mode, trust->ca_file, why);
  if (tls) {
    tkt_tls_free(trust->tls);
    trust->tls = tls;
    trust->renewed++;
  } else {
    trust->refused++;
  }
  return trust->tls;
}
