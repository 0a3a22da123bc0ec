/* SPDX-License-Identifier: BSD-3-Clause
 *
 * metrics: counters, histograms of durations, and Prometheus' text format.
 *
 * A counter or a histogram has one writer, for which it costs one plain addition, or two for a
 * duration. Other threads may read it at any time, and add up those of several threads:
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

/* A number with one writer. */
struct metrics_counter {
	_Atomic uint64_t n;
};

/* On the writer's thread. No locked instruction is needed. */
static inline void metrics_count(struct metrics_counter *c, uint64_t by)
{
	atomic_store_explicit(&c->n, atomic_load_explicit(&c->n, memory_order_relaxed) + by,
	                      memory_order_relaxed);
}

/* From any thread. */
static inline uint64_t metrics_counted(const struct metrics_counter *c)
{
	return atomic_load_explicit(&c->n, memory_order_relaxed);
}

/* Upper bounds from 0.1 ms to 5 min; the last bucket has what is longer. */
#define METRICS_BUCKETS 19

struct metrics_histogram {
	struct metrics_counter n[METRICS_BUCKETS]; /* durations in that bucket alone */
	struct metrics_counter total_us; /* of all of them */
};

struct metrics_sums {
	uint64_t n[METRICS_BUCKETS];
	uint64_t total_us;
};

/* On the writer's thread. A negative duration counts as none at all. */
void metrics_observe(struct metrics_histogram *h, double seconds);

/* Adds what the histogram has to `sums`. From any thread. */
void metrics_add_up(struct metrics_sums *sums, const struct metrics_histogram *h);

enum metrics_type { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM };

/* Begins a family: what follows are its samples. `help` is one line of plain ASCII. */
void metrics_family(struct buf *out, const char *name, enum metrics_type type,
                    const char *help);

struct metrics_label {
	const char *name;
	const char *value; /* any bytes; what is not UTF-8 becomes U+FFFD */
};

/* A sample of the family `name`; no two of it may have the same labels. */
void metrics_sample(struct buf *out, const char *name, const struct metrics_label *labels,
                    size_t nlabels, double value);
void metrics_histogram_sample(struct buf *out, const char *name,
                              const struct metrics_label *labels, size_t nlabels,
                              const struct metrics_sums *sums);

#endif
