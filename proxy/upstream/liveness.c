/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/liveness.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "upstream/link_internal.h"

/* A link that is dead is found so many seconds after server_timeout, at most. */
#define LOOK_SECONDS_MAX 0.5

struct liveness {
	struct link_env *env;
	const struct control *control;
	struct ev_timer timer; /* runs while there is a time-out */
	double timeout; /* seconds; 0: none */
	uint32_t limit; /* as many looks are that time */
	uint32_t nsilent; /* so many looks in a row found nothing read on any link */
	uint32_t nunanswered; /* or hasp's own connection waiting for an answer, or down */
};

/* Redis may keep the replies to what came before a script until that is done, too. */
static bool has_patient(const struct fifo *f)
{
	for (uint32_t i = 0; i < f->nruns; i++)
		if (fifo_at(f, i)->flags & (LINK_PATIENT | LINK_BEGINS_STREAM))
			return true;
	return false;
}

static bool is_reply_due(const struct link *l)
{
	return link_scans_replies(l) && fifo_head(&l->fifo) && !l->stream.paused &&
	       !has_patient(&l->fifo);
}

/* Looks at what it has read. */
static bool is_silent_link(struct liveness *v, struct link *l)
{
	if (l->nreads != l->nreads_seen) {
		l->nreads_seen = l->nreads;
		v->nsilent = l->nsilent = 0;
		return false;
	}
	l->nsilent = is_reply_due(l) ? l->nsilent + 1 : 0;
	/* What came while hasp was stopped is read behind this. */
	return l->nsilent > v->limit && !stream_has_input(&l->stream);
}

/* Ends the links of `dead`. What their users do then may end others of them. */
static void end_links(struct liveness *v, struct list *dead, const char *what)
{
	char reason[96];

	snprintf(reason, sizeof(reason), "%s for %g s", what, v->timeout);
	while (!list_empty(dead))
		link_fail(container_of(dead->next, struct link, node), reason);
}

static bool is_node_dead(const struct liveness *v)
{
	/* hasp's own connection asks now and then; it must have had time for an answer. */
	return v->nsilent >= v->limit && v->nunanswered >= v->limit / 2;
}

static bool is_any(struct liveness *v, struct link *l)
{
	(void)v;
	(void)l;
	return true;
}

/* Ends those links for which `is_dead` says so. What is connecting has a time-out of its own.
 */
static void end_dead(struct liveness *v, bool (*is_dead)(struct liveness *v, struct link *l),
                     const char *what)
{
	struct list *at, *next, dead;

	list_init(&dead);
	for (at = v->env->open.next; at != &v->env->open; at = next) {
		struct link *l = container_of(at, struct link, node);
		next = at->next;
		if (!stream_is_open(&l->stream) || !is_dead(v, l))
			continue;
		list_remove(at);
		list_append(&dead, at);
	}
	end_links(v, &dead, what);
}

void liveness_look(struct liveness *v)
{
	const struct account *account = v->env->flusher->account;

	/* While hasp is short of memory nothing is read. */
	if (account && account_is_over(account))
		return;
	v->nsilent++;
	v->nunanswered = control_is_answering(v->control) ? 0 : v->nunanswered + 1;
	end_dead(v, is_silent_link, "no reply came");
	if (!is_node_dead(v))
		return;
	v->nsilent = 0;
	end_dead(v, is_any, "the server did not answer PING, nor anything else,");
}

static void liveness_on_timer(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	(void)loop;
	(void)revents;
	liveness_look(t->data);
}

struct liveness *liveness_new(struct link_env *env, const struct control *control)
{
	struct liveness *v = xcalloc(1, sizeof(*v));

	v->env = env;
	v->control = control;
	ev_timer_init(&v->timer, liveness_on_timer, 0, 0);
	v->timer.data = v;
	return v;
}

void liveness_free(struct liveness *v)
{
	ev_timer_stop(v->env->dialer.loop, &v->timer);
	free(v);
}

void liveness_set_timeout(struct liveness *v, int64_t timeout_ms)
{
	double timeout = (double)timeout_ms / 1000, every = timeout / LIVENESS_LOOKS;

	if (timeout == v->timeout)
		return;
	v->timeout = timeout;
	v->nsilent = v->nunanswered = 0;
	ev_timer_stop(v->env->dialer.loop, &v->timer);
	if (timeout <= 0)
		return;
	if (every > LOOK_SECONDS_MAX)
		every = LOOK_SECONDS_MAX;
	v->limit = (uint32_t)(timeout / every + 0.5);
	ev_timer_set(&v->timer, every, every);
	ev_timer_start(v->env->dialer.loop, &v->timer);
}
