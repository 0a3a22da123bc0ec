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
	struct query query;
	const struct ask *opts;
	bool done; /* all requests were answered */
	struct buf *why; /* the caller's buffer for the reason of a failure */
};

/* Ends the loop. Adds the last error to the reason of a failure, because a server that refuses
 * a connection sends an error before it closes. */
static void ask_on_done(void *arg, redisReply *const *replies, const char *why)
{
	struct ask_session *a = arg;

	a->done = replies;
	for (size_t i = 0; replies && i < a->opts->nrequests; i++)
		a->opts->on_reply(a->opts->arg, i, replies[i]);
	if (a->opts->refusal)
		quote_append(a->opts->refusal, slice_str(a->query.refusal));
	buf_puts(a->why, why);
	if (a->query.said) {
		buf_puts(a->why, ", and said: ");
		quote_append(a->why, slice_str(a->query.said));
	}
	ev_break(a->loop, EVBREAK_ALL);
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
		            .tls = opts->tls },
		.clock = clock_now,
		.scratch = xmalloc(ASK_SCRATCH),
		.scratch_size = ASK_SCRATCH,
	};
	links_init(&a->env);
	query_init(&a->query, &a->env, ask_on_done, a);
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
}

int sync_query(const struct ask *opts, struct buf *why)
{
	struct ask_session a = { .opts = opts, .why = why };
	struct buf requests = BUF_INIT;

	ask_session_init(&a, opts);
	for (size_t i = 0; i < opts->nrequests; i++)
		buf_append(&requests, opts->requests[i]);
	query_start(&a.query, &opts->address, opts->user, opts->password, buf_slice(&requests),
	            opts->nrequests, opts->timeout_ms);
	buf_release(&requests);
	ev_run(a.loop, 0);
	ask_session_fini(&a);
	return a.done ? 0 : -1;
}

/* The result of ask_commands() so far. */
struct ask_learning {
	ask_commands_fn *fn;
	void *arg;
	size_t n; /* number of commands that Redis described */
	struct buf error; /* Redis' error reply; empty: none */
};

static void ask_on_commands(void *arg, size_t i, const redisReply *reply)
{
	struct ask_learning *l = arg;

	(void)i;
	l->n = l->fn(l->arg, reply);
	if (reply->type == REDIS_REPLY_ERROR)
		quote_append(&l->error, slice_of(reply->str, (size_t)reply->len));
}

int ask_commands(const struct ask *where, ask_commands_fn *fn, void *arg, struct buf *why)
{
	struct ask_learning l = { .fn = fn, .arg = arg, .error = BUF_INIT };
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
