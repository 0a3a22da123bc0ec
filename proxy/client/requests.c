/* SPDX-License-Identifier: BSD-3-Clause
 *
 * intake: a client's requests: found, decided, sent on or held.
 */
#include "client/client_internal.h"

#include <errno.h>
#include <string.h>

#include "base/fatal.h"
#include "lock/rewrite/rewrite.h"

/* Room made for what follows a request that is not whole. */
#define READ_MORE ((size_t)16 * 1024)
/* A request that goes on after this many bytes streams, if no rule can concern it. */
#define STREAM_FROM ((size_t)16 * 1024)
/* While its command is answered, a client may send this much ahead. */
#define AHEAD_MAX ((size_t)64 * 1024)
/* The longest request that is sent on a shared link. */
#define SHARED_MAX ((size_t)64 * 1024)

void client_send_up(struct client *c, struct slice bytes)
{
	if (bytes.n == 0)
		return;
	/* What several clients send in a turn of the loop leaves in one piece. */
	if (c->shared)
		link_queue(c->user.link, bytes);
	else
		link_send(c->user.link, bytes);
}

/* What was decided to be sent in place of a request. */
static void client_send_call(struct client *c)
{
	struct slice call = buf_slice(&c->env->policy.call);

	if (c->shared)
		link_queue_call(c->user.link, call);
	else
		link_send(c->user.link, call);
}

/* Sends what was passed and not sent yet, up to the cursor. */
static void send_passed(struct client *c, struct cursor *k)
{
	client_send_up(c, slice_of(k->p + k->from, k->at - k->from));
	k->from = k->at;
}

/* A reply will come, to be treated as decided. */
static void expect(struct client *c, const struct decision *d)
{
	if (d->request && d->request->kind == PENDING_SUBSCRIBE)
		link_watch(c->user.link, true);
	for (unsigned i = 0; i < d->prefix_replies; i++)
		link_expect(&c->user, LINK_DISCARD | d->prefix_flags, d->request);
	link_expect(&c->user, d->reply_flags, d->request);
}

static void open_private(struct client *c)
{
	struct link_login login = session_login(&c->session);
	bool plain = login.db == 0 && login.proto == 2 && !login.password && !login.name;
	struct link *l = link_new(c->env->links, false, plain ? NULL : &login);

	link_join(l, &c->user);
	c->shared = false;
	/* WAIT speaks of what its connection wrote, and that was on shared links: any
	 * command makes Redis count all that was written until now. */
	if (c->env->policy.config->pooling == POOLING_SHARED)
		link_ping(l);
}

static void open_shared(struct client *c)
{
	struct link_login login = session_login(&c->session);

	pool_join(c->env->pool, &login, &c->user);
	c->shared = true;
}

static bool may_share(const struct client *c, enum route route)
{
	return route == ROUTE_SHARED && !c->pinned && !c->session.uncertain &&
	       c->env->policy.config->pooling == POOLING_SHARED;
}

/* Puts the client on a link that will do for `route`. False: not while replies are due. */
static bool take_link(struct client *c, enum route route)
{
	bool shared = may_share(c, route);

	if (c->user.link && (c->shared != shared || client_is_outdated(c)) &&
	    c->user.inflight) {
		if (c->shared)
			return false;
		/* One goes back from a private link when there is nothing to wait for. */
		shared = false;
	}
	if (c->user.link && (c->shared != shared || client_is_outdated(c)))
		client_leave_link(c);
	if (!c->user.link && shared)
		open_shared(c);
	else if (!c->user.link)
		open_private(c);
	if (route == ROUTE_PINNED)
		c->pinned = true;
	return true;
}

static void make_turn(struct client *c, enum tunnel_mode tunnel_mode)
{
	if (tunnel_mode == TUNNEL_NONE)
		return;
	link_make_opaque(c->user.link);
	session_make_opaque(&c->session);
	if (tunnel_mode == TUNNEL_RAW)
		c->intake = INTAKE_RAW;
}

