/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/fake_clock.h"

#include <time.h>

static long now_ms = 1000 * 1000;

void fake_clock_advance_ms(long ms)
{
	now_ms += ms;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	(void)id;
	*ts = (struct timespec){ now_ms / 1000, now_ms % 1000 * 1000 * 1000 };
	return 0;
}
