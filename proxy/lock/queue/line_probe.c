/* SPDX-License-Identifier: BSD-3-Clause
 *
 * line_probe: asks Redis about the lock of a line, and passes the answer to the line's waiters.
 *
 *   the timer, a write that names the lock, Redisson's channel, a recheck --> line_probe()
 *   the subscriber was down, the first waiter has lost its place, another node has the lock
 *                                                             --> line_probe_members()
 */
#include "lock/queue/queue_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

void line_probe_members(struct line *l)
{
	/* (A check may be answered at once, but only by PROBE_UNKNOWN, which moves no
	 * waiter.) */
	list_each (struct waiter, w, &l->members, node)
		if (w->state == WAITER_QUEUED)
			waiter_check(w);
}

void line_move(struct line *l, struct queue_node *at)
{
	line_listen(l, false);
	l->at = at;
	list_each (struct waiter, w, &l->members, node)
		waiter_set_at(w, at);
	if (list_empty(&l->members))
		return;
	line_listen(l, true);
	line_probe_members(l);
}

static void line_on_probe(const struct probe *p, const struct probe_answer *a)
{
	struct line *l = line_find(p->all, p->db, buf_slice(&p->key));
	struct waiter *w = waiter_find(p->all, slice_str(p->ticket));
	bool again;

	HASP_ASSERT(l); /* line_probe_on_timer() keeps the line until the answer */
	again = l->probing == LINE_PROBED_AGAIN;
	line_set_probing(l, LINE_UNPROBED);
	if (a->outcome != PROBE_UNKNOWN)
		line_probe_when_over(l, a->held_ms);
	if (again && !list_empty(&l->members))
		line_probe(l);
	if (list_empty(&l->members) && !timer_is_running(&l->timer))
		line_linger(l);
	if (!w || p->nsent != w->nsent || w->state != WAITER_QUEUED)
		return;
	/* If the first waiter has lost its place, Redis may have lost the whole queue. */
	if (a->outcome == PROBE_GONE)
		line_probe_members(l);
	else
		waiter_probed(w, p, a);
}

/* Asks about the first waiter only, because Redis grants the lock to that waiter first. */
void line_probe(struct line *l)
{
	struct waiter *w = line_first(l);
	struct attempt t = { .id = { .kind = l->kind, .key = l->by_key.key } };
	struct probe *p;

	if (l->probing != LINE_UNPROBED) {
		line_set_probing(l, LINE_PROBED_AGAIN);
		return;
	}
	/* Schedule another probe, in case the answer is lost with the connection. */
	if (w)
		line_probe_later(l);
	else
		line_linger(l);
	line_set_probing(l, LINE_PROBED);
	if (w && w->state == WAITER_QUEUED)
		t = waiter_try(w);
	else
		w = NULL;
	p = probe_new(l->all, w ? w->ticket : "", line_on_probe);
	p->nsent = w ? w->nsent : 0;
	p->db = l->db;
	buf_append(&p->key, l->by_key.key);
	probe_check(l->all, l->db, &t, 0, 0, p);
}

void line_probe_on_timer(struct timer *t, double now)
{
	struct line *l = container_of(t, struct line, timer);

	(void)now;
	if (list_empty(&l->members) && l->probing == LINE_UNPROBED)
		line_free(l);
	else
		line_probe(l);
}

static void probe_lines_of_key(struct waiters *all, struct slice key)
{
	struct map_node *node = map_get(&all->by_key, key);

	for (; node; node = map_next(node)) {
		struct line *l = container_of(node, struct line, by_key);
		if (l->listening && !list_empty(&l->members))
			line_probe(l);
	}
}

/* Probes lines of any database: the channel names the lock, but not its database. */
void line_probe_channel(struct waiters *all, struct slice channel)
{
	static const char *const prefixes[] = { REDISSON_PREFIX, REDISSON_RW_PREFIX };
	struct slice key = SLICE_NONE;

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (slice_starts(channel, slice_str(prefixes[i])))
			key = slice_of(channel.p + strlen(prefixes[i]),
			               channel.n - strlen(prefixes[i]));
	if (!key.p)
		return;
	probe_lines_of_key(all, key);
	if (key.n > 2)
		probe_lines_of_key(all, slice_of(key.p + 1, key.n - 2));
}

/* --- rechecks -------------------------------------------------------------------------- */

/* Each second, hasp checks the lines whose locks should stay held for more than a second. Many
 * lines share a call, which costs much less than a probe of each line. If a lock is free after
 * all, hasp probes its line.
 *
 *   line_probe_later() --> waiters.rechecks --> struct recheck --> recheck.lua
 *          ^                                                           |
 *          |--------------------- the lock is held -------------------|
 *          `- line_probe(), line_probe_when_over() <-- it is free, or soon will be
 */

