/* SPDX-License-Identifier: BSD-3-Clause
 *
 * retry: decides when hasp opens one of its own connections again. If the connection had worked
 * for a while, or Redis is known to be up again, hasp opens it at once; otherwise after a delay
 * that doubles with each failure, up to a limit. The environment's clock gives the time.
 */
#ifndef HASP_UPSTREAM_RETRY_H
#define HASP_UPSTREAM_RETRY_H

#include <stdbool.h>

#include "net/loop_timers.h"
#include "upstream/link.h"

/* Embedded in its owner. */
struct retry {
	const struct link_env *env; /* its loop and its clock */
	struct loop_timer timer; /* runs while the connection is down and a try is due */
	double min_seconds; /* the first delay after it worked */
	double seconds; /* the next delay */
	double worked_at; /* env->clock() when it began to work; 0: it has not since it ended */
	bool unreachable; /* how the last try ended */
	void (*fn)(void *arg);
	void *arg;
};

/* `fn` makes a try; it runs on the loop, once for each retry_restart(), retry_later() and
 * retry_now(), unless another of them comes before. */
void retry_init(struct retry *r, const struct link_env *env, double min_seconds,
                void (*fn)(void *arg), void *arg);
void retry_stop(struct retry *r);

/* A try as soon as the loop runs; if it fails, the delays begin with the shortest. */
void retry_restart(struct retry *r);
/* The connection ended, or a try failed; `end`: how. */
void retry_later(struct retry *r, enum link_end end);
/* The connection works: the delays begin with the shortest. */
void retry_worked(struct retry *r);
/* Redis is there: a try that waits because it could not be reached is made as soon as the loop
 * runs. One that waits because Redis refused, or closed the connection, goes on waiting. */
void retry_now(struct retry *r);

#endif
