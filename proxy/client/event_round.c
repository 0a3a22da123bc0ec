/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event_round: logs an event after asking the other workers for the owner of the lock, which
 * this worker does not know. The workers are asked in turn (client/client.h), then the line is
 * written: later than the client was answered, and no more often than events are logged.
 */
#include "client/client_internal.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "lock/hold/held.h"

/* A round keeps the key and the other texts: an event with longer ones is logged at once. */
#define EVENT_NBYTES_MAX ((size_t)64 * 1024)

struct event_round {
	struct round round;
	struct event_to_log event; /* its texts are the copies below */
	struct buf key, by, holder, token;
	bool of_guard;
	double learnt_at; /* when the client's worker learnt it: the latest counts; 0: none */
};

static void find_held(struct event_round *r, const struct client_env *env)
{
	const struct event_facts *facts = &r->event.facts;
	struct held held;

	if (!held_find_other(env->policy.holds, facts->db, buf_slice(&r->key),
	                     buf_slice(&r->token), r->event.at, &held) ||
	    held.learnt_at <= r->learnt_at)
		return;
	r->learnt_at = held.learnt_at;
	r->event.facts.held = r->event.at - held.since;
	buf_clear(&r->holder);
	client_describe(client_of_holder(held.owner), &r->holder);
}

static void find_guarded(struct event_round *r, const struct client_env *env)
{
	const struct read_set_entry *e = read_sets_holder(
		env->policy.read_sets, r->event.facts.db, buf_slice(&r->key),
		buf_slice(&r->token), true, r->event.at);

	if (!e || e->since <= r->learnt_at)
		return;
	r->learnt_at = e->since;
	r->event.facts.held = r->event.at - e->since;
	buf_clear(&r->holder);
	client_describe(client_of_reader(e->read_set), &r->holder);
}

static bool event_round_step(struct round *round, const struct client_env *env)
{
	struct event_round *r = container_of(round, struct event_round, round);

	if (r->of_guard)
		find_guarded(r, env);
	else
		find_held(r, env);
	return true;
}

static void event_round_end(struct round *round, bool home)
{
	struct event_round *r = container_of(round, struct event_round, round);

	(void)home;
	r->event.facts.key = buf_slice(&r->key);
	r->event.facts.by = buf_slice(&r->by);
	r->event.facts.holder = buf_slice(&r->holder);
	event_log(r->event.stats, r->event.event, &r->event.facts, r->event.suppressed);
	buf_release(&r->key);
	buf_release(&r->by);
	buf_release(&r->holder);
	buf_release(&r->token);
	free(r);
}

void event_round_log(struct client_env *env, const struct event_to_log *event,
                     struct slice token, bool of_guard)
{
	const struct event_facts *facts = &event->facts;
	struct event_round *r;

	if (env->is_alone || facts->key.n + facts->by.n + token.n > EVENT_NBYTES_MAX) {
		event_log(event->stats, event->event, facts, event->suppressed);
		return;
	}
	r = xcalloc(1, sizeof(*r));
	r->round.step = event_round_step;
	r->round.end = event_round_end;
	r->event = *event;
	r->of_guard = of_guard;
	buf_append(&r->key, facts->key);
	buf_append(&r->by, facts->by);
	buf_append(&r->holder, facts->holder);
	buf_append(&r->token, token);
	env->begin_round(env->arg, &r->round);
}

void event_round_ask(void *arg, const struct event_to_log *event, struct slice token)
{
	event_round_log(arg, event, token, false);
}
