/* SPDX-License-Identifier: BSD-3-Clause
 *
 * intake: a client's requests: found, decided, sent on or held.
 */
#include "client/connection.h"

#include <errno.h>
#include <string.h>

#include "base/fatal.h"
#include "lock/rewrite.h"

/* Room made for what follows a request that is not whole. */
#define READ_MORE ((size_t)16 * 1024)
/* A request that goes on after this many bytes streams, if no rule can concern it. */
#define STREAM_FROM ((size_t)16 * 1024)
/* While its command is answered, a client may send this much ahead. */
#define AHEAD_MAX ((size_t)64 * 1024)

/* Where a pass over the input stands. */
struct cursor {
	const char *p;
	size_t n;
	size_t from; /* first byte that was not sent on */
	size_t at; /* where the request that is looked at begins */
};

void client_send_up(struct client *c, struct slice bytes)
{
	if (bytes.n == 0)
		return;
	if (!c->link)
		c->link = link_new(c->env->links, &client_link_ops, c);
	link_send(c->link, bytes);
}

/* Sends what was passed and not sent yet, up to the cursor. */
static void send_passed(struct client *c, struct cursor *k)
{
	client_send_up(c, slice_of(k->p + k->from, k->at - k->from));
	k->from = k->at;
}

void client_expect(struct client *c, const struct decision *d)
{
	if (!c->link)
		c->link = link_new(c->env->links, &client_link_ops, c);
	if (d->request && d->request->kind == REQUEST_SUBSCRIBE)
		link_watch(c->link, true);
	link_expect(c->link, d->treat, d->request);
}

static void make_turn(struct client *c, enum turn turn)
{
	if (turn == TURN_NONE)
		return;
	link_make_opaque(c->link);
	session_make_opaque(&c->session);
	if (turn == TURN_RAW)
		c->intake = INTAKE_RAW;
}

/* Moves the cursor over the request that it stands at. */
static void step(struct client *c, struct cursor *k)
{
	k->at += c->scanned;
	c->scanned = 0;
	c->decide_at = 0;
}

/* What was decided is done. False: nothing behind the request may be looked at now. */
static bool act(struct client *c, struct cursor *k, const struct decision *d)
{
	switch (d->verdict) {
	case DISPATCH_PASS:
		client_expect(c, d);
		step(c, k);
		make_turn(c, d->turn);
		return true;
	case DISPATCH_CALL:
		send_passed(c, k);
		client_send_up(c, buf_slice(&c->env->call));
		client_expect(c, d);
		if (d->barrier) {
			c->waiting = WAIT_REPLY;
			return false;
		}
		step(c, k);
		k->from = k->at;
		return true;
	default:
		c->waiting = WAIT_AWAITED;
		/* It is scanned again from its beginning. */
		c->scanned = 0;
		c->scan = (struct request_scan){ 0 };
		return false;
	}
}

/* Answers with an error of ours and closes, in order behind the replies to come. */
static void refuse(struct client *c, const char *error)
{
	struct client_env *env = c->env;
	struct decision d = { .verdict = DISPATCH_CALL };

	buf_clear(&env->call);
	rewrite_error(&env->call, (struct rewrite_how){ .eval = true }, error);
	client_send_up(c, buf_slice(&env->call));
	client_expect(c, &d);
	link_shutdown(c->link);
	c->intake = INTAKE_NOTHING;
}

/* A request is not whole. False: wait for more of it; true: it streams from here. */
static bool begin_stream(struct client *c, struct cursor *k)
{
	struct client_env *env = c->env;
	struct dispatch_from from = client_dispatch_from(c);
	struct slice held = slice_of(k->p + k->at, k->n - k->at);
	struct resp_view view;
	struct decision d;
	bool whole;

	if (held.n < STREAM_FROM || c->scan.state == 0)
		return false;
	if (held.n > (size_t)env->config->max_request) {
		send_passed(c, k);
		refuse(c, "ERR hasp: a rule may concern this request, and it is "
		          "longer than max_request");
		return false;
	}
	/* Not at each read, or a long request would cost the square of its length. */
	if (held.n < c->decide_at)
		return false;
	c->decide_at = 2 * held.n;
	view = request_view(&env->args, held.p, held.n, &whole);
	d = dispatch_early(&from, &view);
	if (d.verdict != DISPATCH_PASS)
		return false;
	client_expect(c, &d);
	c->intake = INTAKE_STREAM;
	return true;
}

/* Of who has not logged in Redis takes no long requests, and says so at their first bytes. */
static bool is_refused(const struct client *c)
{
	return c->env->links->login_required && !c->session.logged_in &&
		c->scan.state != 0 &&
		(c->scan.argc > REQUEST_LOGIN_ARGC || c->scan.bulk > REQUEST_LOGIN_BULK);
}

/* Redis answers the bytes up to here with a protocol error, and closes. More than that it must not
 * get, in case it sees no error there. */
static void pass_bad(struct client *c, struct cursor *k)
{
	step(c, k);
	send_passed(c, k);
	c->intake = INTAKE_NOTHING;
}

