/* Certificate, key and CA files: what is wrong with one is said with its name, and one that is
 * replaced is followed. */
#include "net/trust.h"
#include "unit/net/tls_pair.h"

#include <sys/stat.h>

static const struct claim good = {.names = "DNS:a"};

/* --- files of a server --- */

static void assert_no_server(const char *chain, const char *key, const char *named,
                             const char *part) {
  char why[TKT_TLS_WHY_SIZE] = "";
  struct tkt_tls *tls = tkt_tls_server(chain, key, why);
  if (tls) fail_msg("%s and %s were accepted", chain, key);
  if (!strstr(why, named) || !strstr(why, part)) fail_msg("'%s' lacks '%s'", why, part);
  assert_int_equal(ERR_peek_error(), 0);
}

static void a_server_without_good_files_is_refused_by_name(void **state) {
  (void)state;
  struct world w = world_make(good);
  struct identity other = issue(NULL, good);
  char path[PATH_ROOM], second[PATH_ROOM];
  path_in(&w.folder, "odd", path);
  assert_no_server(path, w.key, path, "certificate file");
  assert_no_server(path, w.key, path, "no such file");
  assert_no_server(w.chain, path, path, "no such file");
  assert_no_server(w.folder.path, w.key, w.folder.path, "directory");
  assert_no_server(path_in(&w.folder, "key.pem/below", second), w.key, second, "no directory");
  write_text(path, "");
  assert_no_server(path, w.key, path, "empty");
  assert_no_server(w.chain, path, path, "empty");
  write_text(path, "this is no certificate\n");
  assert_no_server(path, w.key, path, "no PEM block");
  assert_no_server(w.chain, path, path, "key file");
  write_text(path, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  assert_no_server(path, w.key, path, "certificate file");
  write_text(path, "-----BEGIN CERTIFICATE-----\nMIIB");
  assert_no_server(path, w.key, path, "certificate file");
  assert_no_server(w.key, w.key, w.key, "no PEM block");
  assert_no_server(w.chain, w.chain, w.chain, "key file");
  write_key(path, &other, NULL);
  assert_no_server(w.chain, path, path, "does not belong to the certificate");
  write_key(path, &w.server, "secret words");
  assert_no_server(w.chain, path, path, "passphrase");
  unlink(path);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_no_server(path, w.key, path, "no regular file");
  drop(&other);
  world_end(&w);
}

static void a_certificate_out_of_its_time_is_doubted(void **state) {
  (void)state;
  static const struct {
    struct claim claim;
    const char *doubt;
  } samples[] = {
      {{.from_s = -2 * DAY_S, .until_s = -DAY_S}, "expired"},
      {{.from_s = DAY_S, .until_s = 2 * DAY_S}, "not valid yet"},
  };
  struct world w = world_make(good);
  assert_null(tkt_tls_doubt(w.server_tls));
  world_end(&w);
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
    w = world_make(samples[i].claim);
    assert_non_null(strstr(tkt_tls_doubt(w.server_tls), samples[i].doubt));
    world_end(&w);
  }
}

/* --- files of a client --- */

static void assert_no_client(const char *ca, const char *part) {
  char why[TKT_TLS_WHY_SIZE] = "";
  struct tkt_trust trust;
  if (tkt_trust_open(&trust, TKT_TLS_CA_FILE, ca, why)) fail_msg("%s was accepted", ca);
  if (!strstr(why, ca) || !strstr(why, part)) fail_msg("'%s' lacks '%s'", why, part);
  assert_null(trust.tls);
}

static void t1_a_ca_file_that_cannot_be_used_is_refused_by_name(void **state) {
  (void)state;
  struct world w = world_make(good);
  char path[PATH_ROOM];
  path_in(&w.folder, "odd", path);
  assert_no_client(path, "no such file");
  assert_no_client(w.folder.path, "directory");
  write_text(path, "");
  assert_no_client(path, "empty");
  write_text(path, "garbage\n");
  assert_no_client(path, "no certificate");
  assert_no_client(w.key, "no certificate");
  world_end(&w);
}

