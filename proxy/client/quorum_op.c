/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_op: commands on locks that a quorum has: LOCK, UNLOCK, LOCK.EXTEND and LOCK.INFO, and
 * commands on keys with such a rule.
 *
 *   command --PING--> Redis: the client is logged in
 *      `--PARKED_ROUND: the servers of the quorum are asked (quorum/quorum.h)
 *            `--> the answer
 */
#include "client/client_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "base/quote.h"
#include "config/match.h"
#include "config/types.h"
#include "policy/quorum_rule.h"
#include "quorum/quorum.h"
#include "resp/write.h"

/* --- answers ------------------------------------------------------------------------------ */

#define INFO_FIELDS 5

/* As with a client that leaves a line. */
static bool quorum_client_waits(const void *client)
{
	return !((const struct client *)client)->eof;
}

static void quorum_answer(struct client *c, struct buf *out)
{
	stream_send(&c->stream, buf_slice(out));
	buf_release(out);
	session_complete(&c->session, c->current);
	client_end_current(c);
	if (!client_is_dead(c))
		client_count_memory(c);
}

static void quorum_answer_number(struct client *c, int64_t n)
{
	struct buf out = BUF_INIT;

	buf_printf(&out, ":%" PRId64 "\r\n", n);
	quorum_answer(c, &out);
}

static void quorum_answer_nil(struct client *c)
{
	struct buf out = BUF_INIT;

	buf_puts(&out, c->session.proto == 3 ? "_\r\n" : "$-1\r\n");
	quorum_answer(c, &out);
}

static void quorum_answer_unreached(struct client *c, const struct quorum_result *r)
{
	const struct quorum_how *how = quorum_terms(c->env->quorum);
	struct buf out = BUF_INIT;

	if (r->nanswered >= quorum_majority(how->nservers))
		buf_printf(&out,
		           "-NOQUORUM too few servers of '%s' agree about the last fencing "
		           "token\r\n",
		           how->name);
	else
		buf_printf(&out, "-NOQUORUM %zu of the %zu servers of '%s' answer in time\r\n",
		           r->nanswered, how->nservers, how->name);
	quorum_answer(c, &out);
}

static void quorum_answer_holder(struct client *c, const struct quorum_result *r,
                                 struct slice owner, const struct quorum_hold *h)
{
	bool resp3 = c->session.proto == 3;
	struct buf out = BUF_INIT;

	buf_printf(&out, "%c%d\r\n", resp3 ? '%' : '*', resp3 ? INFO_FIELDS : 2 * INFO_FIELDS);
	holder_text(&out, "owner", owner, resp3);
	holder_number(&out, "holds", true, 1, resp3);
	holder_number(&out, "ttl", true, r->ttl_ms, resp3);
	holder_number(&out, "fence", h, h ? quorum_hold_fence(h) : 0, resp3);
	holder_number(&out, "waiters", false, 0, resp3);
	quorum_answer(c, &out);
}

/* --- as quorum_done_fn ----------------------------------------------------------------------
 */

static void quorum_answer_own_release(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);

	c->quorum->op = NULL;
	if (r->verdict != QUORUM_UNREACHED)
		quorum_events_released(c->env->quorum);
	if (r->verdict == QUORUM_UNREACHED)
		quorum_answer_unreached(c, r);
	else
		quorum_answer_number(c, 1);
}

static void quorum_answer_release(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);

	c->quorum->op = NULL;
	if (r->verdict == QUORUM_WON) {
		quorum_events_released(c->env->quorum);
		quorum_hold_end_other(c->env->quorum, r->value);
	}
	if (r->verdict == QUORUM_UNREACHED)
		quorum_answer_unreached(c, r);
	else
		quorum_answer_number(c, r->verdict == QUORUM_WON);
}

static void quorum_answer_extend(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);
	struct quorum_hold *h = quorum_hold_find(c->quorum, r->key, r->owner);

	c->quorum->op = NULL;
	if (r->verdict == QUORUM_UNREACHED) {
		quorum_answer_unreached(c, r);
		return;
	}
	/* (The lease of one's own hold is not made shorter.) */
	if (h && r->verdict == QUORUM_WON)
		quorum_hold_extend(h, r);
	quorum_answer_number(c, r->verdict == QUORUM_WON &&
	                                (h || r->good_until > c->env->policy.now));
}

/* --- commands on keys with a rule --------------------------------------------------------- */

/* --- taken -------------------------------------------------------------------------------- */

/* True: by this client. NOQUORUM was answered if it is not known. */
static bool is_taken(struct client *c, const struct quorum_result *r)
{
	c->quorum->op = NULL;
	if (r->verdict == QUORUM_UNREACHED) {
		quorum_answer_unreached(c, r);
		return false;
	}
	quorum_events_answered(c->env->quorum, c->quorum, r);
	if (r->verdict == QUORUM_WON)
		quorum_hold_add(c->env->quorum, c->quorum, r);
	return r->verdict == QUORUM_WON;
}

