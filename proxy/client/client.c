/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "client/dispatch.h"
#include "client/session.h"
#include "lock/owner.h"
#include "lock/rewrite.h"
#include "net/dial.h"

#define CLIENT_MAGIC 0x68617370u
/* Room made for what follows a request that is not whole. */
#define READ_MORE ((size_t)16 * 1024)
/* A request that goes on after this many bytes streams, if no rule can concern it. */
#define STREAM_FROM ((size_t)16 * 1024)
/* While its command is answered, a client may send this much ahead. */
#define AHEAD_MAX ((size_t)64 * 1024)
/* How long a client that was told the end may take to hang up, and one that still has bytes to
 * fetch. */
#define HANGUP_SECONDS 5.0
#define FETCH_SECONDS 300.0

/* Why requests are not taken from a client. */
enum waiting {
	WAIT_NONE,
	WAIT_REPLY, /* for the reply to a rewritten request, at the head of `in` */
	WAIT_AWAITED, /* until nothing is awaited: the next one depends on it */
};

enum intake {
	INTAKE_REQUESTS,
	INTAKE_STREAM, /* the rest of a request that is being passed on as it comes */
	INTAKE_RAW, /* a replica's byte stream */
	INTAKE_NOTHING, /* read and drop: a protocol error, or closing */
};

struct client {
	unsigned magic;
	enum waiting waiting;
	enum intake intake;
	bool eof; /* the client sends no more */
	bool closing; /* only `stream`'s last bytes are left */
	struct list node; /* in env->clients, env->closing or env->dead */
	struct client_env *env;
	struct link *link; /* NULL before the first request, and when closed */
	struct link *old_link; /* closed inside its own callback */
	struct owner_identity *identity; /* NULL until it is asked for */
	struct buf in; /* bytes read and not sent on */
	struct request_scan scan;
	size_t scanned; /* how far in the first request */
	size_t decide_at; /* bytes of it at which to ask again if it may stream */
	double active_at; /* loop time */
	struct stream stream;
	struct session session;
	struct hold_owner holds;
};

static struct client *client_of(void *owner)
{
	struct client *c = owner;

	HASP_ASSERT(c->magic == CLIENT_MAGIC);
	return c;
}

static bool is_dead(const struct client *c)
{
	return !stream_is_open(&c->stream);
}

static const struct owner_identity *identity(void *arg)
{
	struct client *c = client_of(arg);

	if (!c->identity) {
		c->identity = xcalloc(1, sizeof(*c->identity));
		owner_identify(c->identity, c->stream.rd.fd, c->env->worker);
	}
	return c->identity;
}

static struct dispatch_from dispatch_from(struct client *c)
{
	return (struct dispatch_from){
		.env = c->env,
		.session = &c->session,
		.holds = &c->holds,
		.identity = identity,
		.arg = c,
	};
}

/* --- closing ---------------------------------------------------------------- */

static void drop_link(struct client *c)
{
	if (!c->link)
		return;
	link_close(c->link);
	HASP_ASSERT(!c->old_link);
	c->old_link = c->link;
	c->link = NULL;
}

/* The end. Memory goes when clients_reap() runs. */
static void client_close(struct client *c, const char *reason)
{
	if (is_dead(c))
		return;
	log_debug("client_closed fd=%d reason=\"%s\"", c->stream.rd.fd, reason);
	drop_link(c);
	hold_end(&c->holds);
	stream_close(&c->stream);
	buf_release(&c->in);
	list_remove(&c->node);
	list_append(&c->env->dead, &c->node);
}

/* Closes when the client has taken its last bytes. What it still sends is read and
 * dropped meanwhile: closing a socket with unread bytes would reset it, and
 * the client might never see them. */
