/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sync_query: opens a link on a loop of its own. Both live only while sync_query() runs.
 */
#include "upstream/sync_query.h"

#include <ev.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/quote.h"
#include "net/mailbox.h"
#include "net/resolve.h"
#include "net/stream.h"
#include "net/watch.h"
#include "upstream/own_conn.h"

#define ASK_SCRATCH ((size_t)64 * 1024)

struct ask_session {
	struct ev_loop *loop;
	struct mailbox mailbox;
	struct stream_flusher flusher;
	struct link_env env;
	struct own_conn conn;
	struct loop_timer timer; /* ends after ask.timeout_ms */
	const struct ask *opts;
	bool done; /* all requests were answered */
	size_t nanswered; /* number of answered requests */
	struct buf said; /* the last error reply, also to AUTH; empty: none */
	struct buf *why; /* the caller's buffer for the reason of a failure */
};

/* Ends the query; `why`: the reason of a failure, or NULL. Later events are stopped, because
 * the link's end and the time-out may come in the same turn of the loop. */
static void ask_end(struct ask_session *a, const char *why)
{
	if (why)
		buf_puts(a->why, why);
	loop_timer_stop(&a->timer);
	own_conn_close(&a->conn);
	ev_break(a->loop, EVBREAK_ALL);
}

static void ask_on_answer(struct ask_session *a, const redisReply *reply)
{
	if (!reply) {
		ask_end(a, "hasp does not understand its reply");
		return;
	}
	a->opts->on_reply(a->opts->arg, a->nanswered++, reply);
	if (a->nanswered < a->opts->nrequests)
		return;
	a->done = true;
	ask_end(a, NULL);
}

/* Handles a reply. `tag`: NULL for the reply to AUTH; else the session. */
static void ask_on_reply(void *owner, void *tag, redisReply **reply)
{
	struct ask_session *a = owner;
	const redisReply *r = *reply;

	if (r && r->type == REDIS_REPLY_ERROR) {
		buf_clear(&a->said);
		quote_append(&a->said, slice_of(r->str, (size_t)r->len));
	}
	if (tag)
		ask_on_answer(a, r);
	else if (buf_len(&a->said) && a->opts->refusal)
		buf_append(a->opts->refusal, buf_slice(&a->said));
}

/* Handles the link's end. Adds the last error to the reason, because a server that refuses a
 * connection sends an error before it closes. */
static void ask_on_down(void *owner, enum link_end end, const char *reason)
{
	struct ask_session *a = owner;

	(void)end;
	ask_end(a, reason);
	if (buf_len(&a->said))
		buf_printf(a->why, ", and said: %.*s", (int)buf_len(&a->said),
		           buf_head(&a->said));
}

static const struct own_conn_ops ask_conn_ops = { ask_on_reply, ask_on_down };

static void ask_on_timer(void *arg)
{
	ask_end(arg, "it does not answer in time");
}

static void ask_session_init(struct ask_session *a, const struct ask *opts)
{
	a->loop = watch_loop_new(EVFLAG_AUTO);
	HASP_ASSERT(a->loop);
	mailbox_init(&a->mailbox, a->loop);
	stream_flusher_init(&a->flusher, a->loop);
	a->env = (struct link_env){
		.flusher = &a->flusher,
		.dialer = { .loop = a->loop,
		            .resolver = resolver_new(&a->mailbox),
		            .timeout_ms = opts->timeout_ms,
		            .tls = opts->tls },
		.clock = clock_now,
		.address = opts->address,
		.scratch = xmalloc(ASK_SCRATCH),
		.scratch_size = ASK_SCRATCH,
	};
	links_init(&a->env);
	own_conn_init(&a->conn, &ask_conn_ops, a);
	loop_timer_init(&a->timer, a->loop, ask_on_timer, a);
	loop_timer_start(&a->timer, (double)opts->timeout_ms / 1000);
}

static void ask_session_fini(struct ask_session *a)
{
	links_reap(&a->env);
	resolver_free(a->env.dialer.resolver);
	mailbox_fini(&a->mailbox);
	stream_flusher_fini(&a->flusher);
	watch_loop_free(a->loop);
	tls_resume_clear(&a->env.tls_resume);
	free(a->env.scratch);
	buf_release(&a->said);
}

int sync_query(const struct ask *opts, struct buf *why)
{
	struct ask_session a = { .opts = opts, .said = BUF_INIT, .why = why };

	HASP_ASSERT(opts->nrequests > 0);
	ask_session_init(&a, opts);
	own_conn_open(&a.conn, &a.env, NULL);
	if (opts->password)
		own_conn_send_words(&a.conn,
		                    (const char *[]){ "AUTH", opts->user, opts->password }, 3,
		                    NULL);
	for (size_t i = 0; i < opts->nrequests; i++)
		own_conn_send(&a.conn, opts->requests[i], 1, &a);
	ev_run(a.loop, 0);
	ask_session_fini(&a);
	return a.done ? 0 : -1;
}

/* The result of ask_commands() so far. */
struct ask_learning {
	const struct ask_learner *learner;
	size_t n; /* number of commands that Redis described */
	struct buf error; /* Redis' error reply; empty: none */
};

static void ask_on_commands(void *arg, size_t i, const redisReply *reply)
{
	struct ask_learning *l = arg;

	(void)i;
	l->n = l->learner->on_commands(l->learner->arg, reply);
	if (reply->type == REDIS_REPLY_ERROR)
		quote_append(&l->error, slice_of(reply->str, (size_t)reply->len));
}

int ask_commands(const struct ask *where, const struct ask_learner *learner, struct buf *why)
{
	struct ask_learning l = { .learner = learner, .error = BUF_INIT };
	struct buf refusal = BUF_INIT;
	struct slice request = SLICE_LIT("*1\r\n$7\r\nCOMMAND\r\n");
	struct ask opts = *where;
	int rc;

	opts.requests = &request;
	opts.nrequests = 1;
	opts.on_reply = ask_on_commands;
	opts.arg = &l;
	opts.refusal = &refusal;
	rc = sync_query(&opts, why);
	if (rc == 0 && l.n == 0) {
		/* A Redis without a password refuses AUTH, but still answers COMMAND. */
		if (buf_len(&refusal))
			buf_append(why, buf_slice(&refusal));
		else if (buf_len(&l.error))
			buf_append(why, buf_slice(&l.error));
		else
			buf_puts(why, "hasp does not understand the reply to COMMAND");
		rc = -1;
	}
	buf_release(&refusal);
	buf_release(&l.error);
	return rc;
}
