/* SPDX-License-Identifier: BSD-3-Clause
 *
 * loop_timers: the timers of base/timers.h on a libev loop and the machine's clock. However
 * many timers run, the loop has one: it is set to the first of them. A timer that is stopped,
 * or that is started later, leaves it where it is, so that most locks come and go without
 * touching the loop.
 */
#ifndef HASP_NET_LOOP_TIMERS_H
#define HASP_NET_LOOP_TIMERS_H

#include <ev.h>

#include "base/timers.h"

struct loop_timers {
	struct timers timers;
	struct ev_loop *loop;
	struct ev_timer watcher;
	double watches_for; /* clock_now() when the watcher fires; INFINITY: it does not run */
};

/* Stays where it is in memory until loop_timers_fini(). */
void loop_timers_init(struct loop_timers *t, struct ev_loop *loop);
void loop_timers_fini(struct loop_timers *t);

#endif