static void client_finish(struct client *c, const char *reason)
{
	if (is_dead(c) || c->closing)
		return;
	if (c->eof && stream_pending(&c->stream) == 0) {
		client_close(c, reason);
		return;
	}
	log_debug("client_closing fd=%d reason=\"%s\"", c->stream.rd.fd, reason);
	drop_link(c);
	hold_end(&c->holds);
	buf_release(&c->in);
	c->closing = true;
	c->intake = INTAKE_NOTHING;
	c->waiting = WAIT_NONE;
	c->active_at = ev_now(c->env->loop);
	list_remove(&c->node);
	list_append(&c->env->closing, &c->node);
	stream_shutdown(&c->stream);
	if (!c->eof)
		stream_resume(&c->stream);
}

static void client_free(struct client *c)
{
	struct client_env *env = c->env;

	list_remove(&c->node);
	link_free(c->old_link);
	session_fini(&c->session);
	free(c->identity);
	c->magic = 0;
	free(c);
	env->n--;
	env->on_gone(env->arg);
}

/* --- requests --------------------------------------------------------------- */

static const struct link_ops link_ops;

/* Where a pass over the input stands. */
struct cursor {
	const char *p;
	size_t n;
	size_t from; /* first byte that was not sent on */
	size_t at; /* where the request that is looked at begins */
};

static void send_up(struct client *c, struct slice bytes)
{
	if (bytes.n == 0)
		return;
	if (!c->link)
		c->link = link_new(c->env->links, &link_ops, c);
	link_send(c->link, bytes);
}

/* Sends what was passed and not sent yet, up to the cursor. */
static void send_passed(struct client *c, struct cursor *k)
{
	send_up(c, slice_of(k->p + k->from, k->at - k->from));
	k->from = k->at;
}

static void expect(struct client *c, const struct decision *d)
{
	if (!c->link)
		c->link = link_new(c->env->links, &link_ops, c);
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
		expect(c, d);
		step(c, k);
		make_turn(c, d->turn);
		return true;
	case DISPATCH_CALL:
		send_passed(c, k);
		send_up(c, buf_slice(&c->env->call));
		expect(c, d);
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
	send_up(c, buf_slice(&env->call));
	expect(c, &d);
	link_shutdown(c->link);
	c->intake = INTAKE_NOTHING;
}

/* A request is not whole. False: wait for more of it; true: it streams from here. */
static bool begin_stream(struct client *c, struct cursor *k)
{
	struct client_env *env = c->env;
	struct dispatch_from from = dispatch_from(c);
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
	expect(c, &d);
	c->intake = INTAKE_STREAM;
	return true;
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
	struct dispatch_from from = dispatch_from(c);
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

	while (go_on && k.at + c->scanned < n && !is_dead(c)) {
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
			if (c->intake == INTAKE_STREAM || begin_stream(c, &k))
				step(c, &k);
			break;
		}
	}
	send_passed(c, &k);
	return c->intake == INTAKE_NOTHING ? n : k.at;
}

/* Stops reading what can't be passed on, and goes on when it can. */
static void steer_reading(struct client *c)
{
	bool full = (c->link && link_pending(c->link) >= STREAM_HIGH_WATER) ||
		(c->waiting != WAIT_NONE && buf_len(&c->in) >= AHEAD_MAX);

	if (is_dead(c))
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

/* Takes requests from `in`, where the reason to wait is gone. */
static void go_on(struct client *c)
{
	c->waiting = WAIT_NONE;
	if (buf_len(&c->in)) {
		size_t done = take_requests(c, buf_head(&c->in), buf_len(&c->in));
		/* A closed client has no input. */
		if (is_dead(c) || c->closing)
			return;
		buf_consume(&c->in, done);
	}
	if (buf_len(&c->in) == 0)
		buf_release(&c->in);
	if (c->eof && c->waiting == WAIT_NONE)
		pass_eof(c);
	steer_reading(c);
}

static void on_input(struct client *c, char *p, size_t n)
{
	size_t done = 0;

	if (p != c->env->scratch) {
		buf_added(&c->in, n);
		if (c->waiting == WAIT_NONE)
			go_on(c);
		else
			steer_reading(c);
		return;
	}
	done = take_requests(c, p, n);
	if (is_dead(c) || c->closing)
		return;
	buf_append(&c->in, slice_of(p + done, n - done));
	steer_reading(c);
}

static void on_readable(struct stream *s)
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
	if (n < 0 && c->waiting != WAIT_REPLY) {
		client_close(c, strerror(errno));
	} else if (n <= 0 && c->closing) {
		client_close(c, "done");
	} else if (n <= 0) {
		/* A lock that is being taken must be known before it can be released, also
		 * when the one who asked is gone. */
		c->eof = true;
		stream_pause(s);
		if (c->waiting == WAIT_NONE)
			pass_eof(c);
	} else if (c->intake != INTAKE_NOTHING) {
		c->active_at = ev_now(env->loop);
		list_remove(&c->node);
		list_append(&env->clients, &c->node);
		on_input(c, p, (size_t)n);
	}
}

