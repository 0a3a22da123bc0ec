/* SPDX-License-Identifier: BSD-3-Clause
 *
 * waiters: all waiters of a worker: their subscription, the tickets that name their tries, and
 * the tries that cannot be sent yet.
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

/* --- tries that cannot be sent yet ------------------------------------------------ */

bool waiters_are_ready(struct waiters *all, struct slice key)
{
	queue_nodes_open(all);
	return queue_node_is_ready(queue_node_of(all, key));
}

enum try_readiness waiter_ready(struct waiter *w, struct slice key)
{
	struct queue_node *at = queue_node_of(w->all, key);

	queue_nodes_open(w->all);
	waiter_set_at(w, at);
	/* hasp sends the try of a waiter that had a place before those of newcomers, even while
	 * other waiters are unconfirmed. */
	if (queue_node_is_ready(at) || (w->place && queue_node_is_up(at)) || w->unheard)
		return TRY_READY;
	if (queue_node_refusal(at))
		return TRY_REFUSED;
	waiter_set_state(w, WAITER_UNSENT);
	list_append(&at->unsent, &w->node);
	return TRY_NOT_YET;
}

static void wake_unsent(struct queue_node *at, bool unheard)
{
	struct list unsent;

	list_take_all(&unsent, &at->unsent);
	list_shift_each (struct waiter, w, &unsent, node) {
		waiter_set_state(w, WAITER_IDLE);
		if (!w->unconfirmed)
			waiter_set_at(w, NULL);
		w->unheard = unheard;
		w->all->ops->on_ready(w->owner);
	}
}

static void waiters_on_all_confirmed(struct timer *t, double now)
{
	struct queue_node *at = container_of(t, struct queue_node, wake);

	(void)now;
	if (queue_node_is_ready(at))
		wake_unsent(at, false);
}

/* --- the subscription -------------------------------------------------------------- */

/* Subscribes again, and probes the members, because hasp has missed the messages that Redis
 * published without the subscription. */
static void listen_again(struct line *l)
{
	l->listening = false; /* the subscription has ended with the connection */
	if (list_empty(&l->members))
		return;
	line_listen(l, true);
	line_probe_members(l);
}

static void waiters_on_up(void *arg)
{
	struct queue_node *at = arg;

	map_each (&at->all->by_key, node) {
		struct line *l = container_of(node, struct line, by_key);
		if (l->at == at)
			listen_again(l);
	}
	wake_unsent(at, false);
}

/* The subscription has failed. If Redis refused it, the unsent tries fail. If hasp cannot reach
 * Redis, hasp sends the tries: these fail, too, unless Redis is back, or another server has
 * taken over. Then hasp asks for the clients' places as soon as the subscriber is up. */
static void waiters_on_failed(void *arg)
{
	struct queue_node *at = arg;

	wake_unsent(at, !queue_node_refusal(at));
}

static void waiters_on_subscribed(void *arg, struct slice channel)
{
	const struct queue_node *at = arg;

	/* Redis may have published messages before the subscription: they are lost. */
	line_probe_channel(at->all, channel);
}

/* Handles a message to the worker, which begins with the ticket of a waiter. Any client of
 * Redis may publish such a message: if it is no grant, or has no proof, hasp only asks Redis.
 * Another hasp process publishes a message that is no grant if it finds this waiter first in
 * the queue (scripts/includes/workers.lua). */
static void on_notice(struct waiters *all, struct slice message)
{
	struct slice rest = message, ticket;
	struct waiter *w;

	/* (A waiter that has ended needs no grant: hasp takes its ticket out of the queue.) */
	w = slice_cut(&rest, ' ', &ticket) ? waiter_find(all, ticket) : NULL;
	if (w && !waiter_notified(w, rest) && w->line)
		line_probe(w->line);
}

/* The nodes of a cluster forward messages to each other, so the worker gets each message
 * several times; repetitions do no harm. */
static void waiters_on_message(void *arg, struct slice channel, struct slice message)
{
	struct waiters *all = ((struct queue_node *)arg)->all;

	if (slice_eq(channel, slice_str(all->channel)))
		on_notice(all, message);
	else
		line_probe_channel(all, channel);
}

/* --- all waiters ------------------------------------------------------------------ */