/* `scanned_whole`: env->args has its arguments already. */
static bool whole_request(struct client *c, struct cursor *k, bool scanned_whole)
{
	struct dispatch_from from = client_dispatch_from(c);
	struct resp_view view;
	struct decision d;
	bool whole;

	if (c->intake == INTAKE_STREAM) {
		c->intake = INTAKE_REQUESTS;
		step(c, k);
		return true;
	}
	if (c->scan.empty) {
		/* Redis passes over it without an answer. */
		step(c, k);
		return true;
	}
	view = (struct resp_view){ c->env->args.argc, c->env->args.argv };
	if (!scanned_whole) {
		view = request_view(&c->env->args, k->p + k->at, c->scanned, &whole);
		HASP_ASSERT(whole && view.argc > 0);
	}
	d = dispatch(&from, &view, false);
	return act(c, k, &d);
}

/* Takes requests from the `n` bytes at `p`. Returns how many bytes are done with. */
static size_t take_requests(struct client *c, const char *p, size_t n)
{
	struct cursor k = { p, n, 0, 0 };
	bool go_on = true;

	while (go_on && k.at + c->scanned < n && !client_is_dead(c)) {
		size_t used, at = k.at + c->scanned;
		bool at_start = c->scanned == 0 && c->intake == INTAKE_REQUESTS;
		if (c->intake == INTAKE_NOTHING)
			return n;
		if (c->intake == INTAKE_RAW) {
			k.at = n;
			break;
		}
		switch (at_start ? request_scan_args(&c->scan, p + at, n - at, &used,
		                                     &c->env->args) :
		                   request_scan(&c->scan, p + at, n - at, &used)) {
		case RESP_OK:
			c->scanned += used;
			go_on = whole_request(c, &k, at_start);
			break;
		case RESP_BAD:
			c->scanned += used;
			pass_bad(c, &k);
			return n;
		case RESP_MORE:
			c->scanned += used;
			go_on = false;
			if (is_refused(c))
				pass_bad(c, &k);
			else if (c->intake == INTAKE_STREAM || begin_stream(c, &k))
				step(c, &k);
			break;
		}
	}
	send_passed(c, &k);
	return c->intake == INTAKE_NOTHING ? n : k.at;
}

void client_steer_reading(struct client *c)
{
	bool full = (c->link && link_pending(c->link) >= STREAM_HIGH_WATER) ||
		(c->waiting != WAIT_NONE && buf_len(&c->in) >= AHEAD_MAX);

	if (client_is_dead(c))
		return;
	if (c->eof || full)
		stream_pause(&c->stream);
	else
		stream_resume(&c->stream);
}

/* All that the client ever sent is sent on. What is left in `in` is no whole request. */
static void pass_eof(struct client *c)
{
	if (!c->link)
		client_finish(c, "end of requests");
	else
		link_shutdown(c->link);
}

void client_go_on(struct client *c)
{
	c->waiting = WAIT_NONE;
	if (buf_len(&c->in)) {
		size_t done = take_requests(c, buf_head(&c->in), buf_len(&c->in));
		/* A closed client has no input. */
		if (client_is_dead(c) || c->closing)
			return;
		buf_consume(&c->in, done);
	}
	if (buf_len(&c->in) == 0)
		buf_release(&c->in);
	if (c->eof && c->waiting == WAIT_NONE)
		pass_eof(c);
	client_steer_reading(c);
}

static void on_input(struct client *c, char *p, size_t n)
{
	size_t done = 0;

	if (p != c->env->scratch) {
		buf_added(&c->in, n);
		if (c->waiting == WAIT_NONE)
			client_go_on(c);
		else
			client_steer_reading(c);
		return;
	}
	done = take_requests(c, p, n);
	if (client_is_dead(c) || c->closing)
		return;
	buf_append(&c->in, slice_of(p + done, n - done));
	client_steer_reading(c);
}

void client_on_readable(struct stream *s)
{
	struct client *c = client_of(s->owner);
	struct client_env *env = c->env;
	size_t room = env->scratch_size;
	char *p = env->scratch;
	ssize_t n;

	if (buf_len(&c->in) || c->waiting != WAIT_NONE) {
		p = buf_reserve(&c->in, READ_MORE);
		room = c->in.cap - c->in.tail;
	}
	n = stream_read(s, p, room);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return;
	if (n < 0 && c->session.nawaited == 0) {
		client_close(c, strerror(errno));
	} else if (n <= 0 && c->closing && stream_pending(s) == 0) {
		client_close(c, "done");
	} else if (n <= 0) {
		/* A lock that is being taken must be known before it can be released, also
		 * when the one who asked is gone. And one who sends no more may
		 * still fetch what he is owed. */
		c->eof = true;
		stream_pause(s);
		if (c->closing)
			return;
		if (c->waiting == WAIT_NONE)
			pass_eof(c);
	} else if (c->intake != INTAKE_NOTHING) {
		client_touch(c);
		on_input(c, p, (size_t)n);
	}
}
