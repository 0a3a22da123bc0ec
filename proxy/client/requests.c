/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/requests.h"

#include "client/conn.h"
#include "client/exchange.h"
#include "client/fast_path.h"
#include "client/late_exec.h"
#include "client/links.h"
#include "client/request_context.h"
#include "commands/key_args.h"
#include "policy/classifier.h"
#include "policy/session_commands.h"

/* A request that goes on after this many bytes streams, if no rule can concern it. */
#define STREAM_FROM ((size_t)16 * 1024)
/* A call and its copy on its way, each in a buffer that may be twice as long. */
#define CALL_COPIES 4
/* How often both together may name a key or an owner. */
#define CALL_NAMES 8

/* --- the cursor ------------------------------------------------------------------------- */

/* Sends what was passed and not sent yet, up to the cursor. */
static void send_passed(struct client *c, struct cursor *k)
{
	if (k->at == k->from)
		return;
	links_send(c, slice_of(k->p + k->from, k->at - k->from));
	k->from = k->at;
}

/* Moves the cursor over its request. */
static void step_over(struct client *c, struct cursor *k)
{
	k->at += c->scanned;
	c->scanned = 0;
	c->decide_at = 0;
	c->refused = false;
}

/* Parks the client; the cursor's request will be scanned again from its beginning. */
static void put_off(struct client *c, enum client_state why)
{
	client_park(c, why);
	c->scanned = 0;
	c->decide_at = 0;
	c->scan = (struct request_scan){ 0 };
}

/* --- what was decided is done ------------------------------------------------------------- */

/* Returns how the link must handle the reply: LINK_*. */
static unsigned reply_flags(const struct decision *d)
{
	unsigned patient = d->is_patient ? LINK_PATIENT : 0;
	unsigned flags = LINK_NOTIFY | patient;

	if (!d->pending)
		return (d->watches_refusal ? LINK_INTERCEPT : LINK_PASS) | patient;
	/* A followed request is complete when the reads after it are answered. */
	if (d->is_followed)
		flags = LINK_PIECES | patient;
	if (d->pending->kind == PENDING_EXEC || d->pending->value_read)
		flags |= LINK_CAPTURE;
	else if (d->pending->ends_transaction)
		flags |= LINK_INTERCEPT | LINK_INTERCEPT_STATUS;
	if (d->pending->checked_read)
		flags |= LINK_PIECES;
	if (d->pending->kind == PENDING_EXEC && late_exec_sent(d->pending))
		flags |= LINK_INTERCEPT_LATE;
	if (d->pending->kind == PENDING_STREAM)
		flags |= LINK_BEGINS_STREAM;
	if (d->pending->sighting)
		flags |= LINK_NOTIFY_EARLY;
	return flags;
}

/* Tells the link, and the session, of the reply that will come. */
static void expect(struct client *c, const struct decision *d)
{
	if (d->pending) {
		d->pending->number = c->ntransacting;
		session_await(&c->session, d->pending);
		if (d->pending->kind == PENDING_SUBSCRIBE)
			link_watch(c->user.link, true);
	}
	for (unsigned i = 0; i < d->discards; i++)
		link_expect(&c->user, LINK_DISCARD, NULL);
	for (int i = 0; i < (d->is_followed ? 2 : 0); i++)
		link_expect(&c->user, LINK_DISCARD | LINK_PIECES, d->pending);
	link_expect(&c->user, reply_flags(d), d->pending);
	if (!d->is_followed)
		return;
	link_expect(&c->user, LINK_DISCARD | LINK_PIECES, d->pending);
	link_expect(&c->user, LINK_DISCARD | LINK_NOTIFY, d->pending);
}

/* The request is sent with hasp's own reads around it, in one piece. */
static void send_followed(struct client *c, struct cursor *k, const struct decision *d)
{
	struct buf *out = &c->env->policy.rewritten;

	send_passed(c, k);
	followed_script_write(d->pending->pending_lock, slice_of(k->p + k->at, c->scanned),
	                      out);
	links_send(c, buf_slice(out));
	expect(c, d);
	step_over(c, k);
	k->from = k->at;
}

/* Passes the request. False: the client is parked, because later requests depend on the answer.
 */
