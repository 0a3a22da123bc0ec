/* SPDX-License-Identifier: BSD-3-Clause
 *
 * partial: requests of which hasp has only the beginning: those that stream, because no rule
 * can concern them, and those that hasp or Redis refuses before they are whole.
 */
#include "client/client_internal.h"

/* A request that is longer than this, in bytes, is streamed if no rule can concern it. */
#define STREAM_FROM ((size_t)16 * 1024)

/* --- requests that are refused ---------------------------------------------------------- */

void partial_pass_bad(struct client *c, struct cursor *k)
{
	if (!route_take(c, ROUTE_PINNED)) {
		send_put_off(c, CLIENT_PARKED_LINK);
		return;
	}
	if (c->scan.unbalanced) {
		/* Valkey 9.1 would execute `set a 'b'c`, and so bypass all rules. Append a lone
		 * quote, for which every server answers with the same error. */
		send_passed(c, k);
		send_bytes(c, SLICE_LIT("\"\r\n"));
		send_step_over(c, k);
		k->from = k->at;
	} else {
		send_step_over(c, k);
		send_passed(c, k);
	}
	client_set_state(c, CLIENT_REFUSED);
}

void partial_refuse_long(struct client *c, struct cursor *k, const char *error)
{
	struct context x = { .env = &c->env->policy };
	struct decision d;

	/* hasp will half-close the link, so the link must be the client's own. */
	if (!route_take(c, ROUTE_LINGERING)) {
		send_put_off(c, CLIENT_PARKED_LINK);
		return;
	}
	d = context_refuse(&x, error);
	send_passed(c, k);
	send_count(c, &d);
	metrics_count(&c->env->counters.limits[LIMIT_REQUEST], 1);
	/* End the transaction first: within it, Redis would queue the call that is to return
	 * the error. */
	if (session_in_multi(&c->session) && !c->session.opaque) {
		send_bytes(c, SLICE_LIT("*1\r\n$7\r\nDISCARD\r\n"));
		d.discards = 1;
	}
	send_bytes(c, buf_slice(&x.env->rewritten));
	send_expect(c, &d);
	link_shutdown(c->user.link);
	client_set_state(c, CLIENT_REFUSED);
}

/* True if Redis limits the requests of the client, because the client has not logged in. */
static bool is_limited(const struct client *c)
{
	/* Redis has accepted the client's MULTI, so the client has logged in. */
	if (session_in_multi(&c->session) && c->session.nawaited == 0)
		return false;
	/* An AUTH whose reply hasp could not follow may have logged the client in. */
	if (c->session.opaque && !session_user(&c->session))
		return false;
	return client_must_log_in(c);
}

bool partial_is_refused(const struct client *c)
{
	return c->scan.state != 0 && is_limited(c) &&
	       (c->scan.argc > REQUEST_LOGIN_ARGC || c->scan.bulk > REQUEST_LOGIN_BULK);
}

bool partial_is_whole_refused(const struct client *c, const struct resp_view *req,
                              bool is_inline)
{
	bool is_long = req->argc > REQUEST_LOGIN_ARGC;

	if (is_inline || !is_limited(c))
		return false;
	for (size_t i = 0; i < req->argc; i++)
		is_long |= req->argv[i].n > REQUEST_LOGIN_BULK;
	return is_long;
}

void partial_refuse(struct client *c, struct cursor *k)
{
	struct pending_request *r;

	/* Do not ask Redis: it has answered before, or hasp would not see the answer. */
	if (c->session.login == LOGIN_REFUSED || c->session.opaque) {
		partial_pass_bad(c, k);
		return;
	}
	if (c->session.nawaited == 0) {
		if (!route_take(c, ROUTE_DEDICATED)) {
			send_put_off(c, CLIENT_PARKED_LINK);
			return;
		}
		send_passed(c, k);
		r = pending_new(PENDING_LOGIN);
		session_await(&c->session, r);
		send_bytes(c, SLICE_LIT("PING\r\n"));
		link_expect(&c->user, LINK_NOTIFY | LINK_CAPTURE | LINK_DISCARD, r);
	}
	send_put_off(c, CLIENT_PARKED_DEFERRED);
}

/* --- requests that stream --------------------------------------------------------------- */

/* True if the request is long enough for hasp to send it on before its end has arrived. */
static bool is_long(const struct client *c, size_t held)
{
	bool shared = c->env->policy.config->pooling == POOLING_SHARED && !c->pinned;

	return held + c->scan.skip >= (shared ? REQUESTS_SHARED_MAX : STREAM_FROM);
}

/* True if memory_limit leaves no room for the arguments. Each needs a slice, and maybe a struct
 * command_key. The two arrays of these may grow to twice the needed length. */
static bool has_many_args(const struct client *c)
{
	size_t each = sizeof(struct slice) + sizeof(struct command_key);

	return !account_fits(&c->env->account, c->scan.argc * 2 * each);
}

/* Keeps the client on its link if the streamed request changes the link's state, which `route`
 * shows even before all arguments have arrived. */
static void keep_link(struct client *c, enum route route)
{
	c->pinned |= route > ROUTE_LINGERING;
	c->link_sticky |= route == ROUTE_STICKY;
}

bool partial_stream(struct client *c, struct cursor *k)
{
	struct client_env *env = c->env;
	struct context x;
	struct slice held = slice_of(k->p + k->at, k->n - k->at);
	bool fits = held.n + c->scan.skip <= (size_t)env->policy.config->max_request;
	struct command_info what;
	struct resp_view view;
	struct decision d;
	bool whole;

	if (c->scan.state == 0 || !is_long(c, held.n))
		return false;
	/* If hasp parsed at each read, the cost would grow with the square of the length. */
	if (fits && held.n < c->decide_at)
		return false;
	c->decide_at = 2 * held.n;
	if (!route_take(c, ROUTE_LINGERING)) {
		send_put_off(c, CLIENT_PARKED_LINK);
		return false;
	}
	view = request_view(&env->args, held.p, held.n, &whole);
	client_context(c, &x);
	d = dispatch_early(&x, &view, &what, c->scan.bulk > STREAM_FROM);
	if (d.verdict == DISPATCH_LEARN) {
		send_put_off(c, CLIENT_PARKED_COMMAND);
		return false;
	}
	if (d.verdict == DISPATCH_PASS) {
		if (view.argc)
			keep_link(c, dispatch_route(&x));
		/* The reply takes long if the client takes long to send the rest. */
		d.is_patient = true;
		send_count(c, &d);
		send_expect(c, &d);
		client_set_state(c, CLIENT_STREAMING);
		return true;
	}
	/* Redis itself rejects such an argument: pass it, so that the client gets the error. */
	if (!fits && c->scan.bulk > REQUEST_BULK_MAX)
		partial_pass_bad(c, k);
	else if (has_many_args(c))
		partial_refuse_long(c, k,
		                    "ERR hasp: a rule may apply to this request, but it has "
		                    "more arguments than memory_limit allows");
	else if (!fits)
		partial_refuse_long(c, k,
		                    "ERR hasp: a rule may apply to this request, but it is "
		                    "longer than max_request");
	return false;
}
