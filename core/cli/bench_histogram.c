#include "cli/bench_histogram.h"

#include <stddef.h>

enum { SUB = 1 << TKT_HISTOGRAM_SUB_BITS };

/* Values below 2 * SUB have a bucket each; above, a power of two is cut into SUB buckets. */
static unsigned shift_of(uint64_t value) {
  unsigned top = 63u - (unsigned)__builtin_clzll(value | 1);
  return top > TKT_HISTOGRAM_SUB_BITS ? top - TKT_HISTOGRAM_SUB_BITS : 0;
}

static size_t bucket_of(int64_t ns) {
  const int64_t most = (INT64_C(1) << TKT_HISTOGRAM_VALUE_BITS) - 1;
  uint64_t value = ns < 0 ? 0 : ns > most ? (uint64_t)most : (uint64_t)ns;
  unsigned shift = shift_of(value);
  return (size_t)shift * SUB + (size_t)(value >> shift);
}

static int64_t bucket_end(size_t bucket) {
  size_t shift = bucket < 2 * SUB ? 0 : bucket / SUB - 1;
  uint64_t sub = bucket - shift * SUB;
  return (int64_t)(((sub + 1) << shift) - 1);
}

void tkt_histogram_add(struct tkt_histogram *histogram, int64_t ns) {
  histogram->buckets[bucket_of(ns)]++;
  histogram->count++;
  if (ns > histogram->max) histogram->max = ns;
}

void tkt_histogram_merge(struct tkt_histogram *histogram, const struct tkt_histogram *from) {
  for (size_t i = 0; i < TKT_HISTOGRAM_BUCKETS; i++)
    histogram->buckets[i] += from->buckets[i];
  histogram->count += from->count;
  if (from->max > histogram->max) histogram->max = from->max;
}

int64_t tkt_histogram_percentile(const struct tkt_histogram *histogram, double percent) {
  if (histogram->count == 0) return 0;
  double exact = (double)histogram->count * percent / 100.0;
  uint64_t wanted = (uint64_t)exact;
  if ((double)wanted < exact || wanted == 0) wanted++;
  uint64_t seen = 0;
  for (size_t i = 0; i < TKT_HISTOGRAM_BUCKETS; i++) {
    seen += histogram->buckets[i];
    if (seen >= wanted) {
      int64_t end = bucket_end(i);
      return end < histogram->max ? end : histogram->max;
    }
  }
  return histogram->max;
}