/* --- replies ---------------------------------------------------------------- */

static void on_bytes(void *owner, struct slice bytes)
{
	struct client *c = client_of(owner);

	stream_send(&c->stream, bytes);
	if (stream_pending(&c->stream) >= STREAM_HIGH_WATER)
		link_pause(c->link);
}

static void on_client_drained(struct stream *s)
{
	struct client *c = client_of(s->owner);

	if (c->link)
		link_resume(c->link);
	else if (c->closing && c->eof)
		client_close(c, "done");
}

static void on_link_drained(void *owner)
{
	struct client *c = client_of(owner);

	steer_reading(c);
}

/* The rewritten request at the head of `in` is answered: what is behind it goes on. */
static void end_call(struct client *c)
{
	buf_consume(&c->in, c->scanned);
	c->scanned = 0;
	go_on(c);
}

static void on_reply(void *owner, void *tag, const struct resp_reply *reply,
                     struct slice kept)
{
	struct client *c = client_of(owner);
	struct request *r = tag;
	bool was_reset = r->kind == REQUEST_RESET;

	session_reply(&c->session, r, reply, kept, c->env->holds, &c->holds);
	if (was_reset)
		link_watch(c->link, session_is_subscribed(&c->session));
	if (c->waiting == WAIT_REPLY)
		end_call(c);
	else if (c->waiting == WAIT_AWAITED && c->session.nawaited == 0)
		go_on(c);
}

/* The reply to a rewritten request is an error. When Redis does not have the script, the same request
 * goes out again with its text. */
static bool on_error(void *owner, void *tag, struct slice line)
{
	struct client *c = client_of(owner);
	struct dispatch_from from = dispatch_from(c);
	struct resp_view view;
	struct decision d;
	bool whole;

	if (!slice_starts(line, SLICE_LIT("-NOSCRIPT")))
		return true;
	session_forget(&c->session, tag);
	view = request_view(&c->env->args, buf_head(&c->in), c->scanned, &whole);
	d = dispatch(&from, &view, true);
	if (d.verdict == DISPATCH_CALL) {
		send_up(c, buf_slice(&c->env->call));
	} else {
		/* The rule is gone since. */
		HASP_ASSERT(d.verdict == DISPATCH_PASS && d.turn == TURN_NONE);
		send_up(c, slice_of(buf_head(&c->in), c->scanned));
		if (!d.request) {
			d.treat = LINK_TELL;
			d.request = request_new(REQUEST_LOCK);
			session_track(&c->session, d.request);
		}
	}
	expect(c, &d);
	return false;
}

static bool on_frame(void *owner, const struct reply_scan *frame)
{
	struct client *c = client_of(owner);
	struct request *head = link_head(c->link);
	bool ended;

	if (!session_frame(&c->session, frame, head, &ended))
		return false;
	if (ended) {
		link_drop_head(c->link);
		session_forget(&c->session, head);
		if (c->session.nawaited == 0)
			link_watch(c->link, session_is_subscribed(&c->session));
		if (c->waiting == WAIT_AWAITED && c->session.nawaited == 0)
			go_on(c);
	}
	return true;
}

