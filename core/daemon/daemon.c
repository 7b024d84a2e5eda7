#include "daemon/daemon.h"

#include "daemon/data_directory.h"
#include "daemon/first_token.h"
#include "daemon/loop.h"
#include "daemon/ready.h"
#include "daemon/report.h"
#include "daemon/signals.h"
#include "net/clock.h"
#include "net/endpoint.h"
#include "net/tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Everything that has to be given back, in the order it was taken. */
struct daemon {
  const struct tkt_daemon_config *config;
  struct tkt_log log;
  struct tkt_data_directory data;
  struct tkt_server *server;
  struct tkt_loop loop;
  struct tkt_signals signals;
  struct tkt_report report;
  uint32_t sessions; /* as many as there are descriptors for */
};

static bool nonce(void *context, uint8_t *out, size_t len) {
  (void)context;
  return tkt_entropy(out, len);
}

static enum tkt_daemon_result system_refused(char *why, const char *what, int error) {
  tkt_why(why, "cannot start: %s: %s", what, strerror(error));
  return TKT_DAEMON_SYSTEM;
}

/* A listener that others can reach, with nobody asked who he is, is wanted by few and made by
 * accident by many. */
static enum tkt_daemon_result check(const struct tkt_daemon_config *config, char *why) {
  if (config->listen_count == 0 || config->listen_count > TKT_LISTENERS_MAX) {
    tkt_why(why, "%zu listeners are given; it may be 1 to %d of --listen HOST:PORT",
            config->listen_count, TKT_LISTENERS_MAX);
    return TKT_DAEMON_REFUSED;
  }
  if (config->token_count > 0 || config->allow_no_auth) return TKT_DAEMON_STOPPED;
  for (size_t i = 0; i < config->listen_count; i++) {
    const struct tkt_listen_spec *spec = &config->listens[i];
    if (tkt_listen_spec_loopback(spec)) continue;
    char text[TKT_ADDRESS_TEXT_MAX + 1];
    tkt_listen_spec_text(spec, spec->address.port, text);
    tkt_why(
        why,
        "--listen is '%s', which other machines can reach, and no client tokens are given; give "
        "--token-file FILE, listen on 127.0.0.1, or say --allow-no-auth if everybody who can "
        "reach it may take and release locks",
        text);
    return TKT_DAEMON_REFUSED;
  }
  return TKT_DAEMON_STOPPED;
}

/* Certificate and key go with listeners that speak TLS, and the other way round. */
static enum tkt_daemon_result check_tls(const struct tkt_daemon_config *config, char *why) {
  bool files = config->tls_cert && config->tls_key, wanted = false;
  for (size_t i = 0; i < config->listen_count; i++) {
    const struct tkt_listen_spec *spec = &config->listens[i];
    if (!spec->tls) continue;
    wanted = true;
    if (files) continue;
    char text[TKT_ADDRESS_TEXT_MAX + 1];
    tkt_listen_spec_text(spec, spec->address.port, text);
    tkt_why(why, "--listen is '%s,tls', and %s is missing; give --tls-cert FILE and --tls-key FILE",
            text, config->tls_cert ? "--tls-key" : "--tls-cert");
    return TKT_DAEMON_REFUSED;
  }
  if (wanted || (!config->tls_cert && !config->tls_key)) return TKT_DAEMON_STOPPED;
  tkt_why(why,
          "%s is given, but no listener speaks TLS; write --listen HOST:PORT,tls, or leave it out",
          config->tls_cert ? "--tls-cert" : "--tls-key");
  return TKT_DAEMON_REFUSED;
}

/* Each session is a descriptor; the soft limit of 1,024 is there for programs that use select.
 * Returns how many sessions the hard limit has room for, at most `wanted`: beyond it a connection
 * is closed at accept and counted, which is better than left waiting for a descriptor. */
static uint32_t raise_descriptor_limit(uint32_t wanted) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  if (limit.rlim_cur < limit.rlim_max) {
    struct rlimit raised = {limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  enum { OWN_DESCRIPTORS = 64 }; /* listeners, poller, files */
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= (rlim_t)wanted + OWN_DESCRIPTORS)
    return wanted;
  return limit.rlim_cur > OWN_DESCRIPTORS ? (uint32_t)limit.rlim_cur - OWN_DESCRIPTORS : 1;
}

