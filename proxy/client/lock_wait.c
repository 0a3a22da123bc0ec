/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock_wait: a client's place in the line for a lock: whether a command that may have to wait
 * can be sent, and the steps while it waits.
 */
#include "client/client_internal.h"

static void write_refusal(struct client *c)
{
	struct policy_env *env = &c->env->policy;
	struct buf error = BUF_INIT;

	buf_printf(&error, "ERR hasp: cannot wait for a lock: %s", waiter_refusal(c->waiter));
	buf_append(&error, slice_of("", 1));
	buf_clear(&env->rewritten);
	rewrite_error(&env->rewritten, &(struct rewrite_how){ .eval = true }, buf_head(&error));
	buf_release(&error);
}

enum lock_wait_ready lock_wait_ready(struct client *c, struct slice key, int64_t wait_ms,
                                     struct slice ticket, bool lazy)
{
	struct waiters *waiters = c->env->policy.waiters;

	lazy = lazy && !c->waiter && !waiter_may_be_held_back(waiters);
	if (wait_ms == 0 || (lazy && waiters_are_ready(waiters, key)))
		return LOCK_WAIT_READY;
	if (!c->waiter)
		c->waiter = waiter_new(waiters, wait_ms, c->env->waiter_ops, c);
	switch (waiter_ready(c->waiter, key)) {
	case TRY_READY:
		waiter_sent(c->waiter, ticket);
		return LOCK_WAIT_READY;
	case TRY_NOT_YET:
		client_park(c, CLIENT_PARKED_QUEUE);
		return LOCK_WAIT_PARKED;
	case TRY_REFUSED:
		break;
	}
	write_refusal(c);
	return LOCK_WAIT_REFUSED;
}

bool lock_wait_is_outage(const struct client *c, struct slice key, struct buf *error)
{
	if (!waiters_are_cut_off(c->env->policy.waiters, key))
		return false;
	buf_printf(error,
	           "-ERR hasp: upstream %s: the connection was lost while the command waited "
	           "for a lock\r\n",
	           c->env->node->links.name);
	return true;
}

void lock_wait_refuse(struct client *c)
{
	send_bytes(c, buf_slice(&c->env->policy.rewritten));
	link_expect(&c->user, LINK_PASS, NULL);
	session_withdraw(&c->session, c->current);
	pending_free(c->current);
	c->current = NULL;
}

void lock_wait_failed(struct client *c)
{
	client_close(c, "the answer to its lock is not understood");
}

void lock_wait_confirm(struct client *c, const struct lock_try *t, int64_t lease_ms)
{
	client_park(c, CLIENT_PARKED_TURN);
	if (!c->waiter)
		c->waiter = waiter_new(c->env->policy.waiters, 0, c->env->waiter_ops, c);
	waiter_answered_late(c->waiter, c->session.db, t, lease_ms);
}

void lock_wait_ask_replicas(struct client *c, const struct lock_try *t,
                            const struct replica_ask_terms *terms)
{
	client_park(c, CLIENT_PARKED_ACK);
	c->ask = replica_ask_new(c->env->replica_acks, t, terms, c->env->on_acked, c);
}

/* True if other clients may wait for this one: it has locks or guards that only it can release.
 */
static bool may_be_waited_for(const struct client *c)
{
	double now = c->env->policy.now;
	const struct guard_op *op = c->current->guard_op;

	return hold_owner_has_any(&c->holds, now) || read_set_has_any(&c->read_set, now) ||
	       (op && op->n > 1) || parts_has(c->current->pending_lock);
}

/* The client is in line: watches whether it waits for itself, through other waiters. */
static void watch_for_deadlock(struct client *c, const struct lock_try *t)
{
	const struct guard_op *op = c->current->guard_op;
	struct deadlock_terms terms = { .db = c->session.db, .wanted = t };
	const char *user = session_user(&c->session);

	terms.shown = op ? guard_op_queued_key(op) : t->id.key;
	if (user)
		terms.user = slice_str(user);
	if (c->identity && may_be_waited_for(c))
		terms.connection = c->identity->connection;
	c->deadlock = deadlock_watch_new(c->env->deadlocks, &terms, c->env->on_deadlock, c);
}

void lock_wait_queued(struct client *c, const struct lock_try *t, int64_t lease_ms,
                      struct slice line, struct section_stats *stats)
{
	client_park(c, CLIENT_PARKED_TURN);
	/* The wait may take long: free unused memory. */
	buf_fit(&c->in);
	waiter_count_at(c->waiter, stats);
	if (waiter_queued(c->waiter, c->session.db, t, lease_ms, line) != 0) {
		client_set_state(c, CLIENT_PARKED_REPLY);
		lock_wait_failed(c);
	} else if (c->eof && c->state == CLIENT_PARKED_TURN) {
		/* Now that its place is known, it leaves without a search. */
		client_close(c, "hung up while it waited for a lock");
	} else if (c->state == CLIENT_PARKED_TURN) {
		watch_for_deadlock(c, t);
	}
}