struct waiters *waiters_new(struct timers *timers, const struct topology *topology,
                            struct script_jobs *script_jobs, struct waiter_board *board,
                            const struct waiter_ops *ops)
{
	struct waiters *all = xcalloc(1, sizeof(*all));
	uint64_t number;

	random_bytes(&number, sizeof(number));
	snprintf(all->channel, sizeof(all->channel), CHANNEL_PREFIX "%016" PRIx64, number);
	/* The `n` shows scripts that the worker subscribes at several nodes: await_worker(). */
	if (!topology->only)
		all->channel[strlen(CHANNEL_PREFIX)] = 'n';
	snprintf(all->ticket, sizeof(all->ticket), "%s-",
	         all->channel + strlen(CHANNEL_PREFIX));
	all->timers = timers;
	all->ops = ops;
	all->hooks = (struct queue_hooks){
		.on_line_timer = line_probe_on_timer,
		.on_recheck = recheck_on_timer,
		.on_all_confirmed = waiters_on_all_confirmed,
		.subscriber = {
			.channel = all->channel,
			.on_up = waiters_on_up,
			.on_failed = waiters_on_failed,
			.on_subscribed = waiters_on_subscribed,
			.on_message = waiters_on_message,
		},
	};
	all->topology = topology;
	all->script_jobs = script_jobs;
	all->board = board;
	list_init(&all->rechecks);
	map_init(&all->by_ticket);
	map_init(&all->by_key);
	queue_nodes_init(all);
	return all;
}

void waiters_free(struct waiters *all)
{
	HASP_ASSERT(all->nwaiting == 0);
	timer_stop(all->timers, &all->next_recheck);
	map_drain (&all->by_key, at)
		line_free(container_of(at, struct line, by_key));
	queue_nodes_fini(all);
	map_fini(&all->by_ticket);
	map_fini(&all->by_key);
	free(all);
}

const char *waiter_refusal(const struct waiter *w)
{
	return queue_node_refusal(w->at);
}

/* --- nodes that come and go ------------------------------------------------------- */

void waiters_rerouted(struct waiters *all)
{
	map_each (&all->by_key, node) {
		struct line *l = container_of(node, struct line, by_key);
		struct queue_node *at = queue_node_of(all, l->by_key.key);
		if (at != l->at)
			line_move(l, at);
	}
	/* (A waiter whose node is not ready goes back into `unsent`: waiter_ready().) */
	list_each (struct queue_node, at, &all->nodes, in_all)
		wake_unsent(at, false);
}

void waiters_listen_at(struct waiters *all, struct node *n)
{
	queue_node_add(all, n);
}

void waiters_forget(struct waiters *all, struct node *n)
{
	struct queue_node *at = queue_node_find(all, n);

	if (!at)
		return;
	map_each (&all->by_ticket, node) {
		struct waiter *w = container_of(node, struct waiter, by_ticket);
		if (w->at == at)
			waiter_set_at(w, all->nowhere);
	}
	wake_unsent(at, false);
	queue_node_remove(at);
}

/* Increments the hexadecimal serial in place: most often only the last digit changes. */
struct slice waiters_ticket(struct waiters *all)
{
	char *serial = all->ticket + NUMBER_DIGITS + 1, *end = serial + all->nserial, *p = end;

	while (p > serial && p[-1] == 'f')
		*--p = '0';
	if (p > serial) {
		p[-1] = p[-1] == '9' ? 'a' : (char)(p[-1] + 1);
	} else {
		*serial = '1';
		*end++ = '0';
		all->nserial++;
	}
	return slice_of(all->ticket, (size_t)(end - all->ticket));
}

size_t waiters_nbytes(const struct waiters *w)
{
	return w->nbytes;
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
	struct attempt t = { .id = { .kind = kind, .key = key } };

	if (l)
		line_probe(l);
	else
		probe_check(all, db, &t, 0, 0, NULL);
}

/* --- for SHOW --------------------------------------------------------------------- */

struct waiters_walk {
	waiters_walk_fn *fn;
	void *arg;
};

static void walk_waiter(void *arg, struct map_node *node)
{
	const struct waiters_walk *s = arg;
	struct waiter *w = container_of(node, struct waiter, by_ticket);

	if (w->state == WAITER_QUEUED || w->state == WAITER_CONFIRMING)
		s->fn(s->arg, w, w->owner);
}

uint64_t waiters_walk(const struct waiters *all, uint64_t cursor, waiters_walk_fn *fn,
                      void *arg)
{
	struct waiters_walk s = { fn, arg };

	return map_scan(&all->by_ticket, cursor, walk_waiter, &s);
}
