/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/input.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/quote.h"
#include "client/conn.h"
#include "client/requests.h"

/* Space made for what follows a request that is not whole. */
#define READ_MORE ((size_t)16 * 1024)

/* Ends the requests of a client that sends no more: all whole ones have been sent on, and `in`
 * has at most a part of one. */
static void pass_eof(struct client *c)
{
	if (c->user.link && !c->shared)
		link_shutdown(c->user.link);
	else if (c->user.inflight)
		c->user.await_idle = true;
	else
		client_finish(c, "end of requests");
}

void input_resume(struct client *c)
{
	if (buf_len(&c->in)) {
		size_t done = requests_take(c, buf_head(&c->in), buf_len(&c->in));
		/* A closed client has no input. */
		if (client_is_ending(c))
			return;
		buf_consume(&c->in, done);
	}
	if (buf_len(&c->in) == 0)
		buf_give(&c->in, &c->env->inputs);
	if (c->eof && !client_is_parked(c))
		pass_eof(c);
	client_steer_reading(c);
	if (!client_is_dead(c))
		client_notice_memory(c);
}

static void on_input(struct client *c, char *p, size_t n)
{
	size_t done = 0;

	if (p != c->env->scratch) {
		buf_added(&c->in, n);
		if (!client_is_parked(c)) {
			input_resume(c);
			return;
		}
		client_steer_reading(c);
		client_notice_memory(c);
		return;
	}
	done = requests_take(c, p, n);
	if (client_is_ending(c))
		return;
	/* A link that is full now is noticed at the next read. */
	if (done < n) {
		buf_take(&c->in, &c->env->inputs);
		buf_append(&c->in, slice_of(p + done, n - done));
	}
	if (done < n || !c->shared || c->session.pending_nbytes)
		client_notice_memory(c);
}

/* The client sends no more, or is gone. hasp keeps it until its replies have come. Only then
 * does hasp know whether there is a lock to release. Besides, a client that sends no more may
 * still fetch its replies. */
static void on_eof(struct client *c)
{
	c->eof = true;
	stream_pause(&c->stream);
	if (c->state == CLIENT_FINISHING)
		return;
	if (!client_is_parked(c))
		pass_eof(c);
	else if (session_may_be_blocked(&c->session))
		/* Redis ends the blocking command, and drops the later ones. Otherwise it would
		 * pop an element for a client that is gone. */
		link_shutdown(c->user.link);
}

/* Warnings in ten seconds. */
#define TLS_WARNINGS_MAX 10

void input_log_tls_failure(struct client *c, const char *reason)
{
	uint32_t suppressed;

	if (!log_limit_pass(&c->env->tls_failed, c->env->policy.now, TLS_WARNINGS_MAX,
	                    &suppressed))
		return;
	log_warning("tls_failed address=%s listener=%s reason=%s suppressed=%u",
	            QUOTE_STR(c->peer), c->listener, QUOTE_STR(reason), suppressed);
}

static void on_end(struct client *c, ssize_t n)
{
	const char *reason = n < 0 ? stream_strerror(&c->stream, errno) : NULL;

	if (n < 0 && stream_tls_failed(&c->stream))
		input_log_tls_failure(c, reason);
	if (n < 0 && c->session.nawaited == 0)
		client_close(c, reason);
	else if (c->state == CLIENT_PARKED_TURN || c->state == CLIENT_PARKED_QUEUE ||
	         c->state == CLIENT_PARKED_ACK)
		/* As with Redis' blocking commands: a client that hangs up leaves the queue. */
		client_close(c, "hung up while it waited for a lock");
	else if (c->state == CLIENT_FINISHING && stream_pending(&c->stream) == 0)
		client_close(c, "done");
	else
		on_eof(c);
}

/* Returns where to read to, and how much; NULL: there is no memory for it now. Never so much
 * that hasp sees a request whole that is longer than a shared link takes. */
static char *input_space(struct client *c, size_t *size)
{
	bool takes_requests = c->state != CLIENT_STREAMING && c->state != CLIENT_TUNNEL &&
	                      c->state != CLIENT_REFUSED && c->state != CLIENT_FINISHING;
	char *p;

	if (buf_len(&c->in) == 0 && !client_is_parked(c)) {
		*size = takes_requests ? REQUESTS_SHARED_MAX : c->env->scratch_size;
		return c->env->scratch;
	}
	/* `in` grows to twice its size. */
	if (buf_space(&c->in) < READ_MORE && !c->stream.error &&
	    !account_admits(&c->env->account, &c->share, buf_cap(&c->in) + READ_MORE))
		return NULL;
	p = buf_try_reserve(&c->in, READ_MORE);
	*size = buf_space(&c->in);
	return p;
}

void input_on_readable(struct stream *s)
{
	struct client *c = client_of(stream_owner(s));
	size_t size;
	ssize_t n;
	char *p;

	/* Other clients may have filled the link since. */
	if (!s->error && client_is_behind(c)) {
		stream_pause(s);
		return;
	}
	p = input_space(c, &size);
	/* The client for which most is kept is closed before the next turn: this one, maybe. */
	if (!p && s->error)
		client_close(c, strerror(s->error));
	if (!p)
		return;
	n = stream_read(s, p, size);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return;
	if (n <= 0) {
		on_end(c, n);
	} else if (c->state != CLIENT_REFUSED && c->state != CLIENT_FINISHING) {
		client_mark_active(c);
		/* The client may have sent more. */
		if ((size_t)n == size && c->user.link && !c->shared)
			client_steer_link(c);
		on_input(c, p, (size_t)n);
	}
}
