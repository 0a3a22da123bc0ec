/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch/durations.h"

#define SHORTEST 1e-4 /* seconds: the first bucket's bound */
/* The 79th bound is just over a day. */
#define GROWTH 1.3

void durations_add(struct durations *d, double seconds)
{
	double bound = SHORTEST;
	int i = 0;

	while (i < DURATIONS_BUCKETS - 1 && seconds > bound) {
		bound *= GROWTH;
		i++;
	}
	d->n[i]++;
	d->total++;
	if (seconds > d->longest)
		d->longest = seconds;
}

void durations_merge(struct durations *to, const struct durations *from)
{
	for (int i = 0; i < DURATIONS_BUCKETS; i++)
		to->n[i] += from->n[i];
	to->total += from->total;
	if (from->longest > to->longest)
		to->longest = from->longest;
}

double durations_at(const struct durations *d, double share)
{
	double bound = SHORTEST;
	uint32_t seen = 0;

	if (d->total == 0)
		return 0;
	for (int i = 0; i < DURATIONS_BUCKETS; i++, bound *= GROWTH) {
		seen += d->n[i];
		if (seen >= share * d->total)
			break;
	}
	return bound < d->longest ? bound : d->longest;
}
