/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/quorum_rules.h"

#include "base/quote.h"
#include "client/quorum_answer.h"
#include "config/types.h"
#include "resp/write.h"

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

struct quorum_op *quorum_rules_op(struct client *c, const struct quorum_command *q)
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
