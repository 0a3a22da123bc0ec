/* SPDX-License-Identifier: BSD-3-Clause
 *
 * renewal: keeps holds alive. Each has a timer; those whose time has come go out together, and
 * those that are not renewed are forgotten when their lease is over.
 */
#include "lock/hold/hold_internal.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"

/* Holds whose time has come within this are renewed together, so many in one call. */
#define GATHER_SECONDS 0.02
#define BATCH_MAX 64

/* A renewal under way. Who ends meanwhile takes itself out, and is not in it when it is sent
 * again. */
struct renewal_batch {
	struct holds *table;
	enum script_id script;
	double sent_at; /* the last time */
	size_t n;
	struct hold *holds[BATCH_MAX];
};

/* Its lease is over. What a value rule's connection stored stays known, for its DEL. */
static void renewal_expired(struct hold *hold)
{
	ev_timer_stop(hold->table->loop, &hold->timer);
	list_remove(&hold->due);
	hold->renewed = false;
	if (hold->kind != LOCK_KIND_VALUE)
		hold_free(hold);
}

/* Not to be renewed: it can be released until its lease is over. */
static void let_expire(struct hold *hold)
{
	double left = hold->good_until - clock_now();

	ev_timer_stop(hold->table->loop, &hold->timer);
	list_remove(&hold->due);
	hold->renewed = false;
	if (hold->kind == LOCK_KIND_VALUE || isinf(left))
		return;
	ev_timer_set(&hold->timer, left > 0 ? left : 0, 0);
	ev_timer_start(hold->table->loop, &hold->timer);
}

/* "lost": hasp does not know any more that the lock is its owner's. */
static void log_renewal(const struct hold *hold, const char *what)
{
	struct holds *h = hold->table;
	struct slice key = lock_id_key(hold->by_id.key);
	uint32_t dropped;

	if (log_limit_pass(&h->limit, clock_now(), 10, &dropped))
		log_warning("%s db=%d key=\"%.*s\" failed=%llu lost=%llu suppressed=%u", what,
		            lock_id_db(hold->by_id.key), (int)(key.n > 128 ? 128 : key.n),
		            key.p, (unsigned long long)h->nfailed, (unsigned long long)h->nlost,
		            dropped);
}

static void renewal_failed(struct hold *hold)
{
	hold->table->nfailed++;
	log_renewal(hold, "renewal_failed");
}

static void end_renewal(struct hold *hold, const struct renewal_batch *b, long long result)
{
	if (result < 0) {
		renewal_failed(hold);
	} else if (result == 0) {
		renewal_expired(hold);
	} else {
		hold->good_until = b->sent_at + (double)hold->lease_ms / 1000;
		hold->slack = clock_now() - b->sent_at;
		if (!hold->renewed)
			let_expire(hold);
	}
}

static void on_renewed(void *arg, const redisReply *reply)
{
	struct renewal_batch *b = arg;
	bool good = reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == b->n;

	for (size_t i = 0; i < b->n; i++) {
		struct hold *hold = b->holds[i];
		if (!hold)
			continue;
		hold->renewal_batch = NULL;
		end_renewal(hold, b, good ? reply->element[i]->integer : -1);
	}
	free(b);
}

/* The call, of those who are still there. */
static void write_renewals(void *arg, struct buf *out)
{
	struct renewal_batch *b = arg;
	struct lock_renewal renewals[BATCH_MAX];
	size_t n = 0;

	for (size_t i = 0; i < b->n; i++) {
		struct hold *hold = b->holds[i];
		if (!hold)
			continue;
		renewals[n] = (struct lock_renewal){ hold_ident(hold), hold->lease_ms,
			                             hold->fence };
		hold->slot = n;
		b->holds[n++] = hold;
	}
	b->n = n;
	b->sent_at = clock_now();
	(void)rewrite_renew(out, b->script, renewals, n);
}

/* Renews the first of those that are due, and the ones behind it that go in the same call. */
static void renew_some(struct holds *h)
{
	struct renewal_batch *b = xcalloc(1, sizeof(*b));
	struct list *at = h->due.next, *next;
	struct hold *first = container_of(at, struct hold, due);
	int db = lock_id_db(first->by_id.key);
	double until = INFINITY;

	b->table = h;
	b->script = rewrite_renewal(first->kind);
	for (; at != &h->due && b->n < BATCH_MAX; at = next) {
		struct hold *hold = container_of(at, struct hold, due);
		next = at->next;
		if (rewrite_renewal(hold->kind) != b->script ||
		    lock_id_db(hold->by_id.key) != db)
			break;
		list_remove(&hold->due);
		hold->renewal_batch = b;
		hold->slot = b->n;
		b->holds[b->n++] = hold;
		if (hold->good_until < until)
			until = hold->good_until;
	}
	/* It may still come in time; but whoever reads the log shall know by now. */
	if (!script_jobs_are_up(h->script_jobs))
		renewal_failed(first);
	script_job_run_written(h->script_jobs, db, b->script, write_renewals,
	                       isinf(until) ? 0 : until, on_renewed, b);
}

void renewal_on_gather(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	struct holds *h = t->data;

	(void)loop;
	(void)revents;
	while (!list_empty(&h->due))
		renew_some(h);
}

static void make_due(struct hold *hold)
{
	struct holds *h = hold->table;

	list_append(&h->due, &hold->due);
	if (ev_is_active(&h->gather))
		return;
	ev_timer_set(&h->gather, GATHER_SECONDS, 0);
	ev_timer_start(h->loop, &h->gather);
}

void renewal_on_timer(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	struct hold *hold = w->data;
	double now = clock_now();

	(void)loop;
	(void)revents;
	if (hold->renewed && now >= hold->good_until) {
		hold->table->nlost++;
		log_renewal(hold, "lease_over");
	}
	if (!hold->renewed || now >= hold->good_until)
		renewal_expired(hold);
	else if (hold->hold_until > 0 && now >= hold->hold_until)
		let_expire(hold);
	else if (!hold->renewal_batch && list_empty(&hold->due))
		make_due(hold);
}

void renewal_begin(struct hold *hold, int64_t lease_ms, bool leased, double from)
{
	double every, first = 0;

	/* An expiry that was not told (EXAT) may be near: begin to renew at once. */
	hold->good_until = INFINITY;
	hold->lease_ms = hold->default_lease_ms;
	if (lease_ms) {
		hold->lease_ms = lease_ms;
		hold->good_until = from + (double)lease_ms / 1000;
	}
	if (hold->renew != RENEW_YES && (leased || hold->renew != RENEW_UNLEASED)) {
		let_expire(hold);
		return;
	}
	every = (double)hold->lease_ms / 3000;
	if (lease_ms)
		/* Not all that were taken at once need be renewed at once. */
		first = every * (0.8 + 0.2 * (double)(hold->by_id.hash & 255) / 255);
	hold->renewed = true;
	ev_timer_stop(hold->table->loop, &hold->timer);
	ev_timer_set(&hold->timer, first, every);
	ev_timer_start(hold->table->loop, &hold->timer);
}

void renewal_end(struct hold *hold)
{
	ev_timer_stop(hold->table->loop, &hold->timer);
	list_remove(&hold->due);
	if (hold->renewal_batch)
		hold->renewal_batch->holds[hold->slot] = NULL;
}
