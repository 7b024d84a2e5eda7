/* What the bench shows: a bar while it runs, a table or JSON at the end. */
#include "cli/bench.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROGRESS_EVERY_NS (100 * TICKETING_MILLISECOND)
enum { BAR_CELLS = 40, DURATION_SIZE = 32 };

void tkt_bench_progress(struct tkt_bench_progress *progress, const struct tkt_bench_plan *plan,
                        uint64_t cycles_ended, int64_t now) {
  if (!plan->show_progress || now < progress->next_ns) return;
  progress->next_ns = now + PROGRESS_EVERY_NS;
  progress->drawn = true;
  char bar[BAR_CELLS + 1];
  size_t full = (size_t)((double)cycles_ended / (double)plan->cycles * BAR_CELLS);
  memset(bar, '.', BAR_CELLS);
  memset(bar, '#', full < BAR_CELLS ? full : BAR_CELLS);
  bar[BAR_CELLS] = '\0';
  fprintf(stderr, "\r  [%s] %llu of %llu cycles ", bar, (unsigned long long)cycles_ended,
          (unsigned long long)plan->cycles);
  fflush(stderr);
}

void tkt_bench_progress_end(struct tkt_bench_progress *progress) {
  if (!progress->drawn) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  progress->drawn = false;
}

static double per_second(const struct tkt_bench_result *result) {
  if (result->elapsed_ns <= 0) return 0;
  return (double)result->cycle.count / ((double)result->elapsed_ns / 1e9);
}

static const char *duration(int64_t ns, char out[DURATION_SIZE]) {
  if (ns < 10 * TICKETING_MILLISECOND) {
    snprintf(out, DURATION_SIZE, "%.1f us", (double)ns / 1e3);
  } else {
    snprintf(out, DURATION_SIZE, "%.1f ms", (double)ns / 1e6);
  }
  return out;
}

static void print_latency(const char *name, const struct tkt_histogram *histogram) {
  char p50[DURATION_SIZE], p90[DURATION_SIZE], p99[DURATION_SIZE], max[DURATION_SIZE];
  printf("  %-9s p50 %-10s p90 %-10s p99 %-10s max %s\n", name,
         duration(tkt_histogram_percentile(histogram, 50), p50),
         duration(tkt_histogram_percentile(histogram, 90), p90),
         duration(tkt_histogram_percentile(histogram, 99), p99), duration(histogram->max, max));
}

static const char *io_name(const struct tkt_bench_result *result) {
  if (!result->plan.event_loop) return "thread";
  return result->plan.io_mode == TICKETING_IO_CALLER ? "caller" : "queue";
}

void tkt_bench_print_text(const struct tkt_bench_result *result) {
  printf("%s: %u %s%s, %u key%s, --io %s\n", result->workload, result->plan.tasks,
         result->plan.event_loop ? "task" : "blocking thread", result->plan.tasks == 1 ? "" : "s",
         result->plan.keys, result->plan.keys == 1 ? "" : "s", io_name(result));
  printf("  %llu cycles in %.3f s: %.0f cycles/s\n", (unsigned long long)result->cycle.count,
         (double)result->elapsed_ns / 1e9, per_second(result));
  if (result->cycle.count)
    printf("  CPU of this side, a cycle: %.2f us user, %.2f us system\n",
           (double)result->user_ns / 1e3 / (double)result->cycle.count,
           (double)result->system_ns / 1e3 / (double)result->cycle.count);
  print_latency("cycle", &result->cycle);
  if (result->acquire.count) print_latency("acquire", &result->acquire);
  if (result->failed == 0) {
    printf("  no cycle failed\n");
    return;
  }
  printf("  %llu cycles failed:", (unsigned long long)result->failed);
  for (unsigned i = 0; i < TKT_BENCH_CODES; i++)
    if (result->failures[i])
      printf(" %s %llu", ticketing_error_name(tkt_bench_code(i)),
             (unsigned long long)result->failures[i]);
  printf("\n  the first one: %s\n", result->first_failure);
}

static void print_json_text(const char *text) {
  putchar('"');
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    if (*p == '"' || *p == '\\') {
      printf("\\%c", *p);
    } else if (*p < 0x20) {
      printf("\\u%04x", *p);
    } else {
      putchar(*p);
    }
  }
  putchar('"');
}

static void print_json_latency(const char *name, const struct tkt_histogram *histogram) {
  printf(", \"%s_ns\": {\"p50\": %lld, \"p90\": %lld, \"p99\": %lld, \"max\": %lld}", name,
         (long long)tkt_histogram_percentile(histogram, 50),
         (long long)tkt_histogram_percentile(histogram, 90),
         (long long)tkt_histogram_percentile(histogram, 99), (long long)histogram->max);
}

static void print_json_result(const struct tkt_bench_result *result) {
  printf("{\"workload\": \"%s\", \"io\": \"%s\", \"tasks\": %u, \"keys\": %u, \"cycles\": %llu, "
         "\"seconds\": %.6f, \"user_seconds\": %.6f, \"system_seconds\": %.6f, "
         "\"cycles_per_second\": %.1f, \"failed\": %llu",
         result->workload, io_name(result), result->plan.tasks, result->plan.keys,
         (unsigned long long)result->cycle.count, (double)result->elapsed_ns / 1e9,
         (double)result->user_ns / 1e9, (double)result->system_ns / 1e9, per_second(result),
         (unsigned long long)result->failed);
  print_json_latency("cycle", &result->cycle);
  if (result->acquire.count) print_json_latency("acquire", &result->acquire);
  if (result->failed) {
    printf(", \"failures\": {");
    const char *comma = "";
    for (unsigned i = 0; i < TKT_BENCH_CODES; i++) {
      if (!result->failures[i]) continue;
      printf("%s\"%s\": %llu", comma, ticketing_error_name(tkt_bench_code(i)),
             (unsigned long long)result->failures[i]);
      comma = ", ";
    }
    printf("}, \"first_failure\": ");
    print_json_text(result->first_failure);
  }
  putchar('}');
}

void tkt_bench_print_json(const struct tkt_bench_result *const *results, unsigned count,
                          const char *server) {
  printf("{\"version\": \"%s\", \"server\": ", ticketing_version());
  print_json_text(server);
  printf(", \"results\": [");
  for (unsigned i = 0; i < count; i++) {
    if (i) printf(", ");
    print_json_result(results[i]);
  }
  printf("]}\n");
}
