/* SPDX-License-Identifier: BSD-3-Clause
 *
 * line: a worker's waiters for one lock, in the order of their places in Redis' queue. A line
 * counts its waiters on the board, listens to Redisson's channel, and schedules the next probe.
 */
#include "lock/queue/queue_internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "lock/model/lock_id.h"

/* hasp rechecks or probes a lock at least this often. All lines have the same interval, so each
 * new recheck is the last in waiters.rechecks. */
#define PROBE_SECONDS 1.0
/* hasp first probes a line when its first waiter has waited for this long. */
#define CROSSED_MS 20
/* How long an empty line keeps its channel: clients may soon wait for the lock again. */
#define LINGER_SECONDS 10.0

/* (A client that makes names collide only causes a few probes.) */
uint16_t line_slot(int db, struct slice key)
{
	return (uint16_t)(lock_id_hash(db, key) % WAITER_BOARD_SLOTS);
}

struct line *line_find(struct waiters *all, int db, struct slice key)
{
	struct map_node *node = map_get(&all->by_key, key);

	for (; node; node = map_next(node)) {
		struct line *l = container_of(node, struct line, by_key);
		if (l->db == db)
			return l;
	}
	return NULL;
}

/* Writes the name of Redisson's channel. As Redisson does, adds no braces to a name with an
 * opening brace. */
static void write_redisson_channel(struct buf *out, const char *prefix, struct slice key)
{
	bool braced = memchr(key.p, '{', key.n) != NULL;

	buf_puts(out, prefix);
	buf_puts(out, braced ? "" : "{");
	buf_append(out, key);
	buf_puts(out, braced ? "" : "}");
}

void line_listen(struct line *l, bool on)
{
	const char *prefix = layout_of(l->kind)->channel;
	struct buf channel = BUF_INIT;

	if (l->listening == on || !prefix || !l->at->node)
		return;
	l->listening = on;
	write_redisson_channel(&channel, prefix, l->by_key.key);
	subscriber_call(l->at->node->subscriber, on ? "SUBSCRIBE" : "UNSUBSCRIBE",
	                buf_slice(&channel));
	if (!l->all->topology->only)
		subscriber_call(l->at->node->subscriber, on ? "SSUBSCRIBE" : "SUNSUBSCRIBE",
		                buf_slice(&channel));
	buf_release(&channel);
}

void line_free(struct line *l)
{
	line_listen(l, false);
	timer_stop(l->all->timers, &l->timer);
	list_remove(&l->recheck);
	map_remove(&l->all->by_key, &l->by_key);
	free(l);
}

struct line *line_get(struct waiters *all, int db, struct slice key, enum lock_kind kind)
{
	struct line *l = line_find(all, db, key);

	if (l)
		return l;
	l = xcalloc(1, offsetof(struct line, key) + key.n);
	l->all = all;
	l->at = queue_node_of(all, key);
	l->kind = kind;
	l->db = db;
	if (key.n)
		memcpy(l->key, key.p, key.n);
	l->by_key.key = slice_of(l->key, key.n);
	l->slot = line_slot(db, key);
	list_init(&l->members);
	list_init(&l->recheck);
	map_put(&all->by_key, &l->by_key);
	return l;
}

/* --- members ---------------------------------------------------------------------- */

struct waiter *line_first(const struct line *l)
{
	return list_first(&l->members, struct waiter, node);
}

static void count_on_board(const struct line *l, bool more)
{
	struct waiter_board *board = l->all->board;
	uint32_t n = more ? 1 : UINT32_MAX;

	atomic_fetch_add_explicit(&board->total, n, memory_order_relaxed);
	atomic_fetch_add_explicit(&board->waiting[l->slot], n, memory_order_relaxed);
}

void line_enqueue(struct line *l, struct waiter *w)
{
	struct list *at = l->members.prev;

	/* (`w` nearly always belongs at the end.) */
	while (at != &l->members && container_of(at, struct waiter, node)->place > w->place)
		at = at->prev;
	list_append(at->next, &w->node);
	w->line = l;
	l->all->nwaiting++;
	l->all->nbytes += sizeof(*w);
	stats_change(w->stats, STAT_WAITERS, true);
	count_on_board(l, true);
}

void line_remove(struct waiter *w)
{
	struct line *l = w->line;

	list_remove(&w->node);
	w->line = NULL;
	if (!l)
		return;
	l->all->nwaiting--;
	l->all->nbytes -= sizeof(*w);
	stats_change(w->stats, STAT_WAITERS, false);
	count_on_board(l, false);
	if (list_empty(&l->members))
		line_linger(l);
}

/* --- probes ----------------------------------------------------------------------- */

/*              probe                  probe
 *   UNPROBED ---------> PROBED ----------------> PROBED_AGAIN
 *       ^                  |                          |
 *       `----- answer -----'--------- answer ---------'  (then hasp probes again)
 */
bool line_allows(enum line_probing from, enum line_probing to)
{
	/* Only a first probe leaves UNPROBED, and only that leads to PROBED. */
	return (from == LINE_UNPROBED) == (to == LINE_PROBED);
}

void line_set_probing(struct line *l, enum line_probing probing)
{
	HASP_ASSERT(line_allows(l->probing, probing));
	l->probing = probing;
}

static void line_set_timer(struct line *l, double seconds)
{
	struct timers *timers = l->all->timers;

	/* Ignore the answer to a recheck that is under way. */
	list_remove(&l->recheck);
	timer_start(timers, &l->timer, l->all->hooks.on_line_timer,
	            timers_now(timers) + seconds, 0);
}

bool line_has_next(const struct line *l)
{
	return timer_is_running(&l->timer) || !list_empty(&l->recheck);
}

void line_linger(struct line *l)
{
	line_set_timer(l, LINGER_SECONDS);
}

void line_probe_later(struct line *l)
{
	struct waiters *all = l->all;

	timer_stop(all->timers, &l->timer);
	list_move(&all->rechecks, &l->recheck);
	l->recheck_at = timers_now(all->timers) + PROBE_SECONDS;
	if (!timer_is_running(&all->next_recheck))
		timer_start(all->timers, &all->next_recheck, all->hooks.on_recheck,
		            l->recheck_at - RECHECK_GATHER_SECONDS, RECHECK_GATHER_SECONDS);
}

void line_probe_when_over(struct line *l, long long held_ms)
{
	if (list_empty(&l->members))
		line_linger(l);
	else if (held_ms >= 0 && (double)held_ms / 1000 < PROBE_SECONDS)
		line_set_timer(l, (double)(held_ms + 1) / 1000);
	else
		line_probe_later(l);
}

void line_probe_before(struct line *l, int64_t lease_ms)
{
	double next = timer_is_running(&l->timer) ? l->timer.at : l->recheck_at;

	if (!list_empty(&l->members) && line_has_next(l) &&
	    (double)lease_ms / 1000 < next - timers_now(l->all->timers))
		line_probe_when_over(l, lease_ms);
}

void line_probe_soon(struct line *l, const struct waiter *w, int64_t held_ms)
{
	bool first = line_first(l) == w;
	bool unprobed = l->probing == LINE_UNPROBED;

	if (first && !unprobed)
		line_set_probing(l, LINE_PROBED_AGAIN);
	else if (first || (unprobed && !line_has_next(l)))
		line_probe_when_over(l, held_ms >= 0 && held_ms < CROSSED_MS ? held_ms
		                                                             : CROSSED_MS);
}
