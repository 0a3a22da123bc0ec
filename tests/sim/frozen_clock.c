/* SPDX-License-Identifier: BSD-3-Clause
 *
 * frozen_clock: preloaded into a real redis-server by check_redis, it shows the date that the
 * file $FROZEN_CLOCK names (microseconds since 1970, a 64-bit integer). The monotonic clock
 * goes on.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t now_us(void)
{
	static const int64_t *clock;

	if (!clock) {
		int fd = open(getenv("FROZEN_CLOCK"), O_RDONLY);
		void *p = mmap(NULL, sizeof(*clock), PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
		if (p == MAP_FAILED)
			abort();
		clock = p;
	}
	return *(const volatile int64_t *)clock;
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	int64_t now;

	if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)
		return (int)syscall(SYS_clock_gettime, id, t);
	now = now_us();
	*t = (struct timespec){ now / 1000000, now % 1000000 * 1000 };
	return 0;
}

int gettimeofday(struct timeval *t, void *zone)
{
	int64_t now = now_us();

	(void)zone;
	*t = (struct timeval){ now / 1000000, now % 1000000 };
	return 0;
}

time_t time(time_t *t)
{
	time_t now = now_us() / 1000000;

	if (t)
		*t = now;
	return now;
}
