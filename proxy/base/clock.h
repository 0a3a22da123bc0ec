/* SPDX-License-Identifier: BSD-3-Clause
 *
 * clock: a time in seconds that never goes back, even if the machine's date is changed.
 * (libev's time jumps then.) Code that a unit test drives takes the time, or a clock, as an
 * argument.
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