static bool pass(struct client *c, struct cursor *k, const struct decision *d)
{
	bool is_last = d->pending &&
	               (d->pending->kind == PENDING_STREAM || pending_logs_in(d->pending));

	client_end_wait(c);
	if (d->is_followed) {
		send_followed(c, k, d);
		return true;
	}
	if (d->follows_ping) {
		send_passed(c, k);
		link_ping(c->user.link);
		c->uncounted = false;
	}
	expect(c, d);
	step_over(c, k);
	if (d->turns_opaque) {
		link_make_opaque(c->user.link);
		session_make_opaque(&c->session);
	}
	if (!is_last)
		return true;
	put_off(c, CLIENT_PARKED_DEFERRED);
	return false;
}

/* env->rewritten takes the request's place, and nothing waits for its reply. */
static void replace(struct client *c, struct cursor *k, const struct decision *d)
{
	client_end_wait(c);
	send_passed(c, k);
	links_send_call(c, buf_slice(&c->env->policy.rewritten));
	expect(c, d);
	step_over(c, k);
	k->from = k->at;
}

static void count_command(struct client *c, const struct decision *d)
{
	enum command_outcome outcome = COMMAND_PASSED;

	switch (d->verdict) {
	case DISPATCH_PASS:
		break;
	case DISPATCH_CALL:
		outcome = COMMAND_REWRITTEN;
		break;
	case DISPATCH_GUARD:
		outcome = COMMAND_GUARDED;
		break;
	case DISPATCH_ASK_LOGIN: /* its answer counts: exchange.c */
	case DISPATCH_COUNT_WRITES:
	case DISPATCH_DEFER:
	case DISPATCH_LEARN:
	case DISPATCH_HOLD:
		return;
	}
	if (d->is_refusal)
		outcome = COMMAND_REFUSED;
	metrics_count(&c->env->counters.commands[outcome], 1);
}

/* False: the client is parked. */
static bool act(struct client *c, struct cursor *k, struct context *x, const struct decision *d)
{
	count_command(c, d);
	switch (d->verdict) {
	case DISPATCH_PASS:
		return pass(c, k, d);
	case DISPATCH_CALL:
		if (!d->pending || d->discards) {
			replace(c, k, d);
			return true;
		}
		/* fall through */
	case DISPATCH_GUARD:
	case DISPATCH_ASK_LOGIN:
	case DISPATCH_COUNT_WRITES:
		send_passed(c, k);
		if (exchange_start(c, x, d))
			return false;
		step_over(c, k);
		k->from = k->at;
		return true;
	case DISPATCH_LEARN:
		put_off(c, CLIENT_PARKED_COMMAND);
		return false;
	case DISPATCH_DEFER:
	case DISPATCH_HOLD:
		break;
	}
	put_off(c, CLIENT_PARKED_DEFERRED);
	return false;
}

/* --- requests that are refused ---------------------------------------------------------- */

/* Redis answers the bytes up to here with a protocol error, and closes. More than that it must
 * not get, in case it sees no error there. */
static void pass_bad(struct client *c, struct cursor *k)
{
	if (!links_take(c, ROUTE_PINNED)) {
		put_off(c, CLIENT_PARKED_LINK);
		return;
	}
	if (c->scan.unbalanced) {
		/* Valkey 9.1 would carry out `set a 'b'c`, past all rules. No server takes a
		 * quote alone, and the error is the same. */
		send_passed(c, k);
		links_send(c, SLICE_LIT("\"\r\n"));
		step_over(c, k);
		k->from = k->at;
	} else {
		step_over(c, k);
		send_passed(c, k);
	}
	client_set_state(c, CLIENT_REFUSED);
}

/* Answers with an error of hasp's and closes, in order after the replies that are due. */
static void refuse_long(struct client *c, struct cursor *k, const char *error)
{
	struct context x = request_context(c);
	struct decision d = context_refuse(&x, error);

	send_passed(c, k);
	count_command(c, &d);
	metrics_count(&c->env->counters.limits[LIMIT_REQUEST], 1);
	links_send(c, buf_slice(&x.env->rewritten));
	expect(c, &d);
	link_shutdown(c->user.link);
	client_set_state(c, CLIENT_REFUSED);
}

/* Redis takes no long requests of a client that has not logged in, and says so at their first
 * bytes. */
static bool is_refused_unread(const struct client *c)
{
	/* MULTI was accepted: it has logged in. */
	if (session_in_multi(&c->session) && c->session.nawaited == 0)
		return false;
	/* The client may have logged in by an AUTH whose reply hasp could not follow. */
	if (c->session.opaque && c->session.user_unknown)
		return false;
	return links_must_log_in(c) && c->scan.state != 0 &&
	       (c->scan.argc > REQUEST_LOGIN_ARGC || c->scan.bulk > REQUEST_LOGIN_BULK);
}