/* How many lines share a call at most. */
#define RECHECK_MAX 64
/* How many due lines hasp considers for each call. */
#define LOOK_AHEAD ((size_t)4 * RECHECK_MAX)

/* A call of recheck.lua that is not answered yet. A line leaves `lines` if hasp schedules its
 * next probe before the answer. */
struct recheck {
	struct list lines;
	size_t n; /* number of locks in the call */
};

static struct line *line_of(struct list *node)
{
	return container_of(node, struct line, recheck);
}

/* Values in place of the ms for which a lock is still held: */
#define HELD_LONG INT64_MAX /* recheck.lua has left the lock out of its reply */
#define HELD_NOT (-2) /* the lock is free, or the waiter is not in the queue */

/* Schedules each line's next probe. */
static void recheck_on_reply(void *arg, const redisReply *reply)
{
	struct recheck *r = arg;
	bool good = reply && reply->type == REDIS_REPLY_ARRAY;
	long long left_ms[RECHECK_MAX]; /* indexed by line.recheck_slot */

	/* Without an answer, recheck each line again later. After an error, probe each line. */
	for (size_t i = 0; i < r->n; i++)
		left_ms[i] = reply && !good ? HELD_NOT : HELD_LONG;
	for (size_t i = 0; good && i + 1 < reply->elements; i += 2) {
		long long number = reply->element[i]->integer;
		if (number >= 1 && (size_t)number <= r->n)
			left_ms[number - 1] = reply->element[i + 1]->integer;
	}
	list_shift_each (struct line, l, &r->lines, recheck) {
		if (left_ms[l->recheck_slot] == HELD_NOT)
			line_probe(l);
		else
			line_probe_when_over(l, left_ms[l->recheck_slot]);
	}
	free(r);
}

/* True if the line at `node` is due within RECHECK_GATHER_SECONDS. */
static bool is_due(struct waiters *all, struct list *node, double now)
{
	return node != &all->rechecks &&
	       line_of(node)->recheck_at <= now + RECHECK_GATHER_SECONDS;
}

/* Returns the slot of the line's lock; 0 outside clusters. */
static uint16_t slot_of_line(const struct line *l)
{
	return key_names_slot(script_jobs_naming(l->all->script_jobs), l->by_key.key);
}

/* True if recheck.lua can check the line for its first waiter `w`. The script cannot see which
 * side of a read-write lock is held. */
static bool can_recheck(const struct line *l, const struct waiter *w)
{
	return w->state == WAITER_QUEUED && w->place > 0 && l->probing == LINE_UNPROBED &&
	       (layout_of(w->kind)->expiry_shows || w->limit);
}

/* Moves to `r` the first due line, and other due lines that can share its call. All lines of a
 * call have the same slot and database; either all wait for semaphores, or none does. Probes
 * lines that cannot be rechecked. */
static void gather(struct waiters *all, int db, double now, struct recheck *r,
                   struct lock_place *places)
{
	struct list *at = all->rechecks.next, *next;
	uint16_t slot = slot_of_line(line_of(at));
	bool limited = line_first(line_of(at))->limit;

	for (size_t seen = 0; is_due(all, at, now) && r->n < RECHECK_MAX && seen < LOOK_AHEAD;
	     at = next, seen++) {
		struct line *l = line_of(at);
		const struct waiter *w = line_first(l);
		next = at->next;
		if (l->db != db || slot_of_line(l) != slot || (w->limit > 0) != limited)
			continue;
		list_remove(&l->recheck);
		if (!can_recheck(l, w)) {
			line_probe(l);
			/* (An immediate answer may have removed lines from the list.) */
			next = all->rechecks.next;
			continue;
		}
		list_append(&r->lines, &l->recheck);
		l->recheck_at = INFINITY;
		l->recheck_slot = (uint8_t)r->n;
		places[r->n++] = (struct lock_place){ l->by_key.key, w->place, w->limit };
	}
}

static void send_recheck(struct waiters *all, double now)
{
	struct recheck *r = xcalloc(1, sizeof(*r));
	int db = line_of(all->rechecks.next)->db;
	struct job_call call = script_jobs_call(all->script_jobs, db);
	struct lock_place places[RECHECK_MAX];

	list_init(&r->lines);
	gather(all, db, now, r, places);
	if (r->n == 0) {
		free(r);
		return;
	}
	call.script = rewrite_recheck(&call.bytes, places, r->n, &call.opts);
	script_job_run(&call, 0, recheck_on_reply, r);
}

void recheck_on_timer(struct timer *t, double now)
{
	struct waiters *all = container_of(t, struct waiters, next_recheck);

	while (is_due(all, all->rechecks.next, now))
		send_recheck(all, now);
	if (list_empty(&all->rechecks))
		timer_stop(all->timers, t);
}
