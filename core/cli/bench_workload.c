/* What every workload of the bench begins with and counts. */
#include "cli/bench.h"

#include "cli/values.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

int tkt_bench_connect(const struct tkt_bench_plan *plan, struct tkt_bench_result *result,
                      ticketing_broker **broker_out) {
  *broker_out = NULL;
  ticketing_options *options = NULL;
  ticketing_broker *broker = NULL;
  int rc = ticketing_options_new(&options);
  if (rc == TICKETING_OK) rc = ticketing_options_add_address(options, plan->address);
  if (rc == TICKETING_OK && plan->token)
    rc = ticketing_options_set_token(options, plan->token, strlen(plan->token));
  if (rc == TICKETING_OK) rc = ticketing_options_set_io_mode(options, plan->io_mode);
  char why[TKT_VALUE_WHY_SIZE] = "";
  if (rc == TICKETING_OK && !tkt_cli_tls_apply(&plan->tls, "ticketing bench", options, why))
    rc = TICKETING_E_INVALID_ARGUMENT;
  /* All tasks may have a request under way; the default of the library covers the usual run. */
  if (rc == TICKETING_OK && plan->tasks > 1024)
    rc = ticketing_options_set_max_in_flight(options, plan->tasks);
  if (rc == TICKETING_OK) rc = ticketing_broker_open(options, &broker);
  const char *refusal = *why ? why : options ? ticketing_options_message(options) : "";
  if (rc != TICKETING_OK) {
    snprintf(result->first_failure, sizeof result->first_failure, "%s",
             *refusal ? refusal : ticketing_error_text(rc));
    ticketing_options_free(options);
    return rc;
  }
  ticketing_options_free(options);
  rc = ticketing_broker_wait_ready(broker, TKT_BENCH_READY_S * TICKETING_SECOND);
  if (rc != TICKETING_OK) {
    snprintf(result->first_failure, sizeof result->first_failure,
             "no session with %s within %d s: %s", plan->address, TKT_BENCH_READY_S,
             rc == TICKETING_E_TIMEOUT ? "no lock server answers there" : ticketing_error_text(rc));
    ticketing_broker_free(broker);
    return rc == TICKETING_E_TIMEOUT ? TICKETING_E_NOT_CONNECTED : rc;
  }
  *broker_out = broker;
  return TICKETING_OK;
}

static void read_cpu(int64_t *user_ns, int64_t *system_ns) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  *user_ns = used.ru_utime.tv_sec * TICKETING_SECOND + used.ru_utime.tv_usec * 1000;
  *system_ns = used.ru_stime.tv_sec * TICKETING_SECOND + used.ru_stime.tv_usec * 1000;
}

/* The fields hold the readings of the start, with the sign that makes the stop an addition. */
void tkt_bench_clock_start(struct tkt_bench_result *result, int64_t now) {
  int64_t user_ns, system_ns;
  read_cpu(&user_ns, &system_ns);
  result->user_ns = -user_ns;
  result->system_ns = -system_ns;
  result->elapsed_ns = -now;
}

void tkt_bench_clock_stop(struct tkt_bench_result *result, int64_t now) {
  int64_t user_ns, system_ns;
  read_cpu(&user_ns, &system_ns);
  result->user_ns += user_ns;
  result->system_ns += system_ns;
  result->elapsed_ns += now;
}

void tkt_bench_params(uint32_t key_number, char text[TKT_BENCH_KEY_SIZE], ticketing_key *key,
                      ticketing_acquire_params *params) {
  /* 12 bytes, as the frames of the raw exchange in tests/bench have. */
  key->len = (size_t)snprintf(text, TKT_BENCH_KEY_SIZE, "cycle-%06u", key_number % 1000000);
  key->data = text;
  *params = (ticketing_acquire_params)TICKETING_ACQUIRE_PARAMS_INIT;
  params->keys = key;
  params->key_count = 1;
  params->wait_ns = TKT_BENCH_WAIT_S * TICKETING_SECOND;
  params->lease_ns = TKT_BENCH_LEASE_S * TICKETING_SECOND;
}

unsigned tkt_bench_cost(int code) {
  switch (code) {
  case TICKETING_E_INDETERMINATE:
  case TICKETING_E_NOT_CONNECTED:
  case TICKETING_E_AUTH:
  case TICKETING_E_PROTOCOL:
  case TICKETING_E_CLOSED:
    return TKT_BENCH_COST_OF_LOSS;
  default:
    return 1;
  }
}

void tkt_bench_count_failure(struct tkt_bench_result *result, int code, const char *message) {
  int index = code < 0 ? -code : TKT_BENCH_CODES_ZERO + code;
  if (index < 0 || index >= TKT_BENCH_CODES) index = TKT_BENCH_CODES - 1;
  result->failures[index]++;
  result->cost += tkt_bench_cost(code);
  if (result->failed++ == 0)
    snprintf(result->first_failure, sizeof result->first_failure, "%s",
             message && *message ? message : ticketing_error_text(code));
}

int tkt_bench_code(unsigned index) {
  return index < TKT_BENCH_CODES_ZERO ? -(int)index : (int)index - TKT_BENCH_CODES_ZERO;
}
