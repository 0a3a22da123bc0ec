/* SPDX-License-Identifier: BSD-3-Clause
 *
 * durations: a histogram of durations: counts in buckets whose bounds grow by a third, from a
 * tenth of a millisecond to a day. Single durations are not kept.
 */
#ifndef HASP_WATCH_DURATIONS_H
#define HASP_WATCH_DURATIONS_H

#include <stdint.h>

#define DURATIONS_BUCKETS 80

struct durations {
	uint32_t n[DURATIONS_BUCKETS];
	uint32_t total;
	double longest; /* seconds */
};

void durations_add(struct durations *d, double seconds);
void durations_merge(struct durations *to, const struct durations *from);
/* At least this share of them took no longer, in seconds, to the bound of a bucket; 0: there
 * are none. */
double durations_at(const struct durations *d, double share);

#endif
