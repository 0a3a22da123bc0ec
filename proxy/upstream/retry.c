/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/retry.h"

#include "base/clock.h"

/* Those who wait for a lock are passed over while nobody hears for them: that costs more than
 * to knock where nobody is. Who was refused waits for somebody to change that. */
#define MAX_SECONDS 1.0
#define REFUSED_MAX_SECONDS 5.0

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

static void retry_set(struct retry *r, double seconds)
{
	ev_timer_stop(r->loop, &r->timer);
	ev_timer_set(&r->timer, seconds, 0);
	ev_timer_start(r->loop, &r->timer);
}

void retry_restart(struct retry *r)
{
	r->seconds = r->min_seconds;
	retry_set(r, 0);
}

void retry_later(struct retry *r, enum link_end end)
{
	double max = end == LINK_REFUSED ? REFUSED_MAX_SECONDS : MAX_SECONDS;
	/* Only then: or whoever hangs up on us each time is called without end. */
	bool lasted = r->worked_at > 0 && clock_now() - r->worked_at >= r->min_seconds;

	r->unreachable = end == LINK_UNREACHABLE;
	r->worked_at = 0;
	if (lasted) {
		retry_set(r, 0);
		return;
	}
	if (r->seconds > max)
		r->seconds = max;
	retry_set(r, r->seconds);
	r->seconds *= 2;
}

void retry_worked(struct retry *r)
{
	r->seconds = r->min_seconds;
	r->worked_at = clock_now();
}

void retry_now(struct retry *r)
{
	if (r->unreachable && ev_is_active(&r->timer))
		retry_set(r, 0);
}
