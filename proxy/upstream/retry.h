/* SPDX-License-Identifier: BSD-3-Clause
 *
 * retry: when one of hasp's own connections is tried again: at once if it had worked for a
 * while, then soon, then ever later; at once when Redis is known to be there.
 */
#ifndef HASP_UPSTREAM_RETRY_H
#define HASP_UPSTREAM_RETRY_H

#include <ev.h>
#include <stdbool.h>

#include "upstream/link.h"

/* Embedded in its owner. */
struct retry {
	struct ev_loop *loop;
	struct ev_timer timer;
	double min_seconds, seconds; /* the first time; the next time */
	double worked_at; /* clock_now(); 0: not since it last came down */
	bool unreachable; /* when it last was tried */
};

/* `fn` tries; `data` is in its timer. */
void retry_init(struct retry *r, struct ev_loop *loop, double min_seconds,
                void (*fn)(struct ev_loop *loop, struct ev_timer *t, int revents), void *data);
void retry_stop(struct retry *r);

/* As soon as the loop runs, and soon again then. */
void retry_restart(struct retry *r);
/* The connection came down, and how. */
void retry_later(struct retry *r, enum link_end end);
/* It works: the next time begins soon again. */
void retry_worked(struct retry *r);
/* Redis is there. Who was refused or hung up on waits nevertheless. */
void retry_now(struct retry *r);

#endif
