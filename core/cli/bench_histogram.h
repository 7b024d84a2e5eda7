/* Durations counted in buckets whose width is 1/128 of their value (the idea of HdrHistogram): any
 * number of samples in a fixed 35 KB, mergeable, percentiles right to under 1 %. */
#ifndef TKT_CLI_BENCH_HISTOGRAM_H
#define TKT_CLI_BENCH_HISTOGRAM_H

#include <stdint.h>

enum {
  TKT_HISTOGRAM_SUB_BITS = 7,    /* 128 buckets a power of two */
  TKT_HISTOGRAM_VALUE_BITS = 41, /* up to 2^41 ns, over half an hour; longer ones count as that */
  TKT_HISTOGRAM_BUCKETS = (TKT_HISTOGRAM_VALUE_BITS - TKT_HISTOGRAM_SUB_BITS + 1)
                          << TKT_HISTOGRAM_SUB_BITS,
};

/* Zeroed memory is an empty one. */
struct tkt_histogram {
  uint64_t count;
  int64_t max;
  uint64_t buckets[TKT_HISTOGRAM_BUCKETS];
};

/* Counts one duration in ns; negative ones count as 0. */
void tkt_histogram_add(struct tkt_histogram *histogram, int64_t ns);

/* Adds the samples of `from`. */
void tkt_histogram_merge(struct tkt_histogram *histogram, const struct tkt_histogram *from);

/* The duration (ns) that `percent` (0..100) of the samples do not pass; 0 where there are none. */
int64_t tkt_histogram_percentile(const struct tkt_histogram *histogram, double percent);

#endif
