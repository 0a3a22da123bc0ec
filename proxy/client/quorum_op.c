/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_op: commands on locks that a quorum stores: LOCK, UNLOCK, LOCK.EXTEND and LOCK.INFO,
 * and commands on keys whose rule names a quorum.
 *
 *   command --PING--> Redis: the client is logged in
 *      `--PARKED_ROUND: hasp asks the servers of the quorum (quorum/quorum.h)
 *            `--> the answer
 */
#include "client/client_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/quote.h"
#include "config/match.h"
#include "config/types.h"
#include "policy/context.h"
#include "resp/write.h"

/* --- answers ------------------------------------------------------------------------------ */

#define INFO_FIELDS 5

_Static_assert(QUORUM_ACT_INFO < 16, "client.quorum_act has 4 bits");

static void write_number(struct buf *out, int64_t n)
{
	buf_printf(out, ":%" PRId64 "\r\n", n);
}

/* Writes the error for a command that no majority of the servers has answered. */
static void write_unreached(const struct client *c, const struct quorum_result *r,
                            struct buf *out)
{
	const struct quorum_opts *opts = quorum_terms(c->env->quorum);

	if (r->nanswered >= quorum_majority(opts->nservers))
		buf_printf(out,
		           "-NOQUORUM too few servers of '%s' agree about the last fencing "
		           "token\r\n",
		           opts->name);
	else
		buf_printf(out, "-NOQUORUM %zu of the %zu servers of '%s' answer in time\r\n",
		           r->nanswered, opts->nservers, opts->name);
}

static void write_owner(const struct client *c, const struct quorum_result *r,
                        const struct hold *h, struct buf *out)
{
	bool resp3 = c->session.proto == 3;
	struct slice owner = r->owner.n ? r->owner : quorum_value_content(r->lock.value);

	buf_printf(out, "%c%d\r\n", resp3 ? '%' : '*', resp3 ? INFO_FIELDS : 2 * INFO_FIELDS);
	holder_text(out, "owner", owner, resp3);
	holder_number(out, "holds", true, 1, resp3);
	holder_number(out, "ttl", true, r->lease_ms, resp3);
	holder_number(out, "fence", h, h ? held_of(h).fence : 0, resp3);
	holder_number(out, "waiters", false, 0, resp3);
}

/* Writes the answer to a command that asked for the lock. */
static void write_taken(struct client *c, const struct quorum_result *r, struct buf *out)
{
	struct hold_owner *own = client_own_holds(c);
	struct lock_request *p = c->current->lock_request;
	bool won = r->verdict == QUORUM_WON;
	enum lock_success success = p->success;

	if (!won)
		buf_printf(out, "%s\r\n", lock_request_refusal(p, c->session.proto == 3));
	else if (success == LOCK_IF_OK)
		buf_puts(out, "+OK\r\n");
	else
		write_number(out, success == LOCK_IF_ONE ? 1 : r->lock.fence);
	c->current->lock_request = NULL;
	hold_apply_voted(c->env->policy.holds, own, p, &r->lock);
	/* With owner = value, forget the value that the client read before it got the lock. */
	if (won && r->owner.n == 0)
		seen_values_put(&own->seen, c->session.db, r->key, SEEN_NOTHING, SLICE_NONE);
}

static void write_content(struct client *c, const struct quorum_result *r, struct buf *out)
{
	struct slice content = quorum_value_content(r->lock.value);
	bool is_there = r->verdict == QUORUM_WON;

	/* With owner = value, note that the client has read the value, and may release it. */
	if (r->owner.n == 0)
		seen_values_put(&client_own_holds(c)->seen, c->session.db, r->key,
		                is_there ? SEEN_VALUE : SEEN_NOTHING, content);
	if (is_there)
		resp_write_bulk(out, content);
	else
		holder_nil(out, c->session.proto == 3);
}

