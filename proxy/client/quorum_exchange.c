/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/quorum_exchange.h"

#include <inttypes.h>

#include "client/conn.h"
#include "client/holder_fields.h"
#include "client/request_context.h"
#include "config/types.h"
#include "policy/quorum_verb.h"
#include "resp/write.h"

#define INFO_FIELDS 5

/* --- answers ------------------------------------------------------------------------------ */

static void answer_verb(struct client *c, struct buf *out)
{
	stream_send(&c->stream, buf_slice(out));
	buf_release(out);
	session_complete(&c->session, c->current);
	client_end_current(c);
	if (!client_is_dead(c))
		client_count_memory(c);
}

static void answer_number(struct client *c, int64_t n)
{
	struct buf out = BUF_INIT;

	buf_printf(&out, ":%" PRId64 "\r\n", n);
	answer_verb(c, &out);
}

static void answer_nil(struct client *c)
{
	struct buf out = BUF_INIT;

	buf_puts(&out, c->session.proto == 3 ? "_\r\n" : "$-1\r\n");
	answer_verb(c, &out);
}

static void answer_unreached(struct client *c, const struct quorum_result *r)
{
	const struct quorum_how *how = quorum_terms(c->env->quorum);
	struct buf out = BUF_INIT;

	buf_printf(&out, "-NOQUORUM %zu of the %zu servers of '%s' answer in time\r\n",
	           r->nanswered, how->nservers, how->name);
	answer_verb(c, &out);
}

static void on_locked(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);
	const struct quorum_terms_of_hold terms = {
		.renewed = !r->leased,
		.max_hold_ms = c->env->policy.config->verbs.max_hold_ms,
	};

	c->quorum->op = NULL;
	if (r->verdict != QUORUM_UNREACHED)
		quorum_events_answered(c->env->quorum, c->quorum, r);
	if (r->verdict == QUORUM_UNREACHED) {
		answer_unreached(c, r);
	} else if (r->verdict == QUORUM_REFUSED) {
		answer_nil(c);
	} else {
		quorum_hold_add(c->env->quorum, c->quorum, r, &terms);
		answer_number(c, r->fence);
	}
}

/* A lock that this client had is free, though a majority may not have said so: by now it has no
 * majority. */
static void on_own_unlocked(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);

	c->quorum->op = NULL;
	if (r->verdict != QUORUM_UNREACHED)
		quorum_events_released(c->env->quorum);
	if (r->verdict == QUORUM_UNREACHED)
		answer_unreached(c, r);
	else
		answer_number(c, 1);
}

static void on_unlocked(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);

	c->quorum->op = NULL;
	if (r->verdict == QUORUM_WON)
		quorum_events_released(c->env->quorum);
	if (r->verdict == QUORUM_UNREACHED)
		answer_unreached(c, r);
	else
		answer_number(c, r->verdict == QUORUM_WON);
}

static void on_extended(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);
	struct quorum_hold *h = quorum_hold_find(c->quorum, r->key, r->owner);

	c->quorum->op = NULL;
	if (r->verdict == QUORUM_UNREACHED) {
		answer_unreached(c, r);
		return;
	}
	/* (The lease of one's own hold is not made shorter.) */
	if (h && r->verdict == QUORUM_WON)
		quorum_hold_extend(h, r);
	answer_number(c, r->verdict == QUORUM_WON && (h || r->good_until > c->env->policy.now));
}

static void on_described(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);
	const struct quorum_hold *h = quorum_hold_find(c->quorum, r->key, r->owner);
	bool resp3 = c->session.proto == 3;
	struct buf out = BUF_INIT;

	c->quorum->op = NULL;
	if (r->verdict == QUORUM_UNREACHED) {
		answer_unreached(c, r);
		return;
	}
	if (r->verdict == QUORUM_REFUSED) {
		answer_nil(c);
		return;
	}
	buf_printf(&out, "%c%d\r\n", resp3 ? '%' : '*', resp3 ? INFO_FIELDS : 2 * INFO_FIELDS);
	holder_text(&out, "owner", r->owner, resp3);
	holder_number(&out, "holds", true, 1, resp3);
	holder_number(&out, "ttl", true, r->ttl_ms, resp3);
	holder_number(&out, "fence", h, h ? quorum_hold_fence(h) : 0, resp3);
	holder_number(&out, "waiters", false, 0, resp3);
	answer_verb(c, &out);
}

