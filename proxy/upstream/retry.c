/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/retry.h"

#define MAX_SECONDS 5.0

void retry_init(struct retry *r, struct ev_loop *loop, double min_seconds,
                void (*fn)(struct ev_loop *loop, struct ev_timer *t, int revents), void *data)
{
	*r = (struct retry){ .loop = loop, .min_seconds = min_seconds, .seconds = min_seconds };
	ev_timer_init(&r->timer, fn, 0, 0);
	r->timer.data = data;
}

void retry_stop(struct retry *r)
{
	ev_timer_stop(r->loop, &r->timer);
}

static void set(struct retry *r, double seconds)
{
	ev_timer_stop(r->loop, &r->timer);
	ev_timer_set(&r->timer, seconds, 0);
	ev_timer_start(r->loop, &r->timer);
}

void retry_now(struct retry *r)
{
	set(r, 0);
}

void retry_later(struct retry *r, enum link_end end)
{
	r->unreachable = end == LINK_UNREACHABLE;
	set(r, r->seconds);
	r->seconds *= 2;
	if (r->seconds > MAX_SECONDS)
		r->seconds = MAX_SECONDS;
}

void retry_worked(struct retry *r)
{
	r->seconds = r->min_seconds;
}

void retry_hurry(struct retry *r)
{
	if (r->unreachable && ev_is_active(&r->timer))
		set(r, 0);
}