/* Writes the answer to `current`, on which a majority has agreed. */
static void write_answer(struct client *c, const struct quorum_result *r, struct buf *out)
{
	const struct policy_env *env = &c->env->policy;
	struct hold *h = voted_find(env->holds, &c->locks->holds, r->key, r->owner);
	bool won = r->verdict == QUORUM_WON;

	switch (c->quorum_act) {
	case QUORUM_ACT_NONE:
		break;
	case QUORUM_ACT_TAKE:
		write_taken(c, r, out);
		break;
	case QUORUM_ACT_RELEASE_OWN:
	case QUORUM_ACT_RELEASE:
		won = won || c->quorum_act == QUORUM_ACT_RELEASE_OWN;
		if (won) {
			stats_add(quorum_terms(c->env->quorum)->stats, STAT_RELEASED);
			voted_end(env->holds, r->key, r->lock.value);
		}
		write_number(out, won);
		break;
	case QUORUM_ACT_EXTEND:
		/* EXPIRE cannot shorten the client's own hold, and counts as a success. */
		if (h && won)
			voted_extend(h, r->lock.good_until, r->lease_ms);
		write_number(out, won && (h || r->lock.good_until > env->now));
		break;
	case QUORUM_ACT_GET:
		write_content(c, r, out);
		break;
	case QUORUM_ACT_EXISTS:
		write_number(out, won);
		break;
	case QUORUM_ACT_TTL:
		/* Round as Redis does; -2 means that the key does not exist. */
		write_number(out, won ? (r->lease_ms + 500) / 1000 : -2);
		break;
	case QUORUM_ACT_PTTL:
		write_number(out, won ? r->lease_ms : -2);
		break;
	case QUORUM_ACT_PERSIST:
		/* Refuse PERSIST, because rules exist to prevent locks without expiry. */
		write_number(out, 0);
		break;
	case QUORUM_ACT_REFUSE_RELEASE:
		/* With owner = value, only a client that has read the value may delete it. */
		if (won)
			buf_printf(out, "-LOCKED %s is held by another owner\r\n",
			           QUOTE(r->key));
		else
			write_number(out, 0);
		break;
	case QUORUM_ACT_INFO:
		if (won)
			write_owner(c, r, h, out);
		else
			holder_nil(out, c->session.proto == 3);
		break;
	}
}

static bool make_op_again(struct client *c);

/* A quorum_done_fn: answers `current`, and ends it. */
static void on_quorum_done(void *arg, const struct quorum_result *r)
{
	struct client *c = client_of(arg);
	struct buf out = BUF_INIT;

	c->quorum_op = NULL;
	/* The client's own lock was gone. Ask again: the same owner may have the lock through
	 * another connection. */
	if (c->quorum_act == QUORUM_ACT_RELEASE_OWN && r->is_gone) {
		if (make_op_again(c))
			quorum_op_start(c->quorum_op);
		return;
	}
	if (r->verdict == QUORUM_UNREACHED)
		write_unreached(c, r, &out);
	else
		write_answer(c, r, &out);
	stream_send(&c->stream, buf_slice(&out));
	buf_release(&out);
	client_complete_current(c);
	if (!client_is_dead(c))
		client_count_memory(c);
}

/* Returns false if the client has hung up: then it does not wait any longer. */
static bool quorum_client_waits(const void *client)
{
	return !((const struct client *)client)->eof;
}

/* --- requests to the quorum --------------------------------------------------------------- */

/* Asks the quorum for a lock. `own`: the client has the lock, maybe as another owner. */
static void ask_lock(struct client *c, const struct quorum_command *q, bool own,
                     struct quorum_ask *ask)
{
	const struct policy_env *env = &c->env->policy;
	const struct hold_terms terms = {
		.rule = q->key.rule,
		.verbs = q->key.rule ? NULL : &env->config->verbs,
		.token = q->call.owner,
		.stats = quorum_terms(c->env->quorum)->stats,
	};

