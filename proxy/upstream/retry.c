/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/retry.h"

/* The longest delay is short: while the subscriber is down, a waiter does not hear that its
 * lock is free, and another client gets it. That costs more than a failed connection. A refusal
 * ends only when an administrator changes something. */
#define MAX_SECONDS 1.0
#define REFUSED_MAX_SECONDS 5.0

static void retry_on_timer(void *arg)
{
	const struct retry *r = arg;

	r->fn(r->arg);
}

void retry_init(struct retry *r, const struct link_env *env, double min_seconds,
                void (*fn)(void *arg), void *arg)
{
	*r = (struct retry){
		.env = env,
		.min_seconds = min_seconds,
		.seconds = min_seconds,
		.fn = fn,
		.arg = arg,
	};
	loop_timer_init(&r->timer, env->dialer.loop, retry_on_timer, r);
}

void retry_stop(struct retry *r)
{
	loop_timer_stop(&r->timer);
}

static void retry_in(struct retry *r, double seconds)
{
	retry_stop(r);
	loop_timer_start(&r->timer, seconds);
}

void retry_restart(struct retry *r)
{
	r->seconds = r->min_seconds;
	retry_in(r, 0);
}

void retry_later(struct retry *r, enum link_end end)
{
	double max = end == LINK_REFUSED ? REFUSED_MAX_SECONDS : MAX_SECONDS;
	/* A server that accepts and then closes each time must not be tried without a pause. */
	bool lasted = r->worked_at > 0 && r->env->clock() - r->worked_at >= r->min_seconds;

	r->unreachable = end == LINK_UNREACHABLE;
	r->worked_at = 0;
	if (lasted) {
		retry_in(r, 0);
		return;
	}
	if (r->seconds > max)
		r->seconds = max;
	retry_in(r, r->seconds);
	r->seconds *= 2;
}

void retry_worked(struct retry *r)
{
	r->seconds = r->min_seconds;
	r->worked_at = r->env->clock();
}

void retry_now(struct retry *r)
{
	if (r->unreachable && loop_timer_is_running(&r->timer))
		retry_in(r, 0);
}
