/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/quorum_exchange.h"

#include "client/conn.h"
#include "client/quorum_answer.h"
#include "client/quorum_rules.h"
#include "client/request_context.h"
#include "config/types.h"
#include "policy/quorum_rule.h"
#include "resp/write.h"

/* --- answers ------------------------------------------------------------------------------ */

static void on_locked(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);

	c->quorum->op = NULL;
	if (r->verdict != QUORUM_UNREACHED)
		quorum_events_answered(c->env->quorum, c->quorum, r);
	if (r->verdict == QUORUM_UNREACHED) {
		quorum_answer_unreached(c, r);
	} else if (r->verdict == QUORUM_REFUSED) {
		quorum_answer_nil(c);
	} else {
		quorum_hold_add(c->env->quorum, c->quorum, r);
		quorum_answer_number(c, r->fence);
	}
}

static void on_described(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);
	const struct quorum_hold *h = quorum_hold_find(c->quorum, r->key, r->owner);

	c->quorum->op = NULL;
	if (r->verdict == QUORUM_UNREACHED) {
		quorum_answer_unreached(c, r);
		return;
	}
	if (r->verdict == QUORUM_REFUSED) {
		quorum_answer_nil(c);
		return;
	}
	quorum_answer_holder(c, r, r->owner, h);
}

/* --- requests ----------------------------------------------------------------------------- */

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
		return is_own ? quorum_answer_own_release : quorum_answer_release;
	case VERB_EXTEND:
		return quorum_answer_extend;
	default:
		return on_described;
	}
}

static struct quorum_op *make_op(struct client *c, enum verb verb, const struct lock_call *call)
{
	const struct verbs *verbs = &c->env->policy.config->verbs;
	struct quorum_hold *h = find_own_hold(c, verb, call);
	struct quorum_ask ask = {
		.request = request_of(verb),
		.key = call->key,
		.claim = { .owner = call->owner },
		.value = h ? quorum_hold_value(h) : SLICE_NONE,
		.terms = { .renewed = verb == VERB_LOCK && !call->leased,
		           .released_at_end = verbs->on_disconnect == DISCONNECT_RELEASE,
		           .max_hold_ms = verbs->max_hold_ms },
		.lease_ms = quorum_bound_lease(c->env->quorum, call->lease_ms),
		/* (No wait for the client's own lock: no other client could release it.) */
		.wait_ms = quorum_owner_has(c->quorum, call->key) ? 0 : call->wait_ms,
		.done = done_of(verb, h),
		.goes_on = quorum_client_waits,
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

static void own_quorum(struct client *c)
{
	if (c->quorum)
		return;
	c->quorum = xmalloc(sizeof(*c->quorum));
	quorum_owner_init(c->quorum, c);
}

/* NULL: it is no command that a quorum is asked for any more. */
static struct quorum_op *read_request(struct client *c, struct context *x)
{
	struct quorum_command command;
	struct lock_call call;

	if (quorum_rule_read(x, &command))
		return quorum_rules_op(c, &command);
	return x->what->is_verb && quorum_verb_read(x, &call) ? make_op(c, x->what->verb, &call)
	                                                      : NULL;
}

void quorum_exchange_on_reply(struct client *c, const struct resp_reply *reply)
{
	struct command_info what;
	struct resp_view view;
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
	own_quorum(c);
	c->quorum->op = read_request(c, &x);
	if (!c->quorum->op) {
		client_close(c, "its command has changed");
		return;
	}
	client_park(c, CLIENT_PARKED_ROUND);
	quorum_op_start(c->quorum->op);
}
