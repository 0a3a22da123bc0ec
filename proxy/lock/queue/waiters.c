/* SPDX-License-Identifier: BSD-3-Clause
 *
 * waits: all who wait at a worker: the subscription by which they are called, and the tickets
 * by which they are told apart.
 *
 *   Redis -> subscriber -> on_grant() --ticket--> a waiter (wait.c)
 *                     `--> on_message() --a lock's channel--> its line (line.c)
 */
#include "lock/queue/queue_internal.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/fatal.h"

/* --- who is woken ---------------------------------------------------------------- */

/* Those who could not be sent yet are asked again. */
static void wake_unsent(struct waiters *all, bool gives_up)
{
	struct list unsent, *node;

	list_init(&unsent);
	list_move_all(&unsent, &all->unsent);
	while ((node = list_shift(&unsent))) {
		struct waiter *w = container_of(node, struct waiter, node);
		w->state = WAITER_NEW;
		if (gives_up)
			w->deadline = clock_now();
		w->ops->on_ready(w->owner);
	}
}

static void waiters_on_wake(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	struct waiters *all = t->data;

	(void)loop;
	(void)revents;
	if (all->nunconfirmed == 0 && subscriber_is_up(all->subscriber))
		wake_unsent(all, false);
}

/* Who waits must be looked at: what was published meanwhile, nobody heard. */
static void on_up(void *arg)
{
	struct waiters *all = arg;

	for (size_t i = 0; i < all->by_id.nbuckets; i++) {
		for (struct map_node *at = all->by_id.buckets[i]; at; at = at->next) {
			struct line *l = container_of(at, struct line, by_id);
			l->listening = false;
			if (list_empty(&l->members))
				continue;
			line_listen(l, true);
			line_probe_all(l);
		}
	}
	wake_unsent(all, false);
}

/* Whoever could not be sent yet is told why; or, when Redis cannot be reached, tries without
 * waiting, and hears of that. */
static void on_failed(void *arg)
{
	struct waiters *all = arg;

	wake_unsent(all, !subscriber_refusal(all->subscriber));
}

static void waiters_on_subscribed(void *arg, struct slice channel)
{
	/* What was announced before that was not heard. */
	lines_probe(arg, channel);
}

/* `<ticket> <fencing token or -> <ms of Redis' time>` */
static void on_grant(struct waiters *all, struct slice message)
{
	char text[128], ticket[TICKET_MAX], fence[24];
	struct waiter *w;
	int64_t ms;

	if (message.n >= sizeof(text))
		return;
	memcpy(text, message.p, message.n);
	text[message.n] = '\0';
	if (sscanf(text, "%37s %23s %" SCNd64, ticket, fence, &ms) != 3)
		return;
	/* Who has gone has left the queue, and that gives back what it had been given. */
	w = waiter_find(all, slice_str(ticket));
	if (w)
		waiter_notified(w, strtoll(fence, NULL, 10), ms);
}

static void on_message(void *arg, struct slice channel, struct slice message)
{
	struct waiters *all = arg;

	if (slice_eq(channel, slice_str(all->channel)))
		on_grant(all, message);
	else
		lines_probe(all, channel);
}

/* --- all of them --------------------------------------------------------------- */

struct waiters *waiters_new(struct ev_loop *loop, struct link_env *links,
                            struct script_jobs *script_jobs, struct waiter_board *board)
{
	struct waiters *all = xcalloc(1, sizeof(*all));
	uint64_t number;

	HASP_ASSERT(getrandom(&number, sizeof(number), 0) == sizeof(number));
	snprintf(all->channel, sizeof(all->channel), CHANNEL_PREFIX "%016" PRIx64, number);
	all->number = all->channel + strlen(CHANNEL_PREFIX);
	all->loop = loop;
	all->script_jobs = script_jobs;
	all->board = board;
	list_init(&all->unsent);
	ev_timer_init(&all->wake, waiters_on_wake, 0, 0);
	all->wake.data = all;
	map_init(&all->by_ticket, number);
	map_init(&all->by_id, number);
	map_init(&all->by_key, number);
	all->subscriber = subscriber_new(&(struct subscriber_how){
		.env = links,
		.channel = all->channel,
		.on_up = on_up,
		.on_failed = on_failed,
		.on_subscribed = waiters_on_subscribed,
		.on_message = on_message,
		.arg = all,
	});
	return all;
}

void waiters_free(struct waiters *all)
{
	HASP_ASSERT(all->nwaiting == 0 && all->nunconfirmed == 0);
	ev_timer_stop(all->loop, &all->wake);
	for (size_t i = 0; i < all->by_id.nbuckets; i++)
		while (all->by_id.buckets[i])
			line_free(container_of(all->by_id.buckets[i], struct line, by_id));
	subscriber_free(all->subscriber);
	map_fini(&all->by_ticket);
	map_fini(&all->by_id);
	map_fini(&all->by_key);
	buf_release(&all->room);
	free(all);
}

bool waiters_are_ready(struct waiters *all)
{
	subscriber_open(all->subscriber);
	return subscriber_is_up(all->subscriber) && all->nunconfirmed == 0;
}

struct subscriber *waiters_subscriber(struct waiters *all)
{
	return all->subscriber;
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
	struct line *l = line_find(all, db, key);

	if (l)
		line_probe(l);
	else
		line_hand_off(all, db, key, kind);
}
