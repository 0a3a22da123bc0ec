/* SPDX-License-Identifier: BSD-3-Clause
 *
 * requests: reads from a client, finds the requests in its input, lets policy/ decide about
 * each, and sends it or parks the client. client.in keeps bytes that hasp cannot take yet.
 *
 *   requests_on_readable() --> scratch --> requests_take() --> what it leaves --> client.in
 *         '--> client.in, if there is some --> requests_resume() --> requests_take()
 *
 * hasp only passes most requests. It recognizes them by their names and first keys, counts
 * them, and leaves them where they are, to send them in one piece.
 */
#include "client/client_internal.h"

#include <errno.h>
#include <string.h>

#include "commands/command.h"
#include "config/match.h"
#include "policy/classifier.h"
#include "policy/context.h"

/* --- requests that have only to be passed ------------------------------------------------- */

/* The requests that hasp may send over the client's link without a decision. */
enum plain { PLAIN_NONE, PLAIN_STATELESS, PLAIN_ANY };

static enum plain takes_plain(const struct client *c)
{
	bool pooled = c->env->policy.config->pooling == POOLING_SHARED;

	/* Before a login, Redis closes a client that sends a long request: take_whole(). */
	if (!route_is_usable(c) || client_must_log_in(c))
		return PLAIN_NONE;
	if (c->pinned)
		return c->shared ? PLAIN_NONE : PLAIN_ANY;
	if (c->shared != pooled || (pooled && c->session.certainty != SESSION_CERTAIN))
		return PLAIN_NONE;
	return PLAIN_STATELESS;
}

/* As takes_plain(), for a client in a transaction. */
static enum plain takes_plain_in_multi(const struct client *c)
{
	if (!route_is_usable(c) || c->shared || c->session.opaque)
		return PLAIN_NONE;
	/* Until Redis accepts MULTI, the client may not be logged in. */
	if (c->session.nawaited && client_must_log_in(c))
		return PLAIN_NONE;
	return c->pinned ? PLAIN_ANY : PLAIN_STATELESS;
}

/* Sets k->key to `key`, the first argument. True if its section may concern the command. */
static bool is_concerned(struct client_env *env, const struct command_info *what,
                         struct slice key, struct cursor *k)
{
	struct command_key *found = &env->matched;

	found->arg = 1;
	match_section(env->policy.matcher, key, &found->rule, &found->guard);
	k->key = found;
	return found->rule || (found->guard && (what->is_guarded || what->is_observed));
}

/* True if hasp only passes the request in env->args, without a decision. If this searches the
 * section of the first argument, sets k->key. */
__attribute__((always_inline)) static inline bool is_plain(struct client *c,
                                                           const struct command_info *what,
                                                           struct cursor *k)
{
	struct client_env *env = c->env;
	const struct request_args *args = &env->args;
	struct slice key;
	unsigned possible;

	if (what->never_inspect)
		return true;
	if (!what->is_plain || args->argc < 2)
		return false;
	key = args->argv[1];
	possible = match_possible(env->policy.config, key);
	if (what->may_release && env->policy.reserved_keys_protected &&
	    (!what->is_matched || (possible & MATCH_MAY_BE_OWN)) &&
	    reserved_keys_are_named(args->argv + 1, args->argc - 1))
		return false;
	if ((what->is_matched || what->reads_value) &&
	    (possible & (MATCH_RULE | MATCH_GUARD)) && is_concerned(env, what, key, k))
		return false;
	if (what->may_release &&
	    dispatch_heeds_releases(&env->policy,
	                            !what->is_matched || (possible & MATCH_RULE)) &&
	    dispatch_may_release(&env->policy, &c->session, what,
	                         &(struct resp_view){ args->argc, args->argv }))
		return false;
	return !what->is_discovered ||
	       !watched_wants(env->policy.tracker, what->command, args->argv, args->argc);
}

/* A whole, simple request, whose arguments are in env->args. Functions pass this struct by
 * value, so that it stays in registers. */