/* Cuts the request off, but asks Redis first whether the client is logged in after all: an AUTH
 * may be in flight, or the password may be gone. Then Redis would wait for the rest. */
static void refuse_unread(struct client *c, struct cursor *k)
{
	struct pending_request *r;

	/* (If hasp cannot follow the client's replies, it would not see the answer.) */
	if (c->refused || c->session.opaque) {
		pass_bad(c, k);
		return;
	}
	if (c->session.nawaited == 0) {
		if (!links_take(c, ROUTE_DEDICATED)) {
			put_off(c, CLIENT_PARKED_LINK);
			return;
		}
		send_passed(c, k);
		r = pending_new(PENDING_LOGIN);
		session_await(&c->session, r);
		links_send(c, SLICE_LIT("PING\r\n"));
		link_expect(&c->user, LINK_NOTIFY | LINK_CAPTURE | LINK_DISCARD, r);
	}
	put_off(c, CLIENT_PARKED_DEFERRED);
}

/* --- requests that stream --------------------------------------------------------------- */

/* A request of this length must not sit on a shared link, half sent. */
static bool is_long(const struct client *c, size_t held)
{
	bool shared = c->env->policy.config->pooling == POOLING_SHARED && !c->pinned;

	return held + c->scan.skip >= (shared ? REQUESTS_SHARED_MAX : STREAM_FROM);
}

/* Are there more arguments than can be looked at together? Their slices may take twice the
 * space that they need. */
static bool has_many_args(const struct client *c)
{
	return !account_fits(&c->env->account, c->scan.argc * 2 * sizeof(struct slice));
}

/* Keeps the client on its link if the request, which streams, leaves state there. (The
 * arguments of a command that is passed early do not matter.) */
static void keep_link(struct client *c, const struct command_info *what,
                      const struct resp_view *view)
{
	enum route route = view->argc ? dispatch_route(&c->env->policy, what, view)
	                              : ROUTE_SHARED;

	c->pinned |= route > ROUTE_LINGERING;
	c->bound |= route == ROUTE_BOUND;
}

/* A request is not whole. False: wait for more of it; true: it streams from here. */
static bool begin_stream(struct client *c, struct cursor *k)
{
	struct client_env *env = c->env;
	struct context x = request_context(c);
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
	if (!links_take(c, ROUTE_LINGERING)) {
		put_off(c, CLIENT_PARKED_LINK);
		return false;
	}
	view = request_view(&env->args, held.p, held.n, &whole);
	x.req = &view;
	d = dispatch_early(&x, &what, c->scan.bulk > STREAM_FROM);
	if (d.verdict == DISPATCH_LEARN) {
		put_off(c, CLIENT_PARKED_COMMAND);
		return false;
	}
	if (d.verdict == DISPATCH_PASS) {
		keep_link(c, &what, &view);
		/* The client may take any time to send the rest. */
		d.is_patient = true;
		count_command(c, &d);
		expect(c, &d);
		client_set_state(c, CLIENT_STREAMING);
		return true;
	}
	/* Redis itself rejects this request: pass it, so that the client gets Redis' error. */
	if (!fits && c->scan.bulk > REQUEST_BULK_MAX)
		pass_bad(c, k);
	else if (has_many_args(c))
		refuse_long(c, k,
		            "ERR hasp: a rule may concern this request, and it has more "
		            "arguments than memory_limit allows");
	else if (!fits)
		refuse_long(c, k,
		            "ERR hasp: a rule may concern this request, and it is longer "
		            "than max_request");
	return false;
}

/* --- requests --------------------------------------------------------------------------- */

/* Redis passes over an empty line without an answer; so does hasp, on a link of others'. */
static void skip_empty(struct client *c, struct cursor *k)
{
	bool skipped = !c->user.link || c->shared;

	if (skipped)
		send_passed(c, k);
	step_over(c, k);
	if (skipped)
		k->from = k->at;
}

/* The memory that a call takes, at most, which is sent in the request's place. */
static size_t call_nbytes_most(const struct client *c, const struct resp_view *view,
                               const struct command_info *what)
{
	size_t names = c->session.login_nbytes;
	struct key_args keys;

	if (!what->command)
		return CALL_NAMES * (names + c->scanned);
	key_args_init(&keys, what->command, view);
	for (size_t i = 0; i < keys.n; i++)
		names += view->argv[keys.v[i]].n;
	key_args_fini(&keys);
	return CALL_COPIES * c->scanned + CALL_NAMES * names;
}

