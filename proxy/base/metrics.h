/* SPDX-License-Identifier: BSD-3-Clause
 *
 * metrics: counters, histograms of durations, and Prometheus' text format.
 *
 * Only one thread, the writer, adds to a counter or a histogram: by one plain addition, or two
 * for a duration. Other threads may read at any time, and add up the numbers of several
 * threads:
 *
 *   one thread each --metrics_observe()--> metrics_histogram --metrics_add_up()--> metrics_sums
 *
 * The format is https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4: a
 * family (metrics_family()), followed by its samples.
 */
#ifndef HASP_BASE_METRICS_H
#define HASP_BASE_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* A counter with one writer. */
struct metrics_counter {
	_Atomic uint64_t n;
};

/* Call it on the writer's thread. It needs no locked instruction. */
static inline void metrics_count(struct metrics_counter *c, uint64_t by)
{
	atomic_store_explicit(&c->n, atomic_load_explicit(&c->n, memory_order_relaxed) + by,
	                      memory_order_relaxed);
}

/* Returns the count. From any thread. */
static inline uint64_t metrics_counted(const struct metrics_counter *c)
{
	return atomic_load_explicit(&c->n, memory_order_relaxed);
}

/* Number of buckets: upper bounds from 0.1 ms to 5 min, and one bucket for longer durations. */
#define METRICS_BUCKETS 19

struct metrics_histogram {
	struct metrics_counter n[METRICS_BUCKETS]; /* number of durations in each bucket */
	struct metrics_counter total_us; /* sum of all durations */
};

struct metrics_sums {
	uint64_t n[METRICS_BUCKETS];
	uint64_t total_us;
};

/* Adds a duration; a negative one counts as 0. Call it on the writer's thread. */
void metrics_observe(struct metrics_histogram *h, double seconds);

/* Adds the histogram to `sums`. From any thread. */
void metrics_add_up(struct metrics_sums *sums, const struct metrics_histogram *h);

enum metrics_type { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM };

/* Begins a family, to which the next samples belong. `help` is one line of plain ASCII. */
void metrics_family(struct buf *out, const char *name, enum metrics_type type,
                    const char *help);

struct metrics_label {
	const char *name;
	const char *value; /* any bytes; those that are not UTF-8 become U+FFFD */
};

/* Writes a sample of the family `name`. No other sample of the family may have the same
 * labels. */
void metrics_sample(struct buf *out, const char *name, const struct metrics_label *labels,
                    size_t nlabels, double value);
void metrics_histogram_sample(struct buf *out, const char *name,
                              const struct metrics_label *labels, size_t nlabels,
                              const struct metrics_sums *sums);

#endif
