/* SPDX-License-Identifier: BSD-3-Clause
 *
 * note: what is kept about a call until its reply is there, in one piece of memory; and how it
 * is undone when the reply never comes.
 */
#include "lock/hold/hold_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fatal.h"

/* How often a try that may still be on its way is undone. */
#define UNDO_TIMES 6
/* Nothing is undone for longer than this. */
#define UNDO_SECONDS 3600.0

/* No longer values are remembered. */
#define VALUE_MAX 4096

/* Appends `s` to what is behind the note. */
static struct slice copy_behind(char **at, struct slice s)
{
	struct slice there = slice_of(*at, s.n);

	if (s.n)
		memcpy(*at, s.p, s.n);
	*at += s.n;
	return there;
}

static struct pending_lock *pending_lock_alloc(struct holds *h, const struct lock_call *call,
                                               const struct slice *keys, size_t nkeys,
                                               struct slice token)
{
	struct slice value = call->ticket.n ? call->value : SLICE_NONE;
	size_t nbytes = token.n + call->ticket.n + value.n;
	struct pending_lock *n;
	char *at;

	for (size_t i = 0; i < nkeys; i++)
		nbytes += keys[i].n;
	n = xmalloc(sizeof(*n) + nkeys * sizeof(*n->keys) + nbytes);
	*n = (struct pending_lock){ .table = h, .call = *call, .nkeys = nkeys };
	at = (char *)&n->keys[nkeys];
	for (size_t i = 0; i < nkeys; i++)
		n->keys[i] = copy_behind(&at, keys[i]);
	n->token = copy_behind(&at, token);
	n->ticket = copy_behind(&at, call->ticket);
	n->value = copy_behind(&at, value);
	h->npending++;
	return n;
}

struct pending_lock *pending_lock_new(struct holds *h, const struct lock_call *call,
                                      const struct slice *keys, size_t nkeys,
                                      const struct hold_terms *terms)
{
	const struct rule *rule = terms->rule;
	const struct verbs *verbs = terms->verbs;
	bool takes = call->effect == LOCK_EFFECT_TAKES;
	bool by_value = rule && rule->owner == OWNER_VALUE;
	enum disconnect_mode end = rule ? rule->on_disconnect : verbs->on_disconnect;
	enum renew_mode renew = rule ? rule->renew : RENEW_UNLEASED;
	struct pending_lock *n;

	/* Whatever takes a lock may have to be undone. */
	if (call->effect == LOCK_EFFECT_NONE || nkeys == 0 ||
	    (!takes && h->by_id.n == 0 && h->npending == 0))
		return NULL;
	n = pending_lock_alloc(h, call, keys, nkeys,
	                       by_value && takes ? call->value : terms->token);
	n->sent_at = clock_now();
	n->took_at = terms->took_at;
	n->begins = takes &&
	            (by_value || end == DISCONNECT_RELEASE || renew == RENEW_YES ||
	             (renew == RENEW_UNLEASED && !call->leased)) &&
	            (!by_value || call->value.n <= VALUE_MAX);
	n->counts = verbs && verbs->reentrant == REENTRANT_COUNT;
	n->by_value = by_value;
	n->exclusive = rule && (by_value || rule->owner == OWNER_CONNECTION);
	n->release = end == DISCONNECT_RELEASE;
	n->renew = renew;
	n->default_lease_ms = rule ? rule->lease_ms : verbs->lease_ms;
	n->max_hold_ms = rule ? rule->max_hold_ms : verbs->max_hold_ms;
	return n;
}

struct lock_try pending_lock_try(const struct pending_lock *n, int64_t *lease_ms)
{
	*lease_ms = n->call.lease_ms;
	return (struct lock_try){
		.id = { n->call.kind, n->keys[0], n->token },
		.value = n->value,
		.ticket = n->ticket,
	};
}

void pending_lock_abandon(struct pending_lock *n)
{
	n->release = true;
	n->begins = n->call.effect == LOCK_EFFECT_TAKES;
}

enum lock_success pending_lock_success(const struct pending_lock *n)
{
	return n->call.success;
}

void pending_lock_since(struct pending_lock *n, double since)
{
	n->sent_at = since;
}

/* Undoing by ticket: exact, and harmless when it is done again. The try may still be on its
 * way, over a connection that is closed at our end. */
static void undo_by_ticket(struct pending_lock *n, int db, const struct lock_try *t,
                           double until)
{
	struct buf out = BUF_INIT;
	enum script_id script = rewrite_leave(&out, t, true);

	script_job_repeat(n->table->script_jobs, db, script, buf_slice(&out), until,
	                  UNDO_TIMES);
	buf_release(&out);
}

static void on_undone(void *arg, const redisReply *reply)
{
	(void)reply;
	pending_lock_free(arg);
}

/* Undoing by token: of a lock that the same connection had heard of before this one was sent,
 * less is left. Half-way between the two, so that neither is missed by a millisecond. */
static void write_undo(void *arg, struct buf *out)
{
	struct pending_lock *n = arg;
	int64_t lease_ms, least_ms = 0;
	struct lock_try t = pending_lock_try(n, &lease_ms);

	if (n->took_at > 0)
		least_ms = lease_ms -
		           (int64_t)((clock_now() - (n->took_at + n->sent_at) / 2) * 1000);
	(void)rewrite_release(out, &t.id, least_ms > 0 ? least_ms : 0, lease_ms);
}

void pending_lock_undo(struct pending_lock *n, int db)
{
	int64_t lease_ms;
	struct lock_try t;
	double until;

	if (!n)
		return;
	t = pending_lock_try(n, &lease_ms);
	if (!lease_ms)
		lease_ms = n->default_lease_ms;
	until = n->sent_at + (double)(lease_ms + n->call.wait_ms) / 1000;
	if (until > n->sent_at + UNDO_SECONDS)
		until = n->sent_at + UNDO_SECONDS;
	if (n->call.effect != LOCK_EFFECT_TAKES || db < 0) {
		pending_lock_free(n);
	} else if (t.ticket.n) {
		t.place = n->call.wait_ms ? -1 : 0;
		undo_by_ticket(n, db, &t, until);
		pending_lock_free(n);
	} else if (n->exclusive && n->call.fresh && n->call.lease_ms &&
	           !hold_find(n->table, NULL, false, db, n->keys[0])) {
		script_job_run_written(n->table->script_jobs, db, SCRIPT_RELEASE, write_undo,
		                       until, on_undone, n);
	} else {
		pending_lock_free(n);
	}
}

void pending_lock_free(struct pending_lock *n)
{
	if (!n)
		return;
	n->table->npending--;
	free(n);
}
