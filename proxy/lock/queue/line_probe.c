/* SPDX-License-Identifier: BSD-3-Clause
 *
 * line_probe: when a line asks Redis about its lock, and what the answer means for its waiters.
 * A probe finds what hasp has missed: the end of a lease (no script runs then), a lost message,
 * a queue that was lost with Redis.
 *
 *   the timer, a write that names the lock, Redisson's channel, recheck.c --> line_probe()
 *   the subscriber was down, the first has lost its place, another node has the lock
 *                                                             --> line_probe_members()
 */
#include "lock/queue/queue_internal.h"

#include <string.h>

void line_probe_members(struct line *l)
{
	struct waiter *w, *next;

	/* A check may get its answer at once, but it is "unknown" then, and moves no waiter. */
	for (w = line_first(l); w; w = next) {
		next = line_behind(w);
		if (w->state != WAITER_QUEUED)
			continue;
		waiter_check(w);
	}
}

void line_move(struct line *l, struct queue_node *at)
{
	struct waiter *w;

	line_listen(l, false);
	l->at = at;
	for (w = line_first(l); w; w = line_behind(w))
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

	/* A line that ended before the answer had no waiters. */
	if (!l)
		return;
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
	/* When the first has lost its place, the queue itself may be gone. */
	if (a->outcome == PROBE_GONE)
		line_probe_members(l);
	else
		waiter_probed(w, p, a);
}

/* Asks on behalf of the first: Redis grants the lock to no later waiter before it. */
void line_probe(struct line *l)
{
	struct waiter *w = line_first(l);
	struct lock_try t = { .id = { .kind = l->kind, .key = line_key(l) } };
	struct probe *p;

	if (l->probing != LINE_UNPROBED) {
		line_set_probing(l, LINE_PROBED_AGAIN);
		return;
	}
	/* Start another probe if the answer is lost with the connection, but only if a waiter
	 * needs it. */
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
	buf_append(&p->key, line_key(l));
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

/* The channel names the lock, but not its database. */
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