/* --- requests ----------------------------------------------------------------------------- */

/* What servers may have forgotten when they count again is over by then. */
static int64_t bound_lease(const struct quorum_how *how, int64_t lease_ms)
{
	return how->restart_delay_ms && lease_ms > how->restart_delay_ms ? how->restart_delay_ms
	                                                                 : lease_ms;
}

/* NULL: the client does not have it. */
static struct quorum_hold *find_own_hold(const struct client *c, enum verb verb,
                                         const struct lock_call *call)
{
	if (verb != VERB_UNLOCK && verb != VERB_EXTEND)
		return NULL;
	return c->quorum ? quorum_hold_find(c->quorum, call->key, call->owner) : NULL;
}

static enum quorum_request request_of(enum verb verb)
{
	switch (verb) {
	case VERB_LOCK:
		return QUORUM_LOCK;
	case VERB_UNLOCK:
		return QUORUM_UNLOCK;
	case VERB_EXTEND:
		return QUORUM_EXTEND;
	default:
		return QUORUM_INFO;
	}
}

static quorum_done_fn *done_of(enum verb verb, bool is_own)
{
	switch (verb) {
	case VERB_LOCK:
		return on_locked;
	case VERB_UNLOCK:
		return is_own ? on_own_unlocked : on_unlocked;
	case VERB_EXTEND:
		return on_extended;
	default:
		return on_described;
	}
}

/* As with a client that leaves a line. */
static bool has_not_hung_up(const void *arg)
{
	return !((const struct client *)arg)->eof;
}

static struct quorum_op *make_op(struct client *c, enum verb verb, const struct lock_call *call)
{
	const struct quorum_how *how = quorum_terms(c->env->quorum);
	struct quorum_hold *h = find_own_hold(c, verb, call);
	struct quorum_ask ask = {
		.request = request_of(verb),
		.key = call->key,
		.owner = call->owner,
		.value = h ? quorum_hold_value(h) : SLICE_NONE,
		.leased = call->leased,
		.lease_ms = bound_lease(how, call->lease_ms),
		.wait_ms = call->wait_ms,
		.done = done_of(verb, h),
		.goes_on = has_not_hung_up,
		.arg = c,
	};
	struct quorum_op *op;

	if (h && verb == VERB_UNLOCK)
		ask.lease_ms = quorum_hold_lease_ms(h);
	op = quorum_op_new(c->env->quorum, &ask);
	if (h && verb == VERB_UNLOCK)
		quorum_hold_end(h);
	return op;
}

static struct quorum_owner *own_quorum(struct client *c)
{
	if (!c->quorum) {
		c->quorum = xmalloc(sizeof(*c->quorum));
		quorum_owner_init(c->quorum, c);
	}
	return c->quorum;
}

void quorum_exchange_on_reply(struct client *c, const struct resp_reply *reply)
{
	struct command_info what;
	struct resp_view view;
	struct lock_call call;
	struct context x;

	if (resp_reply_is_error(reply)) {
		session_complete(&c->session, c->current);
		client_end_current(c);
		return;
	}
	if (!client_is_decided(c)) {
		client_decide_again(c);
		return;
	}
	x = request_context_again(c, &view, &what);
	if (!quorum_verb_read(&x, &call)) {
		client_close(c, "its command has changed");
		return;
	}
	own_quorum(c)->op = make_op(c, what.verb, &call);
	client_park(c, CLIENT_PARKED_ROUND);
	quorum_op_start(c->quorum->op);
}