/* Moves the cursor over the request that it stands at. */
static void step(struct client *c, struct cursor *k)
{
	k->at += c->scanned;
	c->scanned = 0;
	c->decide_at = 0;
}

/* The request that the cursor stands at is looked at again, from its beginning. */
static void put_off(struct client *c, enum waiting why)
{
	c->waiting = why;
	c->scanned = 0;
	c->decide_at = 0;
	c->scan = (struct request_scan){ 0 };
	c->user.await_idle = why == WAIT_IDLE;
}

/* Of a try that could not be sent before a reload. */
static void forget_waiter(struct client *c)
{
	waiter_end(c->waiter);
	c->waiter = NULL;
}

/* What was decided is done. False: nothing behind the request may be looked at now. */
static bool act(struct client *c, struct cursor *k, const struct decision *d)
{
	switch (d->verdict) {
	case DISPATCH_PASS:
		forget_waiter(c);
		expect(c, d);
		step(c, k);
		make_turn(c, d->tunnel_mode);
		return true;
	case DISPATCH_CALL:
		send_passed(c, k);
		client_send_call(c);
		expect(c, d);
		if (d->barrier) {
			c->waiting = WAIT_REPLY;
			return false;
		}
		forget_waiter(c);
		step(c, k);
		k->from = k->at;
		return true;
	case DISPATCH_WAIT_QUEUE:
		put_off(c, WAIT_TRY);
		return false;
	default:
		put_off(c, WAIT_AWAITED);
		return false;
	}
}

/* The link that a whole request needs. */
static enum route route_of(const struct client *c, const struct command_info *what,
                           const struct resp_view *req)
{
	enum route route = dispatch_route(&c->env->policy, what, req);

	/* Redis hangs up on some who have not logged in: not on others' link. */
	return route == ROUTE_SHARED && client_must_log_in(c) ? ROUTE_DEDICATED : route;
}

void client_retry(struct client *c, bool eval)
{
	struct context x = client_context(c);
	struct command_info what;
	struct resp_view view;
	struct decision d;
	bool whole;

	view = request_view(&c->env->args, buf_head(&c->in), c->scanned, &whole);
	HASP_ASSERT(whole && view.argc > 0);
	what = classifier_find(&c->env->policy, view.argv[0]);
	/* The link may have gone while the client stood in line, and what the command needs may
	 * have changed. */
	if (!take_link(c, route_of(c, &what, &view))) {
		put_off(c, WAIT_IDLE);
		return;
	}
	x.req = &view;
	x.what = &what;
	x.eval = eval;
	d = dispatch(&x);
	if (d.verdict == DISPATCH_WAIT_QUEUE || d.verdict == DISPATCH_DEFER) {
		put_off(c, d.verdict == DISPATCH_DEFER ? WAIT_AWAITED : WAIT_TRY);
		return;
	}
	if (d.verdict == DISPATCH_CALL) {
		client_send_call(c);
	} else {
		/* The rule is gone since. */
		HASP_ASSERT(d.verdict == DISPATCH_PASS && d.tunnel_mode == TUNNEL_NONE);
		if (d.request && d.request->kind == PENDING_NOTICE) {
			session_complete(&c->session, d.request);
			d.request = NULL;
		}
		client_send_up(c, slice_of(buf_head(&c->in), c->scanned));
	}
	if (!d.request) {
		/* That, or an error of ours, is its answer. */
		d.reply_flags = LINK_NOTIFY;
		d.request = pending_request_new(PENDING_LOCK);
		session_track(&c->session, d.request);
	}
	c->waiting = WAIT_REPLY;
	expect(c, &d);
}