struct simple {
	size_t n; /* length in bytes; 0: the request is not whole or not simple */
	const struct command_info *what;
};

/* Scans a request that begins unlike all requests that the classifier remembers. */
static struct simple scan_plain_unknown(struct client_env *env, const char *p, size_t n)
{
	struct request_args *args = &env->args;
	size_t used = request_scan_simple(p, n, args);

	if (used == 0)
		return (struct simple){ 0, NULL };
	env->found = classifier_find(&env->policy, args->argv[0]);
	classifier_remember(env->policy.classifier, p, args->argc, args->argv[0].n,
	                    &env->found);
	return (struct simple){ used, &env->found };
}

static inline struct simple scan_plain(struct client_env *env, const char *p, size_t n)
{
	struct request_args *args = &env->args;
	const struct command_prefix *b = classifier_recall(env->policy.classifier, p, n);

	if (!b)
		return scan_plain_unknown(env, p, n);
	args->argv[0] = slice_of(p + PREFIX_NAME, b->name_len);
	n = request_scan_rest(p, n, PREFIX_NAME + b->name_len + 2, b->argc, args);
	return (struct simple){ n, &b->what };
}

/* Counts `n` commands of the client for the tracker, if there is one. */
static inline void count_pipelined(struct client *c, uint32_t n)
{
	if (c->env->policy.tracker)
		c->npipelined += n - (c->user.inflight == 0);
}

/* Moves the cursor over whole requests that hasp only passes. Returns their number. If the next
 * request is whole, sets *next_n to its length, env->args to its arguments, and k->found; else
 * sets *next_n to 0. */
__attribute__((always_inline)) static inline uint32_t scan_run(struct client *c,
                                                               struct cursor *k,
                                                               enum plain takes, size_t *next_n)
{
	const char *p = k->p + k->at, *end = k->p + k->n;
	struct simple r = { 0, NULL };
	uint32_t count = 0;

	for (; p < end; p += r.n, count++) {
		r = scan_plain(c->env, p, (size_t)(end - p));
		k->key = NULL;
		if (r.n == 0 || takes == PLAIN_NONE)
			break;
		if (takes == PLAIN_STATELESS && !r.what->is_stateless)
			break;
		if (!is_plain(c, r.what, k))
			break;
	}
	k->at = (size_t)(p - k->p);
	k->found = r.what;
	metrics_count(&c->env->counters.commands[COMMAND_PASSED], count);
	*next_n = p < end ? r.n : 0;
	return count;
}

/* As take_plain(), for a client in a transaction. */
__attribute__((noinline)) static size_t take_plain_in_multi(struct client *c, struct cursor *k)
{
	const char *from = k->p + k->at;
	size_t next_n;
	uint32_t count = scan_run(c, k, takes_plain_in_multi(c), &next_n);
	struct slice bytes = slice_of(from, (size_t)(k->p + k->at - from));

	if (count == 0)
		return next_n;
	count_pipelined(c, count);
	if (dispatch_queue_plain(&c->env->policy, &c->session, bytes, count))
		while (count--)
			link_expect(&c->user, LINK_INTERCEPT, NULL);
	else
		link_expect_plain(&c->user, count);
	return next_n;
}

/* Takes the requests that hasp only passes. Returns *next_n of scan_run(). Not inline, because
 * the loop needs the registers. */
__attribute__((noinline)) static size_t take_plain(struct client *c, struct cursor *k)
{
	size_t next_n;
	uint32_t count;

	if (transaction_is_open(&c->session.txn))
		return take_plain_in_multi(c, k);
	count = scan_run(c, k, takes_plain(c), &next_n);
	if (count) {
		count_pipelined(c, count);
		link_expect_plain(&c->user, count);
	}
	return next_n;
}

/* --- decisions are carried out ------------------------------------------------------------ */

