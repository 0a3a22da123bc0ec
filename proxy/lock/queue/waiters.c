/* SPDX-License-Identifier: BSD-3-Clause
 *
 * waiters: all waiters of a worker: the subscription by which they are notified, the tickets by
 * which they are told apart, and those that cannot be sent yet.
 *
 *   Redis -> subscriber -> on_notice() --ticket--> a waiter (waiter.c)
 *                     `--> on_message() --a lock's channel--> its line (line_probe.c)
 */
#include "lock/queue/queue_internal.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/random.h"
#include "lock/model/lock_id.h"

/* --- those that cannot be sent yet ------------------------------------------------ */

bool waiters_are_ready(struct waiters *all)
{
	subscriber_open(all->subscriber);
	return subscriber_is_up(all->subscriber) && all->nunconfirmed == 0;
}

enum try_readiness waiter_ready(struct waiter *w)
{
	struct waiters *all = w->all;

	/* A waiter that had a place goes back to it before others come from behind. */
	if (waiters_are_ready(all) || (w->place && subscriber_is_up(all->subscriber)))
		return TRY_READY;
	if (subscriber_refusal(all->subscriber))
		return TRY_REFUSED;
	waiter_set_state(w, WAITER_UNSENT);
	list_append(&all->unsent, &w->node);
	return TRY_NOT_YET;
}

static void wake_unsent(struct waiters *all, bool gives_up)
{
	struct list unsent, *node;

	list_init(&unsent);
	list_move_all(&unsent, &all->unsent);
	while ((node = list_shift(&unsent))) {
		struct waiter *w = container_of(node, struct waiter, node);
		waiter_set_state(w, WAITER_IDLE);
		if (gives_up)
			w->deadline = timers_now(all->timers);
		w->ops->on_ready(w->owner);
	}
}

static void waiters_on_all_confirmed(struct timer *t, double now)
{
	struct waiters *all = container_of(t, struct waiters, wake);

	(void)now;
	if (all->nunconfirmed == 0 && subscriber_is_up(all->subscriber))
		wake_unsent(all, false);
}

/* --- the subscription -------------------------------------------------------------- */

/* What was published while it was down was missed: the waiters are probed. */
static void waiters_on_up(void *arg)
{
	struct waiters *all = arg;

	for (size_t i = 0; i < all->by_id.nbuckets; i++) {
		for (struct map_node *at = all->by_id.buckets[i]; at; at = at->next) {
			struct line *l = container_of(at, struct line, by_id);
			line_forget_channel(l);
			if (list_empty(&l->members))
				continue;
			line_listen(l, true);
			line_probe_members(l);
		}
	}
	wake_unsent(all, false);
}

/* The waiters that could not be sent yet get Redis' refusal; or, when Redis cannot be reached,
 * their tries are sent without waiting, and fail. */
static void waiters_on_failed(void *arg)
{
	struct waiters *all = arg;

	wake_unsent(all, !subscriber_refusal(all->subscriber));
}

static void waiters_on_subscribed(void *arg, struct slice channel)
{
	/* What was published before that was missed. */
	line_probe_channel(arg, channel);
}

/* `<fencing token or -> <ms of Redis' time> <proof>`. False: it is none. */
static bool parse_grant(struct slice s, struct grant *g)
{
	int64_t fence = 0;

	if (slice_starts(s, SLICE_LIT("- ")))
		s = slice_of(s.p + 2, s.n - 2);
	else if (!cut_number(&s, 1, &fence))
		return false;
	if (!cut_number(&s, 0, &g->ms) || s.n != SHA1_HEX)
		return false;
	g->fence = fence;
	memcpy(g->proof, s.p, SHA1_HEX);
	return true;
}

/* A message to the worker begins with the ticket of the waiter that it is about. Everybody may
 * publish: what is no grant, or is not proved to be one, only makes hasp ask Redis. So does
 * another hasp process that comes by this waiter in the queue: see scripts/includes/wake.lua.
 */