/* Answers with an error of ours and closes, in order behind the replies to come. */
static void client_refuse(struct client *c, struct cursor *k, const char *error)
{
	struct client_env *env = c->env;
	struct decision d = { .verdict = DISPATCH_CALL };

	send_passed(c, k);
	buf_clear(&env->policy.call);
	rewrite_error(&env->policy.call, (struct rewrite_how){ .eval = true }, error);
	client_send_up(c, buf_slice(&env->policy.call));
	expect(c, &d);
	link_shutdown(c->user.link);
	c->intake = INTAKE_NOTHING;
}

/* A request of this length must not sit on a shared link, half sent. */
static bool is_long(const struct client *c, size_t held)
{
	bool shared = c->env->policy.config->pooling == POOLING_SHARED && !c->pinned;

	return held + c->scan.skip >= (shared ? SHARED_MAX : STREAM_FROM);
}

static void pass_bad(struct client *c, struct cursor *k);

/* A request is not whole. False: wait for more of it; true: it streams from here. */
static bool begin_stream(struct client *c, struct cursor *k)
{
	struct client_env *env = c->env;
	struct context x = client_context(c);
	struct slice held = slice_of(k->p + k->at, k->n - k->at);
	bool fits = held.n + c->scan.skip <= (size_t)env->policy.config->max_request;
	struct command_info what;
	struct resp_view view;
	struct decision d;
	bool whole;

	if (c->scan.state == 0 || !is_long(c, held.n))
		return false;
	/* Not at each read, or a long request would cost the square of its length. */
	if (fits && held.n < c->decide_at)
		return false;
	c->decide_at = 2 * held.n;
	if (!take_link(c, ROUTE_PINNED)) {
		put_off(c, WAIT_IDLE);
		return false;
	}
	view = request_view(&env->args, held.p, held.n, &whole);
	x.req = &view;
	d = dispatch_early(&x, &what, c->scan.bulk > STREAM_FROM);
	if (d.verdict == DISPATCH_PASS) {
		expect(c, &d);
		c->intake = INTAKE_STREAM;
		return true;
	}
	if (fits)
		return false;
	/* What Redis itself does not take, it shall say so. */
	if (c->scan.bulk > REQUEST_BULK_MAX)
		pass_bad(c, k);
	else
		client_refuse(c, k,
		              "ERR hasp: a rule may concern this request, and it is longer "
		              "than max_request");
	return false;
}

/* Of who has not logged in Redis takes no long requests, and says so at their first bytes. */
static bool is_refused(const struct client *c)
{
	return client_must_log_in(c) && c->scan.state != 0 &&
	       (c->scan.argc > REQUEST_LOGIN_ARGC || c->scan.bulk > REQUEST_LOGIN_BULK);
}

/* Redis answers the bytes up to here with a protocol error, and closes. More than that it must
 * not get, in case it sees no error there. */
static void pass_bad(struct client *c, struct cursor *k)
{
	if (!take_link(c, ROUTE_PINNED)) {
		put_off(c, WAIT_IDLE);
		return;
	}
	step(c, k);
	send_passed(c, k);
	c->intake = INTAKE_NOTHING;
}

/* `has_args`: they are in env->args already. */
static bool whole_request(struct client *c, struct cursor *k, bool has_args)
{
	struct context x;
	struct resp_view view;
	struct command_info what;
	struct decision d;
	bool whole;

	if (c->intake == INTAKE_STREAM) {
		c->intake = INTAKE_REQUESTS;
		step(c, k);
		return true;
	}
	if (c->scan.empty) {
		/* Redis passes over it without an answer; so do we, on a link of others'. */
		if (!c->user.link || c->shared)
			send_passed(c, k);
		step(c, k);
		if (!c->user.link || c->shared)
			k->from = k->at;
		return true;
	}
	view = (struct resp_view){ c->env->args.argc, c->env->args.argv };
	if (!has_args) {
		view = request_view(&c->env->args, k->p + k->at, c->scanned, &whole);
		HASP_ASSERT(whole && view.argc > 0);
	}
	what = classifier_find(&c->env->policy, view.argv[0]);
	if (!take_link(c, route_of(c, &what, &view))) {
		put_off(c, WAIT_IDLE);
		return false;
	}
	x = client_context(c);
	x.req = &view;
	x.what = &what;
	d = dispatch(&x);
	return act(c, k, &d);
}

