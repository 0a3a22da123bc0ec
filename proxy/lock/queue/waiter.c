/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/queue/queue_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "lock/model/lock_id.h"

/* Leaving the queue takes a trip; who has waited this much longer is told without. */
#define GRACE_SECONDS 0.05
/* Of its lease, what a grant may have lost before its client hears of it. */
#define STALE_SHARE 0.1
/* When who is first in line here looks for the first time. */
#define CROSSED_MS 20
/* How long leaving is tried when Redis is away: for a lease, but at least and at most so long.
 */
#define LEAVE_SECONDS 60.0
#define LEAVE_SECONDS_MAX 3600.0

static void leave_queue(struct waiter *w, bool undo);

struct lock_try waiter_try(const struct waiter *w)
{
	struct slice bytes = buf_slice(&w->bytes);

	return (struct lock_try){
		.id = { .kind = w->kind,
		        .key = lock_id_key(w->line->by_id.key),
		        .token = slice_of(bytes.p, w->token_len) },
		.value = slice_of(bytes.p + w->token_len, bytes.n - w->token_len),
		.ticket = slice_str(w->ticket),
		.place = w->place,
	};
}

struct waiter *waiter_find(struct waiters *all, struct slice ticket)
{
	struct map_node *node = map_get(&all->by_ticket, ticket);

	return node ? container_of(node, struct waiter, by_ticket) : NULL;
}

double waiter_lease(const struct waiter *w)
{
	return (double)w->lease_ms / 1000;
}

/* --- those who may have lost their place ---------------------------------------- */

void waiter_set_unconfirmed(struct waiter *w)
{
	w->all->nunconfirmed += !w->unconfirmed;
	w->unconfirmed = true;
}

void waiter_set_confirmed(struct waiter *w)
{
	struct waiters *all = w->all;

	if (!w->unconfirmed)
		return;
	w->unconfirmed = false;
	/* Not here: whoever ends a waiter is in the middle of something. */
	if (--all->nunconfirmed == 0 && !list_empty(&all->unsent)) {
		ev_timer_set(&all->wake, 0, 0);
		ev_timer_start(all->loop, &all->wake);
	}
}

/* --- turns -------------------------------------------------------------------- */

static void confirm(struct waiter *w)
{
	w->state = WAITER_CONFIRMING;
	line_probe_waiter(w, true);
}

static void stay(struct waiter *w)
{
	w->state = WAITER_QUEUED;
	/* Its time may have come meanwhile. */
	if (!ev_is_active(&w->timer)) {
		ev_timer_set(&w->timer, 0, 0);
		ev_timer_start(w->all->loop, &w->timer);
	}
}

static void place_lost(struct waiter *w)
{
	line_remove(w);
	w->state = WAITER_NEW;
	w->granted = false;
	w->ops->on_lost(w->owner, w->tag);
}

static void grant(struct waiter *w, long long fence, double since)
{
	struct line *l = w->line;

	line_remove(w);
	w->state = WAITER_NEW;
	if (!list_empty(&l->members) &&
	    waiter_lease(w) < ev_timer_remaining(l->all->loop, &l->timer))
		line_probe_when_over(l, w->lease_ms);
	w->ops->on_granted(w->owner, w->tag, fence, since);
}

void waiter_probed(struct waiter *w, const struct probe *m, enum probe_outcome probe_outcome,
                   long long held_ms, long long fence)
{
	double left = (double)held_ms / 1000;

	if (probe_outcome == PROBE_GONE)
		place_lost(w);
	else if (probe_outcome == PROBE_GRANTED && !m->confirm &&
	         left < (1 - STALE_SHARE) * waiter_lease(w))
		confirm(w);
	else if (probe_outcome == PROBE_GRANTED)
		grant(w, fence, m->sent_at + left - waiter_lease(w));
	else if (m->confirm)
		stay(w);
}

/* --- leaving ------------------------------------------------------------------ */

static void on_left(void *arg, const redisReply *reply)
{
	struct probe *m = arg;
	struct waiter *w = waiter_find(m->all, slice_str(m->ticket));
	long long held_ms, fence;
	enum probe_outcome probe_outcome = probe_read(reply, &held_ms, &fence);

	if (w && w->state == WAITER_LEAVING && probe_outcome == PROBE_GRANTED) {
		w->state = WAITER_QUEUED;
		waiter_probed(w, m, probe_outcome, held_ms, fence);
	} else if (w && w->state == WAITER_LEAVING) {
		line_remove(w);
		w->state = WAITER_NEW;
		w->ops->on_timed_out(w->owner, w->tag);
	}
	probe_free(m);
}

static void leave_queue(struct waiter *w, bool undo)
{
	struct line *l = w->line;
	struct lock_try t = waiter_try(w);
	double patience = waiter_lease(w);
	struct buf out = BUF_INIT;
	enum script_id script = rewrite_leave(&out, &t, undo);
	struct probe *m = undo ? NULL : probe_new(l, w->ticket);

	if (patience < LEAVE_SECONDS)
		patience = LEAVE_SECONDS;
	if (patience > LEAVE_SECONDS_MAX)
		patience = LEAVE_SECONDS_MAX;
	script_job_run(l->all->script_jobs, lock_id_db(l->by_id.key), script, buf_slice(&out),
	               clock_now() + patience, m ? on_left : NULL, m);
	buf_release(&out);
}

static void waiter_on_timer(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	struct waiter *w = t->data;

	(void)revents;
	switch (w->state) {
	case WAITER_UNSENT:
		list_remove(&w->node);
		w->state = WAITER_NEW;
		w->ops->on_ready(w->owner);
		break;
	case WAITER_QUEUED:
		w->state = WAITER_LEAVING;
		ev_timer_set(t, GRACE_SECONDS, 0);
		ev_timer_start(loop, t);
		leave_queue(w, false);
		break;
	case WAITER_LEAVING:
		/* It goes on; that it leaves again is harmless, and undoes what it may get. */
		w->ops->on_timed_out(w->owner, w->tag);
		break;
	case WAITER_NEW:
	case WAITER_SENT:
	case WAITER_CONFIRMING:
		/* What comes of it tells. */
		break;
	}
}