static enum tkt_daemon_result open_data(struct daemon *daemon, char *why) {
  char path[TKT_DATA_PATH_MAX];
  const char *wanted = daemon->config->data_path;
  enum tkt_data_result result = TKT_DATA_OK;
  if (!wanted) {
    result = tkt_data_directory_default(getenv, path, sizeof path, why);
    wanted = path;
  }
  if (result == TKT_DATA_OK) result = tkt_data_directory_open(&daemon->data, wanted, why);
  if (result == TKT_DATA_OK) return TKT_DAEMON_STOPPED;
  return result == TKT_DATA_IN_USE ? TKT_DAEMON_DATA_IN_USE : TKT_DAEMON_CANNOT_OPEN;
}

static enum tkt_daemon_result open_server(struct daemon *daemon, char *why) {
  struct tkt_server_config engine = {
      .limits = daemon->config->limits,
      .tokens = daemon->config->tokens,
      .token_count = daemon->config->token_count,
      .storage = &tkt_memory_storage,
      .nonce = nonce,
  };
  engine.limits.sessions = raise_descriptor_limit(engine.limits.sessions);
  daemon->sessions = engine.limits.sessions;
  int64_t unix_us = tkt_clock_unix_us();
  bool ignored;
  engine.first_token = tkt_first_token(unix_us, &ignored);
  if (ignored)
    tkt_log_plain(&daemon->log, TKT_LOG_WARNING,
                  "the wall clock is not to be believed, tokens begin at 1: they may be lower than "
                  "those of a previous run");
  if (!tkt_entropy(&engine.hash_secret, sizeof engine.hash_secret))
    return system_refused(why, "no random bytes", EAGAIN);
  daemon->server = tkt_server_new(&engine, tkt_clock_now());
  return daemon->server ? TKT_DAEMON_STOPPED : system_refused(why, "the lock table", ENOMEM);
}

static enum tkt_daemon_result cannot_listen(const struct tkt_listen_spec *spec, int error,
                                            char *why) {
  char text[TKT_ADDRESS_TEXT_MAX + 1];
  struct tkt_endpoint endpoints[TKT_ENDPOINTS_MAX];
  tkt_listen_spec_text(spec, spec->address.port, text);
  if (tkt_endpoints(&spec->address, endpoints) == 0)
    tkt_why(why,
            "cannot listen on %s: a listener takes a numeric address or localhost; for example "
            "127.0.0.1:%u, or 0.0.0.0:%u for all addresses of this machine",
            text, (unsigned)spec->address.port, (unsigned)spec->address.port);
  else if (error == EADDRINUSE)
    tkt_why(
        why,
        "cannot listen on %s: the port is in use; stop the program that has it (`ss -ltnp` says "
        "which), or choose another with --listen HOST:PORT, port 0 takes a free one",
        text);
  else if (error == EACCES)
    tkt_why(why,
            "cannot listen on %s: this user may not; choose a port of 1024 or more with --listen "
            "HOST:PORT",
            text);
  else if (error == EADDRNOTAVAIL)
    tkt_why(
        why,
        "cannot listen on %s: no interface of this machine has this address; `ip address` lists "
        "them",
        text);
  else
    tkt_why(why, "cannot listen on %s: %s; choose another address with --listen HOST:PORT", text,
            strerror(error));
  return TKT_DAEMON_CANNOT_OPEN;
}

static struct tkt_tls *read_certificate(const struct tkt_daemon_config *config, char *why) {
  char fault[TKT_TLS_WHY_SIZE];
  struct tkt_tls *tls = tkt_tls_server(config->tls_cert, config->tls_key, fault);
  if (!tls) tkt_why(why, "%s", fault);
  return tls;
}

