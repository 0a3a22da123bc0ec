/* SPDX-License-Identifier: BSD-3-Clause
 *
 * link_opening: a link that is not connected and logged in yet. It tries again for
 * env->failover_wait, also at another address, because it has sent no request of a user yet.
 *
 *   link_new() --> dial --> log in --> link_end_opening()
 *       |           |         |
 *       |           '---------'-- failed: again after a while ---> dial
 *       '-- there is no server: waits for link_reopen() ---------> dial
 *
 * When the time is over, the link ends as LINK_UNREACHABLE.
 */
#include <stdio.h>
#include <stdlib.h>

#include "upstream/link_internal.h"

double link_opening_left(const struct link_opening *o)
{
	return o->until - o->link->env->clock();
}

void link_opening_wait(struct link_opening *o, double seconds)
{
	double left = link_opening_left(o);

	if (seconds > left)
		seconds = left > 0 ? left : 0;
	loop_timer_start(&o->timer, seconds);
}

void link_opening_note(struct link_opening *o, const char *reason)
{
	char *copy = xstrdup(reason);

	free(o->reason);
	o->reason = copy;
}

static void give_up(struct link_opening *o)
{
	const char *no_server_reason = o->link->env->no_server_reason;
	char reason[512];

	snprintf(reason, sizeof(reason), "%s",
	         no_server_reason ? no_server_reason
	         : o->reason      ? o->reason
	                          : "it does not answer");
	o->ops->go_down(o->link, LINK_UNREACHABLE, reason);
}

static void opening_on_timer(void *arg)
{
	struct link_opening *o = arg;
	struct link *l = o->link;

	if (link_opening_left(o) <= 0)
		give_up(o);
	else if (!l->dial && !stream_is_open(&l->stream))
		o->ops->try(l);
	else
		/* The timer fired too early: libev counts from the start of the turn. */
		link_opening_wait(o, link_opening_left(o));
}

void link_begin_opening(struct link *l, double seconds, const struct link_opening_ops *ops)
{
	struct link_opening *o = xcalloc(1, sizeof(*o));

	o->link = l;
	o->ops = ops;
	o->until = l->env->clock() + seconds;
	loop_timer_init(&o->timer, l->env->dialer.loop, opening_on_timer, o);
	l->opening = o;
}

void link_end_opening(struct link *l)
{
	struct link_opening *o = l->opening;

	if (!o)
		return;
	l->opening = NULL;
	loop_timer_stop(&o->timer);
	buf_release(&o->login.bytes);
	free(o->reason);
	free(o);
}

void link_set_patience(struct link *l, double seconds)
{
	if (!l->opening)
		return;
	l->opening->until = l->env->clock() + seconds;
	link_opening_wait(l->opening, seconds);
}

void link_reopen(struct link *l)
{
	if (l->dial)
		dial_cancel(l->dial);
	l->dial = NULL;
	if (stream_is_open(&l->stream))
		l->opening->ops->restart_login(l);
	l->opening->ops->try(l);
}

bool link_tries_again(struct link *l, const char *reason)
{
	struct link_opening *o = l->opening;

	if (!o || !link_is_logging_in(l) || link_opening_left(o) <= 0)
		return false;
	/* A caller that ends several links keeps them in a list of its own: leave that list. */
	list_move(&l->env->open, &l->node);
	link_opening_note(o, reason);
	o->ops->restart_login(l);
	link_opening_wait(o, OPENING_AGAIN_SECONDS);
	return true;
}