static void an_endless_path_does_not_overflow_the_sentence(void **state) {
  (void)state;
  static char path[8192];
  char why[TKT_TLS_WHY_SIZE];
  memset(path, 'x', sizeof path - 1);
  assert_null(tkt_tls_client(TKT_TLS_CA_FILE, path, why));
  assert_true(strlen(why) < sizeof why);
  assert_null(tkt_tls_server(path, path, why));
  assert_true(strlen(why) < sizeof why);
}

static bool is_content(struct world *w, struct tkt_trust *trust) {
  int fds[2], server;
  socket_pair(fds);
  struct ends e = {tkt_tls_connect(tkt_trust_now(trust), tkt_tcp_accepted(fds[0]), "a"),
                   tkt_tls_accept(w->server_tls, tkt_tcp_accepted(fds[1]))};
  bool content = shake_hands(&e, &server) == 0;
  ends_drop(&e);
  return content;
}

static void t1_a_replaced_ca_file_holds_for_the_next_connection(void **state) {
  (void)state;
  struct world w = world_make(good);
  struct identity other = issue(NULL, (struct claim){.common_name = "other", .authority = true});
  struct tkt_trust first, copy;
  char why[TKT_TLS_WHY_SIZE], next[PATH_ROOM];
  path_in(&w.folder, "next", next);
  assert_true(tkt_trust_open(&first, TKT_TLS_CA_FILE, w.ca, why));
  assert_true(tkt_trust_copy(&copy, &first));
  assert_true(is_content(&w, &copy));
  const struct tkt_tls *before = tkt_trust_now(&copy);
  assert_ptr_equal(tkt_trust_now(&copy), before); /* nothing changed, nothing read */

  write_chain(next, &other, NULL);
  rename(next, w.ca);
  assert_false(is_content(&w, &copy));
  assert_int_equal(copy.renewed, 1);

  write_chain(next, &w.authority, NULL);
  rename(next, w.ca);
  assert_true(is_content(&w, &copy));
  assert_int_equal(copy.renewed, 2);

  write_text(next, "no certificate\n");
  rename(next, w.ca);
  assert_true(is_content(&w, &copy)); /* the former stays */
  assert_true(is_content(&w, &copy));
  assert_int_equal(copy.refused, 1); /* and is not tried again before it changes */
  unlink(w.ca);
  assert_true(is_content(&w, &copy));
  assert_int_equal(copy.refused, 2);

  write_chain(next, &other, NULL);
  rename(next, w.ca);
  assert_false(is_content(&w, &copy));
  assert_int_equal(copy.renewed, 3);
  assert_int_equal(first.renewed, 0);
  assert_false(is_content(&w, &first)); /* each follows by itself */
  tkt_trust_close(&first);
  tkt_trust_close(&copy);
  drop(&other);
  world_end(&w);
}

static void several_certificates_in_one_file_are_all_trusted(void **state) {
  (void)state;
  struct world w = world_make(good);
  struct identity other = issue(NULL, (struct claim){.common_name = "other", .authority = true});
  struct tkt_trust trust;
  char why[TKT_TLS_WHY_SIZE];
  write_chain(w.ca, &other, &w.authority);
  assert_true(tkt_trust_open(&trust, TKT_TLS_CA_FILE, w.ca, why));
  assert_true(is_content(&w, &trust));
  tkt_trust_close(&trust);
  drop(&other);
  world_end(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_server_without_good_files_is_refused_by_name),
      cmocka_unit_test(a_certificate_out_of_its_time_is_doubted),
      cmocka_unit_test(t1_a_ca_file_that_cannot_be_used_is_refused_by_name),
      cmocka_unit_test(an_endless_path_does_not_overflow_the_sentence),
      cmocka_unit_test(t1_a_replaced_ca_file_holds_for_the_next_connection),
      cmocka_unit_test(several_certificates_in_one_file_are_all_trusted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