static void on_setnx(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);

	if (is_taken(c, r))
		quorum_answer_number(c, 1);
	else if (r->verdict != QUORUM_UNREACHED)
		quorum_answer_number(c, 0);
}

static void on_set(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);
	struct buf out = BUF_INIT;

	if (is_taken(c, r)) {
		buf_puts(&out, "+OK\r\n");
		quorum_answer(c, &out);
	} else if (r->verdict != QUORUM_UNREACHED) {
		quorum_answer_nil(c);
	}
}

/* --- refused ------------------------------------------------------------------------------ */

/* With owner = value, by a client that does not know it. */
static void on_foreign_deleted(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);
	struct buf out = BUF_INIT;

	c->quorum->op = NULL;
	if (r->verdict == QUORUM_UNREACHED) {
		quorum_answer_unreached(c, r);
	} else if (r->verdict == QUORUM_REFUSED) {
		quorum_answer_number(c, 0);
	} else {
		buf_printf(&out, "-LOCKED %s is held by another owner\r\n", QUOTE(r->key));
		quorum_answer(c, &out);
	}
}

/* A lock without an expiry is what rules exist to prevent. */
static void on_persist(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);

	c->quorum->op = NULL;
	if (r->verdict == QUORUM_UNREACHED)
		quorum_answer_unreached(c, r);
	else
		quorum_answer_number(c, 0);
}

/* --- read --------------------------------------------------------------------------------- */

/* False: NOQUORUM was answered. */
static bool is_read(struct client *c, const struct quorum_result *r)
{
	c->quorum->op = NULL;
	if (r->verdict == QUORUM_UNREACHED)
		quorum_answer_unreached(c, r);
	return r->verdict != QUORUM_UNREACHED;
}

static void on_get(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);
	struct slice content = quorum_value_content(r->value);
	bool is_there = r->verdict == QUORUM_WON;
	struct buf out = BUF_INIT;

	if (!is_read(c, r))
		return;
	/* With owner = value it may release the lock now. */
	if (r->owner.n == 0)
		seen_values_put(&c->holds.seen, c->session.db, r->key,
		                is_there ? SEEN_VALUE : SEEN_NOTHING, content);
	if (!is_there) {
		quorum_answer_nil(c);
		return;
	}
	resp_write_bulk(&out, content);
	quorum_answer(c, &out);
}

static void on_exists(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);

	if (is_read(c, r))
		quorum_answer_number(c, r->verdict == QUORUM_WON);
}

/* Answers TTL: rounds as Redis does, and answers -2 for a missing key, as Redis does. */
static void on_ttl(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);

	if (is_read(c, r))
		quorum_answer_number(c,
		                     r->verdict == QUORUM_WON ? (r->ttl_ms + 500) / 1000 : -2);
}

static void on_pttl(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);

	if (is_read(c, r))
		quorum_answer_number(c, r->verdict == QUORUM_WON ? r->ttl_ms : -2);
}

static void on_rule_described(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);
	struct quorum_hold *h = quorum_hold_find(c->quorum, r->key, r->owner);
	struct slice owner = r->owner.n ? r->owner : quorum_value_content(r->value);

	if (!is_read(c, r))
		return;
	if (r->verdict == QUORUM_WON)
		quorum_answer_holder(c, r, owner, h);
	else
		quorum_answer_nil(c);
}

/* --- asked -------------------------------------------------------------------------------- */

static void ask_take(struct client *c, const struct quorum_command *q, struct quorum_ask *ask)
{
	const struct rule *rule = q->rule;

	ask->request = QUORUM_LOCK;
	ask->lease_ms = quorum_bound_lease(c->env->quorum, q->lease_ms);
	/* (No wait for the client's own lock: no other client could release it.) */
	ask->wait_ms = quorum_owner_has(c->quorum, q->key) ? 0 : rule->wait_ms;
	ask->goes_on = quorum_client_waits;
	ask->claim.content = q->value;
	ask->terms.renewed = rule->renew == RENEW_YES ||
	                     (rule->renew == RENEW_UNLEASED && !q->leased);
	ask->done = q->act == QUORUM_ACT_SET ? on_set : on_setnx;
}

/* Sets the value that the client must have read to free or prolong the lock. False: the client
 * has not read it, and the rule does not let the client free the lock without it. */
static bool claim_lock(const struct client *c, const struct quorum_command *q,
                       const struct quorum_hold *h, bool frees, struct quorum_claim *claim)
{
	struct slice seen;

	if (q->rule->owner != OWNER_VALUE || h)
		return true;
	if (seen_values_find(c->holds.seen, c->session.db, q->key, &seen) == SEEN_VALUE)
		claim->content = seen;
	else
		claim->is_anyones = true;
	return !claim->is_anyones || !frees || q->rule->foreign_del == FOREIGN_ALLOW;
}