static void warn_of_certificate(struct daemon *daemon) {
  const char *doubt = tkt_tls_doubt(daemon->loop.tls);
  if (doubt)
    tkt_log_fields(&daemon->log, TKT_LOG_WARNING, doubt,
                   TKT_FIELD_TEXT("file", daemon->config->tls_cert));
}

static enum tkt_daemon_result open_tls(struct daemon *daemon, char *why) {
  if (!daemon->config->tls_cert) return TKT_DAEMON_STOPPED;
  struct tkt_tls *tls = read_certificate(daemon->config, why);
  if (!tls) return TKT_DAEMON_CANNOT_OPEN;
  tkt_loop_use_tls(&daemon->loop, tls);
  return TKT_DAEMON_STOPPED;
}

static enum tkt_daemon_result open_loop(struct daemon *daemon, char *why) {
  int rc = tkt_loop_open(&daemon->loop, daemon->server, &daemon->log);
  if (rc != 0) return system_refused(why, "the event loop", -rc);
  enum tkt_daemon_result result = open_tls(daemon, why);
  if (result != TKT_DAEMON_STOPPED) return result;
  for (size_t i = 0; i < daemon->config->listen_count; i++) {
    rc = tkt_loop_listen(&daemon->loop, &daemon->config->listens[i]);
    if (rc != 0) return cannot_listen(&daemon->config->listens[i], -rc, why);
  }
  rc = tkt_signals_open(&daemon->signals, &daemon->loop);
  return rc == 0 ? TKT_DAEMON_STOPPED : system_refused(why, "the signals", -rc);
}

static void announce(struct daemon *daemon) {
  tkt_log_plain(&daemon->log, TKT_LOG_WARNING,
                "durability is memory: holders of a previous run are unknown, and a wall clock set "
                "back since then makes lower tokens");
  if (daemon->sessions < daemon->config->limits.sessions)
    tkt_log_fields(
        &daemon->log, TKT_LOG_INFO,
        "the hard descriptor limit allows fewer sessions than --max-sessions; raise it with "
        "LimitNOFILE or ulimit -Hn where that is too few",
        TKT_FIELD_NUMBER("wanted", daemon->config->limits.sessions),
        TKT_FIELD_NUMBER("sessions", daemon->sessions));
  if (daemon->config->token_count == 0)
    tkt_log_plain(&daemon->log, TKT_LOG_INFO, "no client tokens: every client is accepted");
  if (daemon->loop.tls) warn_of_certificate(daemon);
  for (size_t i = 0; i < daemon->loop.listener_count; i++) {
    const struct tkt_listener *listener = &daemon->loop.listeners[i];
    char text[TKT_ADDRESS_TEXT_MAX + 1];
    tkt_listen_spec_text(&listener->spec, listener->port, text);
    tkt_log_fields(&daemon->log, TKT_LOG_INFO, "serving", TKT_FIELD_TEXT("address", text),
                   TKT_FIELD_NUMBER("wire", listener->spec.wire->version),
                   TKT_FIELD_TEXT("tls", listener->spec.tls ? "yes" : "no"),
                   TKT_FIELD_NUMBER("pid", (uint64_t)getpid()),
                   TKT_FIELD_TEXT("data", daemon->data.path));
  }
  if (daemon->config->ready_fd < 0) return;
  int rc = tkt_ready_write(daemon->config->ready_fd, &daemon->loop);
  if (rc != 0)
    tkt_log_fields(&daemon->log, TKT_LOG_WARNING, "nobody reads --ready-fd",
                   TKT_FIELD_TEXT("reason", strerror(-rc)));
}

/* --- reloading ----------------------------------------------------------------------------------
 */

static void reload_failed(struct daemon *daemon, const char *what, const char *why) {
  tkt_log_fields(&daemon->log, TKT_LOG_ERROR, "not reloaded, the former stays in force",
                 TKT_FIELD_TEXT("what", what), TKT_FIELD_TEXT("reason", why));
}

static void reloaded(struct daemon *daemon, const char *what) {
  tkt_log_fields(&daemon->log, TKT_LOG_INFO, "reloaded", TKT_FIELD_TEXT("what", what));
}

