/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/liveness.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "net/loop_timers.h"
#include "upstream/link_internal.h"
#include "upstream/own_conn.h"

/* The longest time between two checks, in seconds. */
#define LOOK_SECONDS_MAX 0.5
/* After the server has answered the write check, silent links have this many checks left:
 * Redis resumes the paused clients at the same time. */
#define WRITES_PASS_LOOKS 4

/* hasp asks whether the server executes writes over a connection of its own: a paused Redis
 * reads no further from the others. */
enum write_check {
	WRITE_CHECK_NONE, /* no link is silent */
	WRITE_CHECK_ASKED, /* no answer yet: Redis may have paused its writes */
	WRITE_CHECK_PASSED, /* it executes writes: a silent link is dead */
};

struct liveness {
	struct link_env *env;
	const struct control *control;
	struct loop_timer timer; /* runs while there is a time-out */
	double timeout; /* seconds; 0: none */
	uint32_t limit; /* `timeout` as a number of checks */
	uint32_t nsilent; /* checks in a row after which no link had read anything */
	uint32_t nunanswered; /* ... that found hasp's own connection waiting, or down */
	enum write_check writes;
	struct own_conn writes_conn; /* open while WRITE_CHECK_ASKED */
	uint32_t npassed; /* checks since WRITE_CHECK_PASSED */
	bool any_silent; /* this check found a link that was silent for too long */
};

/* Redis may also keep the replies to earlier requests until a script has ended. */
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

/* --- CLIENT PAUSE ... WRITE --------------------------------------------------------------- */

/* An error is an answer, too: Redis checks login and ACL before it pauses a command. */
static void writes_passed(struct liveness *v)
{
	v->writes = WRITE_CHECK_PASSED;
	v->npassed = 0;
	own_conn_close(&v->writes_conn);
}

static void writes_on_reply(void *owner, void *tag, redisReply **reply)
{
	(void)tag;
	(void)reply;
	writes_passed(owner);
}

/* Called when the connection of the write check broke. */
static void writes_on_down(void *owner, enum link_end end, const char *reason)
{
	(void)end;
	(void)reason;
	writes_passed(owner);
}

static const struct own_conn_ops writes_ops = { writes_on_reply, writes_on_down };

/* Asks by a script, because Redis pauses scripts, too, and MONITOR does not show them. */
static void ask_for_writes(struct liveness *v)
{
	const struct link_login login = {
		.proto = 2,
		.user = v->env->user,
		.password = v->env->password,
	};

	v->writes = WRITE_CHECK_ASKED;
	own_conn_open(&v->writes_conn, v->env, &login);
	link_send(v->writes_conn.user.link,
	          SLICE_LIT("*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 0\r\n$1\r\n0\r\n"));
	link_expect(&v->writes_conn.user, LINK_NOTIFY | LINK_DISCARD | LINK_PATIENT, NULL);
}

static void end_write_check(struct liveness *v)
{
	if (v->writes == WRITE_CHECK_ASKED)
		writes_passed(v);
	v->writes = WRITE_CHECK_NONE;
}

/* Called after each check of the links. */
static void check_writes(struct liveness *v)
{
	if (!v->any_silent)
		end_write_check(v);
	else if (v->writes == WRITE_CHECK_NONE)
		ask_for_writes(v);
	else if (v->writes == WRITE_CHECK_PASSED)
		v->npassed++;
}

/* --- links -------------------------------------------------------------------------------- */

/* Checks what the link has read. Returns true if the link is dead. */
static bool is_dead_link(struct liveness *v, struct link *l)
{
	if (l->nreads != l->nreads_seen) {
		l->nreads_seen = l->nreads;
		v->nsilent = l->nsilent = 0;
		return false;
	}
	l->nsilent = is_reply_due(l) ? l->nsilent + 1 : 0;
	/* hasp reads bytes later that came while it was stopped. */
	if (l->nsilent <= v->limit || stream_has_input(&l->stream))
		return false;
	/* A server that answers no checks has not just paused writes. */
	if (v->nunanswered > v->limit / 2)
		return true;
	v->any_silent = true;
	return v->writes == WRITE_CHECK_PASSED && v->npassed >= WRITES_PASS_LOOKS;
}

/* Ends the links of `dead`. Their users may then end other links of the list. */
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

/* Ends the links for which `is_dead` returns true. A connecting link has its own time-out. */
static void end_dead(struct liveness *v, bool (*is_dead)(struct liveness *v, struct link *l),
                     const char *what)
{
	struct list dead;

	list_init(&dead);
	list_drain (struct link, l, &v->env->open, node) {
		if (!stream_is_open(&l->stream) || !is_dead(v, l))
			continue;
		list_remove(&l->node);
		list_append(&dead, &l->node);
	}
	end_links(v, &dead, what);
}

void liveness_look(struct liveness *v)
{
	const struct account *account = v->env->flusher->account;

	/* hasp reads nothing while it is short of memory. */
	if (account && account_is_over(account))
		return;
	v->nsilent++;
	v->nunanswered = control_is_answering(v->control) ? 0 : v->nunanswered + 1;
	v->any_silent = false;
	end_dead(v, is_dead_link, "no reply came");
	check_writes(v);
	if (!is_node_dead(v))
		return;
	v->nsilent = 0;
	end_dead(v, is_any, "the server answered neither PING nor anything else");
}

static void liveness_on_timer(void *arg)
{
	liveness_look(arg);
}

struct liveness *liveness_new(struct link_env *env, const struct control *control)
{
	struct liveness *v = xcalloc(1, sizeof(*v));

	v->env = env;
	v->control = control;
	own_conn_init(&v->writes_conn, &writes_ops, v);
	loop_timer_init(&v->timer, env->dialer.loop, liveness_on_timer, v);
	return v;
}

void liveness_free(struct liveness *v)
{
	loop_timer_stop(&v->timer);
	end_write_check(v);
	free(v);
}

void liveness_set_timeout(struct liveness *v, int64_t timeout_ms)
{
	double timeout = (double)timeout_ms / 1000, every = timeout / LIVENESS_LOOKS;

	if (timeout == v->timeout)
		return;
	v->timeout = timeout;
	v->nsilent = v->nunanswered = 0;
	end_write_check(v);
	loop_timer_stop(&v->timer);
	if (timeout <= 0)
		return;
	if (every > LOOK_SECONDS_MAX)
		every = LOOK_SECONDS_MAX;
	v->limit = (uint32_t)(timeout / every + 0.5);
	loop_timer_repeat(&v->timer, every);
}