static void ask_change(struct client *c, const struct quorum_command *q, struct quorum_hold *h,
                       struct quorum_ask *ask)
{
	bool frees = q->act == QUORUM_ACT_DEL || q->lease_ms <= 0;

	ask->value = h ? quorum_hold_value(h) : SLICE_NONE;
	ask->terms.renewed = q->rule->renew == RENEW_YES;
	if (!claim_lock(c, q, h, frees, &ask->claim)) {
		ask->request = QUORUM_INFO;
		ask->done = on_foreign_deleted;
	} else if (frees) {
		ask->request = QUORUM_UNLOCK;
		ask->lease_ms = h ? quorum_hold_lease_ms(h) : 0;
		ask->done = h ? quorum_answer_own_release : quorum_answer_release;
	} else {
		ask->request = QUORUM_EXTEND;
		ask->lease_ms = quorum_bound_lease(c->env->quorum, q->lease_ms);
		ask->done = quorum_answer_extend;
	}
}

static quorum_done_fn *done_of_read(enum quorum_act act)
{
	switch (act) {
	case QUORUM_ACT_GET:
		return on_get;
	case QUORUM_ACT_EXISTS:
		return on_exists;
	case QUORUM_ACT_TTL:
		return on_ttl;
	case QUORUM_ACT_PTTL:
		return on_pttl;
	case QUORUM_ACT_PERSIST:
		return on_persist;
	default:
		return on_rule_described;
	}
}

static struct quorum_op *quorum_rules_op(struct client *c, const struct quorum_command *q)
{
	struct quorum_hold *h = quorum_hold_find(c->quorum, q->key, q->owner);
	struct quorum_ask ask = {
		.request = QUORUM_INFO,
		.key = q->key,
		.claim = { .of_rule = true, .owner = q->owner },
		.terms = { .released_at_end = q->rule->on_disconnect == DISCONNECT_RELEASE,
		           .max_hold_ms = q->rule->max_hold_ms },
		.arg = c,
	};
	struct quorum_op *op;

	if (q->act == QUORUM_ACT_SETNX || q->act == QUORUM_ACT_SET)
		ask_take(c, q, &ask);
	else if (q->act == QUORUM_ACT_DEL || q->act == QUORUM_ACT_EXPIRE)
		ask_change(c, q, h, &ask);
	else
		ask.done = done_of_read(q->act);
	op = quorum_op_new(c->env->quorum, &ask);
	if (h && ask.request == QUORUM_UNLOCK)
		quorum_hold_end(h);
	return op;
}

/* --- verbs -------------------------------------------------------------------------------- */

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

void quorum_op_on_reply(struct client *c, const struct resp_reply *reply)
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
	x = client_context_again(c, &view, &what);
	own_quorum(c);
	c->quorum->op = read_request(c, &x);
	if (!c->quorum->op) {
		client_close(c, "its command has changed");
		return;
	}
	client_park(c, CLIENT_PARKED_ROUND);
	quorum_op_start(c->quorum->op);
}

/* --- an operator frees a lock ------------------------------------------------------------- */

struct quorum_forcing {
	struct quorum *quorum;
	void (*fn)(void *arg, struct slice reply);
	void *arg;
};

static bool is_quorums(const struct policy_env *env, struct slice key)
{
	const struct rule *rule = match_rule(env->matcher, key);

	if (rule)
		return rule->quorum && rule->mode == MODE_ENFORCE && env->quorum_is_there;
	return env->verbs_quorum && !match_guard(env->matcher, key);
}

static void on_freed(void *arg, const struct quorum_result *r)
{
	struct quorum_forcing *f = arg;
	struct buf out = BUF_INIT;

	if (r->verdict == QUORUM_UNREACHED)
		buf_printf(&out, "-NOQUORUM %zu servers answer in time\r\n", r->nanswered);
	else
		buf_printf(&out, ":%d\r\n", r->verdict == QUORUM_WON);
	if (r->verdict == QUORUM_WON)
		quorum_hold_end_other(f->quorum, r->value);
	f->fn(f->arg, buf_slice(&out));
	buf_release(&out);
	free(f);
}

bool quorum_force(const struct client_env *env, struct slice key,
                  void (*fn)(void *arg, struct slice reply), void *arg)
{
	struct quorum_ask ask = {
		.request = QUORUM_UNLOCK,
		.key = key,
		.claim = { .of_rule = true, .is_anyones = true },
		.done = on_freed,
	};
	struct quorum_forcing *f;

	if (!is_quorums(&env->policy, key))
		return false;
	f = xmalloc(sizeof(*f));
	*f = (struct quorum_forcing){ env->quorum, fn, arg };
	ask.arg = f;
	quorum_op_start(quorum_op_new(env->quorum, &ask));
	return true;
}