/* Takes requests from the `n` bytes at `p`. Returns how many bytes are done with. */
static size_t take_requests(struct client *c, const char *p, size_t n)
{
	struct cursor k = { p, n, 0, 0 };
	bool go_on = true;

	while (go_on && k.at + c->scanned < n && !client_is_dead(c)) {
		size_t used, at;
		bool at_start = c->scanned == 0 && c->intake == INTAKE_REQUESTS;
		if (at_start && (used = fast_path_take(c, &k))) {
			c->scanned = used;
			c->scan.empty = false;
			go_on = whole_request(c, &k, true);
			continue;
		}
		if (k.at == n)
			break;
		at = k.at + c->scanned;
		if (c->intake == INTAKE_NOTHING)
			return n;
		if (c->intake == INTAKE_RAW) {
			k.at = n;
			break;
		}
		switch (at_start ? request_scan_args(&c->scan, p + at, n - at, &used,
		                                     &c->env->args)
		                 : request_scan(&c->scan, p + at, n - at, &used)) {
		case RESP_OK:
			c->scanned += used;
			go_on = whole_request(c, &k, at_start);
			break;
		case RESP_BAD:
			c->scanned += used;
			go_on = false;
			pass_bad(c, &k);
			break;
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

/* There is no room for more requests: the link, the client or we ourselves are behind. */
static bool is_full(const struct client *c)
{
	return (c->user.link && link_is_full(c->user.link)) ||
	       (c->waiting != WAIT_NONE && buf_len(&c->in) >= AHEAD_MAX) ||
	       stream_pending(&c->stream) >= STREAM_HIGH_WATER;
}

void client_steer_reading(struct client *c)
{
	if (client_is_dead(c))
		return;
	if (c->eof || (!c->closing && is_full(c)))
		stream_pause(&c->stream);
	else
		stream_resume(&c->stream);
}

/* All that the client ever sent is sent on. What is left in `in` is no whole request. */
static void pass_eof(struct client *c)
{
	if (c->user.link && !c->shared)
		link_shutdown(c->user.link);
	else if (c->user.inflight)
		c->user.await_idle = true;
	else
		client_finish(c, "end of requests");
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
	/* What is full now will be seen when there is more to read. */
	if (done < n)
		buf_append(&c->in, slice_of(p + done, n - done));
}

void client_on_readable(struct stream *s)
{
	struct client *c = client_of(stream_owner(s));
	struct client_env *env = c->env;
	/* What is longer than a shared link takes is not to be seen whole. */
	size_t room = c->intake == INTAKE_REQUESTS ? SHARED_MAX : env->scratch_size;
	char *p = env->scratch;
	ssize_t n;

	/* Others may have filled the link since. */
	if (!s->error && !c->closing && is_full(c)) {
		stream_pause(s);
		return;
	}
	if (buf_len(&c->in) || c->waiting != WAIT_NONE) {
		p = buf_reserve(&c->in, READ_MORE);
		room = buf_room(&c->in);
	}
	n = stream_read(s, p, room);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return;
	if (n < 0 && c->session.nawaited == 0) {
		client_close(c, strerror(errno));
	} else if (n <= 0 && (c->waiting == WAIT_TURN || c->waiting == WAIT_TRY)) {
		/* As Redis has it with blocking commands: whoever hangs up leaves the queue. */
		client_close(c, "hung up while it waited for a lock");
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
		else if (session_may_be_blocked(&c->session))
			/* Redis lets go of it, and of what is behind it. Else it would give
			 * what it waits for to nobody. */
			link_shutdown(c->user.link);
	} else if (c->intake != INTAKE_NOTHING) {
		client_mark_active(c);
		on_input(c, p, (size_t)n);
	}
}
