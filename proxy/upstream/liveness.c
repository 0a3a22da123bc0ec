/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/liveness.h"

#include <stdio.h>
#include <stdlib.h>

#include "upstream/link_internal.h"
#include "upstream/own_conn.h"

/* The longest time between two checks, in seconds. */
#define LOOK_SECONDS_MAX 0.5
/* When the server has answered the write check, silent links end only this many checks later:
 * Redis resumes all paused clients at the same time, so replies may still come. */
#define WRITES_PASS_LOOKS 4

/* The write check asks, over a separate connection, whether the server executes writes. While
 * writes are paused, a silent link is not dead: Redis may have stopped reading from it. */
enum write_check {
	WRITE_CHECK_NONE, /* no link is silent */
	WRITE_CHECK_ASKED, /* no answer yet: writes may be paused */
	WRITE_CHECK_PASSED, /* the server executes writes: a silent link is dead */
};

struct liveness {
	struct link_env *env;
	const struct control *control;
	struct loop_timer timer; /* starts the checks; stopped if server_timeout is 0 */
	double timeout; /* server_timeout in seconds; 0: none */
	uint32_t limit; /* `timeout` as a number of checks */
	uint32_t nsilent; /* checks in a row at which no link had read anything */
	uint32_t nunanswered; /* checks in a row with `control` down or awaiting an answer */
	enum write_check writes;
	struct own_conn writes_conn; /* for the write check; open while WRITE_CHECK_ASKED */
	uint32_t npassed; /* number of checks since WRITE_CHECK_PASSED */
	bool any_silent; /* this check found a link that was silent for too long */
};

/* True if a request in flight may take long. Redis may keep the replies to earlier requests
 * until a script has ended, so one such request is enough. */
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

/* Ends the write check: writes are not paused. Any reply shows this, even an error. A broken
 * connection counts like a reply. */
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

static void writes_on_down(void *owner, enum link_end end, const char *reason)
{
	(void)end;
	(void)reason;
	writes_passed(owner);
}

static const struct own_conn_ops writes_ops = {
	.on_reply = writes_on_reply,
	.on_down = writes_on_down,
};

/* Begins a write check. The request is a script, which Redis pauses like a write, and which
 * MONITOR does not show. */
static void ask_for_writes(struct liveness *v)
{
	const struct link_login login = {
		.proto = 2,
		.user = v->env->user,
		.password = v->env->password,
	};

	v->writes = WRITE_CHECK_ASKED;
	own_conn_open(&v->writes_conn, &login);
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

/* Begins the write check if a link was silent for too long; ends it if no link was. */
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
	/* If the link has input, the reply may have come while hasp was suspended. */
	if (l->nsilent <= v->limit || stream_has_input(&l->stream))
		return false;
	/* If the server does not answer `control` either, paused writes are not the reason. */
	if (v->nunanswered > v->limit / 2)
		return true;
	v->any_silent = true;
	return v->writes == WRITE_CHECK_PASSED && v->npassed >= WRITES_PASS_LOOKS;
}

static bool is_node_dead(const struct liveness *v)
{
	/* `control` asks only at its next check, when the others have been silent for a while.
	 * So half of the limit is enough for `control`. */
	return v->nsilent >= v->limit && v->nunanswered >= v->limit / 2;
}

/* Ends the connected links that are dead; if `all`, all connected links. */
static void end_links(struct liveness *v, bool all, const char *what)
{
	struct list dead;
	char reason[96];

	list_init(&dead);
	list_drain (struct link, l, &v->env->open, node) {
		if (!stream_is_open(&l->stream) || !(all || is_dead_link(v, l)))
			continue;
		list_move(&dead, &l->node);
	}
	snprintf(reason, sizeof(reason), "%s for %g s", what, v->timeout);
	/* The callbacks of users may end other links of the list. */
	while (!list_empty(&dead))
		link_fail(container_of(dead.next, struct link, node), reason);
}

void liveness_look(struct liveness *v)
{
	const struct account *account = v->env->flusher->account;

	/* Skip the check while hasp is short of memory, because it reads nothing then. */
	if (account && account_is_over(account))
		return;
	v->nsilent++;
	v->nunanswered = control_is_answering(v->control) ? 0 : v->nunanswered + 1;
	v->any_silent = false;
	end_links(v, false, "no reply came");
	check_writes(v);
	if (!is_node_dead(v))
		return;
	v->nsilent = 0;
	end_links(v, true, "the server answered neither PING nor anything else");
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
	own_conn_init(&v->writes_conn, env, 0, &writes_ops, v);
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