static void on_down(void *owner, const char *reason, bool was_up)
{
	struct client *c = client_of(owner);
	char error[512];

	if (was_up) {
		client_finish(c, reason);
		return;
	}
	snprintf(error, sizeof(error), "-ERR hasp: upstream %s: %s\r\n",
	         c->env->links->name, reason);
	stream_send(&c->stream, slice_str(error));
	client_finish(c, "upstream down");
}

static const struct link_ops link_ops = {
	.on_bytes = on_bytes,
	.on_reply = on_reply,
	.on_error = on_error,
	.on_frame = on_frame,
	.on_drained = on_link_drained,
	.on_down = on_down,
};

static const struct stream_ops stream_ops = { on_readable, on_client_drained };

/* --- all of them ------------------------------------------------------------ */

void client_new(struct client_env *env, int fd)
{
	struct client *c = xcalloc(1, sizeof(*c));

	c->magic = CLIENT_MAGIC;
	c->env = env;
	c->active_at = ev_now(env->loop);
	session_init(&c->session);
	hold_owner_init(&c->holds);
	stream_init(&c->stream, env->flusher, &stream_ops, c);
	list_append(&env->clients, &c->node);
	env->n++;
	dial_tune(fd, env->config->tcp_keepalive_ms);
	stream_attach(&c->stream, fd);
}

void clients_reap(struct client_env *env)
{
	struct list *node;

	while ((node = list_shift(&env->dead)))
		client_free(container_of(node, struct client, node));
}

/* Nothing of the client is under way: closing it now loses nothing. */
static bool is_at_rest(const struct client *c)
{
	return buf_len(&c->in) == 0 && c->intake == INTAKE_REQUESTS &&
		!c->session.in_multi && buf_len(&c->session.watched) == 0 &&
		(!c->link || (link_inflight(c->link) == 0 &&
		              link_pending(c->link) == 0)) &&
		stream_pending(&c->stream) == 0;
}

/* Quiet by nature: it waits for what others publish. */
static bool is_listener(const struct client *c)
{
	return c->session.opaque || c->intake == INTAKE_RAW ||
		session_is_subscribed(&c->session);
}

static void sweep_closing(struct client_env *env, double now)
{
	struct list *at, *next;

	for (at = env->closing.next; at != &env->closing; at = next) {
		struct client *c = container_of(at, struct client, node);
		double limit = stream_pending(&c->stream) ? FETCH_SECONDS :
		                                            HANGUP_SECONDS;
		next = at->next;
		if (now - c->active_at >= limit)
			client_close(c, "its last bytes were not fetched");
	}
}

void clients_sweep(struct client_env *env)
{
	double now = ev_now(env->loop);
	double idle = (double)env->config->client_idle_timeout_ms / 1000;
	struct list *at, *next;

	sweep_closing(env, now);
	for (at = env->clients.next; at != &env->clients; at = next) {
		struct client *c = container_of(at, struct client, node);
		bool listener = is_listener(c);
		next = at->next;
		if (env->draining && !listener && is_at_rest(c))
			client_close(c, "draining");
		else if (!env->draining && idle <= 0)
			return;
		else if (!env->draining && now - c->active_at < idle)
			return;
		else if (!env->draining && !listener && is_at_rest(c))
			client_close(c, "idle for client_idle_timeout");
	}
}

void clients_close(struct client_env *env, const char *reason)
{
	while (!list_empty(&env->clients))
		client_close(container_of(env->clients.next, struct client, node),
		             reason);
	while (!list_empty(&env->closing))
		client_close(container_of(env->closing.next, struct client, node),
		             reason);
}