	ask->request = QUORUM_LOCK;
	ask->claim.content = q->call.value;
	/* Do not wait for the client's own lock: no other client could release it. */
	ask->wait_ms = own ? 0 : q->call.wait_ms;
	ask->goes_on = quorum_client_waits;
	c->current->lock_request = lock_request_voted(env->holds, &q->call, &terms);
	c->current->rest = &context_rest;
}

/* Asks the quorum to free or extend a lock. `h`: the client's own hold; NULL: it has none. */
static void ask_change(struct quorum_command *q, const struct hold *h, struct quorum_ask *ask)
{
	bool by_value = q->key.rule && q->key.rule->owner == OWNER_VALUE;
	struct slice seen = by_value ? q->key.token : SLICE_NONE;

	/* If the client has read another owner's value since it took the lock, its own lock is
	 * gone, and the command is about the other owner's. */
	if (h && seen.p && !slice_eq(seen, quorum_value_content(voted_value(h))))
		h = NULL;
	ask->value = h ? voted_value(h) : SLICE_NONE;
	ask->claim.content = seen;
	ask->claim.is_anyones = by_value && !seen.p;
	if (!h && q->key.foreign && q->act == QUORUM_ACT_RELEASE) {
		q->act = QUORUM_ACT_REFUSE_RELEASE;
	} else if (q->act == QUORUM_ACT_EXTEND) {
		ask->request = QUORUM_EXTEND;
	} else {
		ask->request = QUORUM_UNLOCK;
		ask->lease_ms = h ? held_of(h).lease_ms : 0;
		q->act = h ? QUORUM_ACT_RELEASE_OWN : QUORUM_ACT_RELEASE;
	}
}

static struct quorum_op *make_op(struct client *c, struct quorum_command *q)
{
	struct holds *holds = c->env->policy.holds;
	struct lock_call *call = &q->call;
	const struct hold *h = voted_find(holds, &c->locks->holds, call->key, call->owner);
	struct quorum_ask ask = {
		.request = QUORUM_INFO,
		.key = call->key,
		.claim = { .of_rule = q->key.rule, .owner = call->owner },
		.done = on_quorum_done,
		.arg = c,
	};
	struct quorum_op *op;

	ask.lease_ms = call->lease_ms = quorum_bound_lease(c->env->quorum, call->lease_ms);
	if (q->act == QUORUM_ACT_TAKE)
		ask_lock(c, q, voted_find(holds, &c->locks->holds, call->key, SLICE_NONE),
		         &ask);
	else if (q->act == QUORUM_ACT_RELEASE || q->act == QUORUM_ACT_EXTEND)
		ask_change(q, h, &ask);
	c->quorum_act = q->act;
	op = quorum_op_new(c->env->quorum, &ask);
	if (q->act == QUORUM_ACT_RELEASE_OWN)
		voted_end(holds, ask.key, ask.value);
	return op;
}

/* Makes a new quorum_op of `current`. Returns false if this has closed the client. */
static bool make_op_again(struct client *c)
{
	struct quorum_command command;
	struct command_info what;
	struct resp_view view;
	struct context x = client_context_again(c, &view, &what);

	if (!quorum_command_read(&x, &command)) {
		client_close(c, "the meaning of its command changed while it waited");
		return false;
	}
	c->quorum_op = make_op(c, &command);
	return true;
}

void quorum_op_on_reply(struct client *c, const struct resp_reply *reply)
{
	if (resp_reply_is_error(reply)) {
		client_complete_current(c);
	} else if (!client_is_decided(c)) {
		client_decide_again(c);
	} else if (make_op_again(c)) {
		client_park(c, CLIENT_PARKED_ROUND);
		quorum_op_start(c->quorum_op);
	}
}

/* --- an operator frees a lock ------------------------------------------------------------- */

struct quorum_forcing {
	struct holds *holds;
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
		voted_end(f->holds, r->key, r->lock.value);
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
	*f = (struct quorum_forcing){ env->policy.holds, fn, arg };
	ask.arg = f;
	quorum_op_start(quorum_op_new(env->quorum, &ask));
	return true;
}
