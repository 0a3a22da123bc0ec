/* SPDX-License-Identifier: BSD-3-Clause
 *
 * clock: seconds that only go forward, whatever is done to the machine's date. Not the loop's
 * time, which jumps with that.
 */
#ifndef HASP_BASE_CLOCK_H
#define HASP_BASE_CLOCK_H

#include <time.h>

static inline double clock_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

#endif