/* Carries the decision out. Returns false if the client was parked. */
static bool act(struct client *c, struct cursor *k, struct context *x, const struct decision *d)
{
	send_count(c, d);
	switch (d->verdict) {
	case DISPATCH_PASS:
		return send_pass(c, k, d);
	case DISPATCH_CALL:
		if (!d->pending || d->discards) {
			send_replacement(c, k, d);
			return true;
		}
		/* fall through */
	case DISPATCH_GUARD:
	case DISPATCH_ASK_LOGIN:
	case DISPATCH_COUNT_WRITES:
		send_passed(c, k);
		if (exchange_start(c, x, d))
			return false;
		send_step_over(c, k);
		k->from = k->at;
		return true;
	case DISPATCH_LEARN:
		send_put_off(c, CLIENT_PARKED_COMMAND);
		return false;
	case DISPATCH_DEFER:
	case DISPATCH_NEED_MORE:
		break;
	}
	send_put_off(c, CLIENT_PARKED_DEFERRED);
	return false;
}

/* --- requests --------------------------------------------------------------------------- */

/* Takes an empty line, which Redis ignores. Sends it only on a link of the client's own. */
static void skip_empty(struct client *c, struct cursor *k)
{
	bool skipped = !c->user.link || c->shared;

	if (skipped)
		send_passed(c, k);
	send_step_over(c, k);
	if (skipped)
		k->from = k->at;
}

/* Bytes of memory for each byte of a call: the call and its copy in the stream are each in a
 * buffer that may be twice as long. */
#define CALL_COPIES 4
/* How often a call and its copy together may name a key or an owner. */
#define CALL_NAMES 8

/* Returns an upper bound, in bytes, for the memory of the call that replaces the request. */
static size_t call_nbytes_most(const struct client *c, const struct context *x)
{
	size_t names = c->session.login_nbytes;

	if (!x->what->command)
		return CALL_NAMES * (names + c->scanned);
	for (size_t i = 0; i < x->keys.n; i++)
		names += context_key(x, i).n;
	return CALL_COPIES * c->scanned + CALL_NAMES * names;
}

/* True if there is memory for the call that may replace the request. */
static bool can_be_rewritten(struct client *c, const struct context *x)
{
	size_t nbytes;

	if (c->scanned + c->session.login_nbytes < REQUESTS_SHARED_MAX)
		return true;
	nbytes = call_nbytes_most(c, x);
	return client_admits(c, nbytes) && (nbytes < MEMORY_RESERVE || memory_has(nbytes));
}

/* True for a login while replies are due on its link: pending_logs_in() says why. */
static bool must_await_replies(const struct client *c, const struct context *x)
{
	return c->user.inflight && !c->session.opaque && !session_in_multi(&c->session) &&
	       command_info_is_session(x->what) && session_command_logs_in(x->what, x->req);
}

/* Takes a whole request. `has_args`: env->args already has its arguments; `is_scanned`:
 * scan_run() has also found its command. Returns false if this parks the client. */