/* --- waiters ------------------------------------------------------------------ */

struct waiter *waiter_new(struct waiters *all, int64_t wait_ms, const struct waiter_ops *ops,
                          void *owner)
{
	struct waiter *w = xcalloc(1, sizeof(*w));
	double seconds = (double)wait_ms / 1000;

	w->all = all;
	w->ops = ops;
	w->owner = owner;
	w->deadline = clock_now() + seconds;
	list_init(&w->node);
	ev_timer_init(&w->timer, waiter_on_timer, 0, 0);
	w->timer.data = w;
	/* The loop's time is that of the turn's beginning. */
	ev_now_update(all->loop);
	ev_timer_set(&w->timer, seconds, 0);
	ev_timer_start(all->loop, &w->timer);
	return w;
}

struct waiter *waiter_new_sent(struct waiters *all, int64_t wait_ms, double sent_at,
                               struct slice ticket, const struct waiter_ops *ops, void *owner)
{
	int64_t gone_ms = (int64_t)((clock_now() - sent_at) * 1000);
	int64_t left_ms = wait_ms > gone_ms ? wait_ms - gone_ms : 0;
	struct waiter *w = waiter_new(all, left_ms, ops, owner);

	waiter_sent(w, ticket);
	w->sent_at = sent_at;
	return w;
}

int64_t waiter_left_ms(const struct waiter *w)
{
	double left = (w->deadline - clock_now()) * 1000;

	return left > 0 ? (int64_t)left : 0;
}

int64_t waiter_place(const struct waiter *w)
{
	return w->place;
}

enum try_readiness waiter_ready(struct waiter *w)
{
	struct waiters *all = w->all;

	/* Who had a place goes back to it before anybody comes from behind. */
	if (waiters_are_ready(all) || (w->place && subscriber_is_up(all->subscriber)))
		return TRY_READY;
	if (subscriber_refusal(all->subscriber))
		return TRY_REFUSED;
	w->state = WAITER_UNSENT;
	list_append(&all->unsent, &w->node);
	return TRY_NOT_YET;
}

static void forget_ticket(struct waiter *w)
{
	if (w->ticket[0])
		map_remove(&w->all->by_ticket, &w->by_ticket);
	w->ticket[0] = '\0';
}

void waiter_sent(struct waiter *w, struct slice ticket)
{
	HASP_ASSERT(ticket.n < sizeof(w->ticket) && !w->line);
	forget_ticket(w);
	memcpy(w->ticket, ticket.p, ticket.n);
	w->ticket[ticket.n] = '\0';
	w->by_ticket.key = slice_of(w->ticket, ticket.n);
	map_put(&w->all->by_ticket, &w->by_ticket);
	w->state = WAITER_SENT;
	w->granted = false;
	w->sent_at = clock_now();
}

/* Its worker was told that it has the lock since `granted_ms` of Redis' time. */
static void believe(struct waiter *w, long long fence, int64_t granted_ms)
{
	double now = clock_now();
	double since = w->sent_at + (double)(granted_ms - w->redis_ms) / 1000;

	if (since > now)
		since = now;
	if (now - since > STALE_SHARE * waiter_lease(w))
		confirm(w);
	else
		grant(w, fence, since);
}

void waiter_notified(struct waiter *w, long long fence, int64_t granted_ms)
{
	if (w->state == WAITER_QUEUED) {
		believe(w, fence, granted_ms);
	} else if (w->state == WAITER_SENT) {
		w->granted = true;
		w->fence = fence;
		w->granted_ms = granted_ms;
	}
}

int waiter_queued(struct waiter *w, int db, const struct lock_try *t, int64_t lease_ms,
                  struct slice line, void *tag)
{
	char text[128];
	int64_t held_ms;
	struct line *l;

	if (line.n >= sizeof(text))
		return -1;
	memcpy(text, line.p, line.n);
	text[line.n] = '\0';
	if (sscanf(text, "+QUEUED %" SCNd64 " %" SCNd64 " %" SCNd64, &w->place, &w->redis_ms,
	           &held_ms) != 3)
		return -1;
	w->tag = tag;
	w->lease_ms = lease_ms;
	w->kind = t->id.kind;
	buf_clear(&w->bytes);
	buf_append(&w->bytes, t->id.token);
	buf_append(&w->bytes, t->value);
	w->token_len = t->id.token.n;
	l = line_of(w->all, db, t->id.key, t->id.kind);
	w->state = WAITER_QUEUED;
	waiter_set_confirmed(w);
	line_enqueue(l, w);
	line_listen(l, true);
	/* Nobody stood here yet when its try crossed a release: that went unseen. */
	if (line_first(l) == w && l->probing)
		l->probe_again = true;
	else if (line_first(l) == w || (!l->probing && !ev_is_active(&l->timer)))
		line_probe_when_over(l, held_ms >= 0 && held_ms < CROSSED_MS ? held_ms
		                                                             : CROSSED_MS);
	if (w->granted) {
		believe(w, w->fence, w->granted_ms);
		return 0;
	}
	stay(w);
	return 0;
}

void waiter_end(struct waiter *w)
{
	if (!w)
		return;
	if (w->line)
		leave_queue(w, true);
	line_remove(w);
	waiter_set_confirmed(w);
	forget_ticket(w);
	ev_timer_stop(w->all->loop, &w->timer);
	buf_release(&w->bytes);
	free(w);
}