static void reload_tokens(struct daemon *daemon) {
  const struct tkt_daemon_config *config = daemon->config;
  const struct tkt_client_token *tokens;
  size_t count;
  char why[TKT_DAEMON_WHY_SIZE];
  if (!config->reread_tokens) return;
  if (!config->reread_tokens(config->reread_context, &tokens, &count, why))
    reload_failed(daemon, "client tokens", why);
  else if (!tkt_server_replace_tokens(daemon->server, tokens, count))
    reload_failed(daemon, "client tokens", "out of memory");
  else
    reloaded(daemon, "client tokens");
}

static void reload_certificate(struct daemon *daemon) {
  char why[TKT_DAEMON_WHY_SIZE];
  if (!daemon->loop.tls) return;
  struct tkt_tls *tls = read_certificate(daemon->config, why);
  if (!tls) {
    reload_failed(daemon, "certificate", why);
    return;
  }
  tkt_loop_use_tls(&daemon->loop, tls);
  reloaded(daemon, "certificate");
  warn_of_certificate(daemon);
}

/* Connections that are open stay; one kind that cannot be read does not keep the other back. */
static void reload(struct daemon *daemon) {
  daemon->signals.reload = false;
  if (!daemon->config->reread_tokens && !daemon->loop.tls)
    tkt_log_plain(&daemon->log, TKT_LOG_INFO,
                  "nothing to reload: there is neither a token file nor a certificate");
  reload_tokens(daemon);
  reload_certificate(daemon);
}

static enum tkt_daemon_result serve(struct daemon *daemon) {
  struct tkt_loop *loop = &daemon->loop;
  tkt_report_init(&daemon->report, tkt_clock_now());
  while (daemon->signals.stops == 0) {
    tkt_loop_turn(loop, tkt_report_wake(&daemon->report, loop->handshakes_failed));
    if (daemon->signals.reload) reload(daemon);
    int64_t now = tkt_clock_now();
    tkt_report_refusals(&daemon->report, daemon->server, &daemon->log, now);
    tkt_report_handshakes(&daemon->report, loop->handshakes_failed, loop->handshake_fault,
                          &daemon->log, now);
  }
  int64_t end = tkt_clock_now() + TKT_DAEMON_STOP_NS;
  tkt_loop_stop_listening(loop);
  tkt_server_drain(daemon->server, tkt_clock_now());
  loop->unsettled = true;
  while (!tkt_server_drained(daemon->server) && daemon->signals.stops == 1) {
    if (tkt_clock_now() >= end) {
      tkt_log_fields(&daemon->log, TKT_LOG_WARNING, "sessions that did not end are cut off",
                     TKT_FIELD_NUMBER("connections", loop->connection_count));
      break;
    }
    tkt_loop_turn(loop, end);
  }
  tkt_report_life(daemon->server, &daemon->log);
  return daemon->signals.stops > 1 ? TKT_DAEMON_CUT : TKT_DAEMON_STOPPED;
}

enum tkt_daemon_result tkt_daemon_run(const struct tkt_daemon_config *config, int *signal_out,
                                      char *why) {
  struct daemon daemon = {.config = config, .log = config->log};
  daemon.data.directory_fd = daemon.data.lock_fd = -1;
  daemon.signals.fd = -1;
  *signal_out = 0;
  enum tkt_daemon_result result = check(config, why);
  if (result == TKT_DAEMON_STOPPED) result = check_tls(config, why);
  if (result == TKT_DAEMON_STOPPED) result = open_data(&daemon, why);
  if (result == TKT_DAEMON_STOPPED) result = open_server(&daemon, why);
  if (result == TKT_DAEMON_STOPPED) result = open_loop(&daemon, why);
  if (result == TKT_DAEMON_STOPPED) {
    announce(&daemon);
    result = serve(&daemon);
    *signal_out = daemon.signals.last;
  }
  if (daemon.signals.fd >= 0) tkt_signals_close(&daemon.signals, &daemon.loop);
  tkt_loop_close(&daemon.loop);
  if (daemon.server) tkt_server_free(daemon.server);
  tkt_data_directory_close(&daemon.data);
  return result;
}