static bool take_whole(struct client *c, struct cursor *k, bool has_args, bool is_scanned)
{
	struct request_args *args = &c->env->args;
	struct resp_view view;
	struct command_info what;
	struct context x;
	struct decision d;
	bool whole;

	if (c->state == CLIENT_STREAMING) {
		client_set_state(c, CLIENT_OPEN);
		send_step_over(c, k);
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
	if (client_must_log_in(c) && partial_is_whole_refused(c, &view, k->p[k->at] != '*')) {
		/* Keep the last byte: if Redis saw no fault, it could run the command. */
		c->scanned--;
		partial_refuse(c, k);
		return false;
	}
	what = is_scanned ? *k->found : classifier_find(&c->env->policy, view.argv[0]);
	context_set_command(&x, &c->env->policy, &what, &view, is_scanned ? k->key : NULL);
	if (!route_take(c, route_for(c, &x)) || must_await_replies(c, &x)) {
		send_put_off(c, CLIENT_PARKED_LINK);
		return false;
	}
	/* Await space first, because a short request may become a call many times as long. */
	if (c->user.link && link_is_full(c->user.link)) {
		send_put_off(c, CLIENT_PARKED_SPACE);
		return false;
	}
	if (!can_be_rewritten(c, &x)) {
		partial_refuse_long(c, k,
		                    "ERR hasp: there is not enough memory for this request");
		return false;
	}
	count_pipelined(c, 1);
	client_context(c, &x);
	d = dispatch(&x);
	return act(c, k, &x, &d);
}

/* Handles a request of which only a part has arrived. */
static void take_part(struct client *c, struct cursor *k)
{
	if (c->state == CLIENT_STREAMING)
		send_step_over(c, k);
	else if (partial_is_refused(c))
		partial_refuse(c, k);
	else if (partial_stream(c, k))
		send_step_over(c, k);
}

/* Takes the cursor's request, as far as it has arrived. Returns false if hasp must not take
 * later requests now. */
static bool take_request(struct client *c, struct cursor *k)
{
	bool at_start = c->scanned == 0 && c->state == CLIENT_OPEN;
	size_t at = k->at + c->scanned, used;
	enum resp_result r;

	r = request_scan(&c->scan, k->p + at, k->n - at, &used,
	                 at_start ? &c->env->args : NULL);
	c->scanned += used;
	if (r == RESP_OK)
		return take_whole(c, k, at_start, false);
	if (r == RESP_BAD)
		partial_pass_bad(c, k);
	else
		take_part(c, k);
	return false;
}

/* Takes requests from the `n` bytes at `p`. Returns the number of bytes taken. The other bytes
 * are a part of a request, or must wait because the client is parked. */
static size_t requests_take(struct client *c, const char *p, size_t n)
{
	struct cursor k = { p, n, 0, 0, NULL, NULL };
	bool goes_on = true;

	while (goes_on && k.at + c->scanned < n && !client_is_dead(c)) {
		size_t used;
		if (c->scanned == 0 && c->state == CLIENT_OPEN && (used = take_plain(c, &k))) {
			c->scanned = used;
			c->scan.empty = false;
			goes_on = take_whole(c, &k, true, true);
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

/* --- input -------------------------------------------------------------------------------- */

/* To read the rest of a request, hasp makes at least this much space in `in`, in bytes. */
#define READ_MORE ((size_t)16 * 1024)

/* Handles the end of the client's input, after hasp has sent on all whole requests. `in` has at
 * most a part of a request. */
static void pass_eof(struct client *c)
{
	if (c->user.link && !c->shared)
		link_shutdown(c->user.link);
	else if (c->user.inflight)
		c->user.await_idle = true;
	else
		client_finish(c, "end of requests");
}

/* Makes Redis end a blocking command that the client's next request waits for, because the
 * command could otherwise pop an element for a client that is gone. Redis also drops later
 * commands. Returns true if there is such a command. */
static bool end_blocking(struct client *c)
{
	if (!client_is_parked(c) || !session_may_be_blocked(&c->session))
		return false;
	link_shutdown(c->user.link);
	return true;
}

void requests_resume(struct client *c)
{
	if (buf_len(&c->in)) {
		size_t done = requests_take(c, buf_head(&c->in), buf_len(&c->in));
		/* A closed client has no input buffer. */
		if (client_is_ending(c))
			return;
		buf_consume(&c->in, done);
	}
	if (c->eof && !end_blocking(c) && !client_is_parked(c))
		pass_eof(c);
	client_read_on(c);
}

static const char no_tls[] = "the client uses TLS, but the listener does not";

/* True if the client begins with a TLS handshake: a record of type 22, of version 3.x. (Without
 * a link, hasp has sent on no part of a request.) */
static bool is_handshake(const struct client *c, const char *p, size_t n)
{
	return !c->stream.tls && !c->user.link && c->scanned == 0 && c->state == CLIENT_OPEN &&
	       n > 2 && p[0] == 0x16 && p[1] == 3;
}

static void on_input(struct client *c, char *p, size_t n)
{
	size_t done = 0;

	if (p != c->env->scratch) {
		buf_added(&c->in, n);
		if (!client_is_parked(c)) {
			requests_resume(c);
			return;
		}
		client_steer_reading(c);
		client_notice_memory(c);
		return;
	}
	if (is_handshake(c, p, n)) {
		client_log_tls_failure(c, no_tls);
		client_close(c, no_tls);
		return;
	}
	done = requests_take(c, p, n);
	if (client_is_ending(c))
		return;
	/* Do not check whether the link is full: the next read does that. */
	if (done < n) {
		buf_take(&c->in, &c->env->inputs);
		buf_append(&c->in, slice_of(p + done, n - done));
	}
	if (done < n || !c->shared || c->session.pending_nbytes)
		client_notice_memory(c);
}

/* Handles the end of the client's input. hasp keeps the client until its replies have come:
 * they show whether there is a lock to release. Besides, a client that has only shut down its
 * sending side still reads them. */
static void on_eof(struct client *c)
{
	c->eof = true;
	stream_pause(&c->stream);
	if (c->state == CLIENT_FINISHING || client_close_if_gone_in_pause(c))
		return;
	/* If the client is runnable, requests_resume() first takes the requests in `in`. */
	if (!end_blocking(c) && !client_is_parked(c) && !client_is_runnable(c))
		pass_eof(c);
}

static void on_end(struct client *c, ssize_t n)
{
	const char *reason = n < 0 ? stream_strerror(&c->stream, errno) : NULL;

	if (n < 0 && stream_tls_failed(&c->stream))
		client_log_tls_failure(c, reason);
	if (n < 0 && c->session.nawaited == 0 && !client_is_runnable(c))
		client_close(c, reason);
	else if (c->state == CLIENT_PARKED_TURN)
		/* A client that hangs up leaves the line, as with Redis' blocking commands. */
		client_close(c, "hung up while it waited for a lock");
	else if (c->state == CLIENT_PARKED_ACK)
		exchange_hung_up(c);
	else if (c->state == CLIENT_FINISHING && stream_pending(&c->stream) == 0)
		client_close(c, "done");
	else
		on_eof(c);
}

/* Returns the memory for the next read, and sets *size; NULL: there is no memory now. *size is
 * so small that no read can complete a request that is too long for a shared link. */
static char *input_space(struct client *c, size_t *size)
{
	bool takes_requests = c->state != CLIENT_STREAMING && c->state != CLIENT_TUNNEL &&
	                      c->state != CLIENT_REFUSED && c->state != CLIENT_FINISHING;
	char *p;

	if (buf_len(&c->in) == 0 && !client_is_parked(c)) {
		*size = takes_requests ? REQUESTS_SHARED_MAX : c->env->scratch_size;
		return c->env->scratch;
	}
	/* To make space, `in` may have to grow to twice its size. */
	if (buf_space(&c->in) < READ_MORE && !c->stream.error &&
	    !client_admits(c, buf_cap(&c->in) + READ_MORE))
		return NULL;
	p = buf_try_reserve(&c->in, READ_MORE);
	*size = buf_space(&c->in);
	return p;
}

void requests_on_readable(struct stream *s)
{
	struct client *c = client_of(container_of(s, struct client, stream));
	size_t size;
	ssize_t n;
	char *p;

	/* Since hasp last checked, other clients may have filled the link, or this client has
	 * filled `in`. */
	if (!s->error && client_is_throttled(c)) {
		client_steer_reading(c);
		return;
	}
	p = input_space(c, &size);
	/* Without memory, do not read. After this turn, hasp closes the heaviest client. */
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
		/* The read filled the memory, so the client may have sent more. */
		if ((size_t)n == size && c->user.link && !c->shared)
			client_steer_link(c);
		on_input(c, p, (size_t)n);
	}
}