/* True if there is memory for the call into which the request may be rewritten. */
static bool can_be_rewritten(struct client *c, const struct resp_view *view,
                             const struct command_info *what)
{
	size_t nbytes;

	if (c->scanned + c->session.login_nbytes < REQUESTS_SHARED_MAX)
		return true;
	nbytes = call_nbytes_most(c, view, what);
	return account_admits(&c->env->account, &c->share, nbytes) &&
	       (nbytes < MEMORY_RESERVE || memory_has(nbytes));
}

static bool decide(struct client *c, struct cursor *k, const struct resp_view *view,
                   const struct command_info *what)
{
	struct context x = request_context(c);
	struct decision d;

	x.req = view;
	x.what = what;
	d = dispatch(&x);
	return act(c, k, &x, &d);
}

/* A login waits until no reply is due on its link: see pending_logs_in(). */
static bool must_await_replies(const struct client *c, const struct command_info *what,
                               const struct resp_view *view)
{
	return c->user.inflight && !c->session.opaque && !session_in_multi(&c->session) &&
	       command_info_is_session(what) && session_command_logs_in(what, view);
}

/* Takes a whole request. `has_args`: its arguments are in env->args already. `found`: its
 * command; NULL: not looked up yet. False: the client is parked. */
static bool take_whole(struct client *c, struct cursor *k, bool has_args,
                       const struct command_info *found)
{
	struct request_args *args = &c->env->args;
	struct resp_view view;
	struct command_info what;
	bool whole;

	if (c->state == CLIENT_STREAMING) {
		client_set_state(c, CLIENT_OPEN);
		step_over(c, k);
		return true;
	}
	if (c->scan.empty) {
		skip_empty(c, k);
		return true;
	}
	view = (struct resp_view){ args->argc, args->argv };
	if (!has_args) {
		view = request_view(args, k->p + k->at, c->scanned, &whole);
		HASP_ASSERT(whole && view.argc > 0);
	}
	what = found ? *found : classifier_find(&c->env->policy, view.argv[0]);
	if (!links_take(c, links_route(c, &what, &view)) ||
	    must_await_replies(c, &what, &view)) {
		put_off(c, CLIENT_PARKED_LINK);
		return false;
	}
	/* A short request may become a call that is many times as long. */
	if (c->user.link && link_is_full(c->user.link)) {
		put_off(c, CLIENT_PARKED_SPACE);
		return false;
	}
	if (!can_be_rewritten(c, &view, &what)) {
		refuse_long(c, k, "ERR hasp: there is not enough memory for this request");
		return false;
	}
	return decide(c, k, &view, &what);
}

/* A request is not whole. */
static void take_part(struct client *c, struct cursor *k)
{
	if (c->state == CLIENT_STREAMING)
		step_over(c, k);
	else if (is_refused_unread(c))
		refuse_unread(c, k);
	else if (begin_stream(c, k))
		step_over(c, k);
}

/* Takes the cursor's request, as far as it has arrived. False: no later request may be taken
 * now. */
static bool take_request(struct client *c, struct cursor *k)
{
	bool at_start = c->scanned == 0 && c->state == CLIENT_OPEN;
	size_t at = k->at + c->scanned, used;
	enum resp_result r;

	if (at_start)
		r = request_scan_args(&c->scan, k->p + at, k->n - at, &used, &c->env->args);
	else
		r = request_scan(&c->scan, k->p + at, k->n - at, &used);
	c->scanned += used;
	if (r == RESP_OK)
		return take_whole(c, k, at_start, NULL);
	if (r == RESP_BAD)
		pass_bad(c, k);
	else
		take_part(c, k);
	return false;
}

size_t requests_take(struct client *c, const char *p, size_t n)
{
	struct cursor k = { p, n, 0, 0, NULL };
	bool goes_on = true;

	while (goes_on && k.at + c->scanned < n && !client_is_dead(c)) {
		size_t used;
		if (c->scanned == 0 && c->state == CLIENT_OPEN &&
		    (used = fast_path_take(c, &k))) {
			c->scanned = used;
			c->scan.empty = false;
			goes_on = take_whole(c, &k, true, k.found);
			continue;
		}
		if (k.at == n)
			break;
		if (c->state == CLIENT_REFUSED || c->state == CLIENT_FINISHING)
			return n;
		if (c->state == CLIENT_TUNNEL) {
			k.at = n;
			break;
		}
		goes_on = take_request(c, &k);
	}
	send_passed(c, &k);
	return c->state == CLIENT_REFUSED ? n : k.at;
}