static void on_notice(struct waiters *all, struct slice message)
{
	struct slice rest = message, ticket;
	struct waiter *w;
	struct grant g;

	/* A waiter that has ended has left the queue, and that releases what it was granted. */
	w = slice_cut(&rest, ' ', &ticket) ? waiter_find(all, ticket) : NULL;
	if (!w || (parse_grant(rest, &g) && waiter_notified(w, &g)))
		return;
	if (w->line)
		line_probe(w->line);
}

static void waiters_on_message(void *arg, struct slice channel, struct slice message)
{
	struct waiters *all = arg;

	if (slice_eq(channel, slice_str(all->channel)))
		on_notice(all, message);
	else
		line_probe_channel(all, channel);
}

/* --- all of them --------------------------------------------------------------- */

struct waiters *waiters_new(struct timers *timers, const struct topology *topology,
                            struct script_jobs *script_jobs, struct waiter_board *board)
{
	struct waiters *all = xcalloc(1, sizeof(*all));
	struct node *node;
	uint64_t number;

	random_bytes(&number, sizeof(number));
	snprintf(all->channel, sizeof(all->channel), CHANNEL_PREFIX "%016" PRIx64, number);
	all->number = all->channel + strlen(CHANNEL_PREFIX);
	all->timers = timers;
	all->hooks = (struct queue_hooks){ line_probe_on_timer, recheck_on_timer,
		                           waiters_on_all_confirmed };
	all->script_jobs = script_jobs;
	all->board = board;
	list_init(&all->unsent);
	list_init(&all->rechecks);
	map_init(&all->by_ticket, number);
	map_init(&all->by_id, number);
	map_init(&all->by_key, number);
	node = topology_node(topology, SLICE_NONE);
	node_listen(node, &(struct subscriber_how){
				  .channel = all->channel,
				  .on_up = waiters_on_up,
				  .on_failed = waiters_on_failed,
				  .on_subscribed = waiters_on_subscribed,
				  .on_message = waiters_on_message,
				  .arg = all,
			  });
	all->subscriber = node->subscriber;
	return all;
}

void waiters_free(struct waiters *all)
{
	HASP_ASSERT(all->nwaiting == 0 && all->nunconfirmed == 0);
	timer_stop(all->timers, &all->wake);
	timer_stop(all->timers, &all->next_recheck);
	for (size_t i = 0; i < all->by_id.nbuckets; i++)
		while (all->by_id.buckets[i])
			line_free(container_of(all->by_id.buckets[i], struct line, by_id));
	map_fini(&all->by_ticket);
	map_fini(&all->by_id);
	map_fini(&all->by_key);
	buf_release(&all->scratch);
	free(all);
}

const char *waiters_refusal(const struct waiters *all)
{
	return subscriber_refusal(all->subscriber);
}

struct slice waiters_ticket(struct waiters *all)
{
	static const char digits[] = "0123456789abcdef";
	char *end = all->ticket + sizeof(all->ticket), *p = end;

	for (uint64_t n = ++all->serial; n; n >>= 4)
		*--p = digits[n & 15];
	*--p = '-';
	p -= NUMBER_DIGITS;
	memcpy(p, all->number, NUMBER_DIGITS);
	return slice_of(p, (size_t)(end - p));
}

struct rewrite_how waiters_how(struct waiters *all, int db)
{
	return script_jobs_how(all->script_jobs, db);
}

enum key_naming waiters_naming(const struct waiters *all)
{
	return script_jobs_naming(all->script_jobs);
}

void waiters_trim(struct waiters *all)
{
	buf_trim(&all->scratch);
}

bool waiters_any(const struct waiters *all)
{
	return atomic_load_explicit(&all->board->total, memory_order_relaxed) > 0;
}

bool waiters_for(const struct waiters *all, int db, struct slice key)
{
	return waiters_any(all) &&
	       atomic_load_explicit(&all->board->waiting[line_slot(db, key)],
	                            memory_order_relaxed) > 0;
}

void waiters_probe(struct waiters *all, int db, struct slice key, enum lock_kind kind)
{
	struct line *l = line_find(all, lock_id_write(&all->scratch, db, key));
	struct lock_try t = { .id = { .kind = kind, .key = key } };

	if (l)
		line_probe(l);
	else
		probe_check(all, db, &t, 0, NULL);
}
