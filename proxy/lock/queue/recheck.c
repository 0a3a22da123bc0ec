/* SPDX-License-Identifier: BSD-3-Clause
 *
 * recheck: checks, each second, the lines that expect no change, because their locks are held
 * for longer. Many lines share a call, which costs a fraction of as many probes. If the call
 * finds that a line has changed, hasp probes that line.
 *
 *   line_probe_later() --> waiters.rechecks --> struct recheck --> recheck.lua
 *          ^                                                           |
 *          |------------------------ as it was -----------------------|
 *          `- line_probe(), line_probe_when_over() <-- it is not, soon not, held
 */
#include "lock/queue/queue_internal.h"

#include <math.h>
#include <stdlib.h>

#include "base/fatal.h"

/* How many lines go in a call. */
#define RECHECK_MAX 64
/* How many due lines hasp considers for each call. */
#define LOOK_AHEAD ((size_t)4 * RECHECK_MAX)

/* A call that awaits its answer. A line leaves `lines` if its next probe is set before. */
struct recheck {
	struct list lines;
	size_t n; /* of the call */
};

static struct line *line_of(struct list *node)
{
	return container_of(node, struct line, recheck);
}

/* --- answers ------------------------------------------------------------------------ */

#define HELD_LONG INT64_MAX
#define HELD_NOT (-2)

/* `left_ms`: the answer for each line of the call. */
static void end_lines(struct recheck *r, const long long *left_ms)
{
	struct list *node;

	while ((node = list_shift(&r->lines))) {
		struct line *l = line_of(node);
		if (left_ms[l->recheck_slot] == HELD_NOT)
			line_probe(l);
		else
			line_probe_when_over(l, left_ms[l->recheck_slot]);
	}
}

static void recheck_on_reply(void *arg, const redisReply *reply)
{
	struct recheck *r = arg;
	bool good = reply && reply->type == REDIS_REPLY_ARRAY;
	long long left_ms[RECHECK_MAX];

	/* Without an answer, hasp asks again next time. After an error, it probes each line. */
	for (size_t i = 0; i < r->n; i++)
		left_ms[i] = reply && !good ? HELD_NOT : HELD_LONG;
	for (size_t i = 0; good && i + 1 < reply->elements; i += 2) {
		long long number = reply->element[i]->integer;
		if (number >= 1 && (size_t)number <= r->n)
			left_ms[number - 1] = reply->element[i + 1]->integer;
	}
	end_lines(r, left_ms);
	free(r);
}

/* --- calls -------------------------------------------------------------------------- */

/* True if the line at `node` of the list is due, or nearly. */
static bool is_due(struct waiters *all, struct list *node, double now)
{
	return node != &all->rechecks &&
	       line_of(node)->recheck_at <= now + RECHECK_GATHER_SECONDS;
}

/* Only lines of one slot, and of one database, can share a call. */
static uint16_t slot_of_line(const struct line *l)
{
	return key_names_slot(script_jobs_naming(l->all->script_jobs), line_key(l));
}

/* Moves lines that can share a call with the first one from the head of the list to `r`. Probes
 * a line whose first waiter is about to leave, or that waits for another answer. */
static void gather(struct waiters *all, int db, double now, struct recheck *r,
                   struct lock_place *places)
{
	struct list *at = all->rechecks.next, *next;
	uint16_t slot = slot_of_line(line_of(at));

	for (size_t seen = 0; is_due(all, at, now) && r->n < RECHECK_MAX && seen < LOOK_AHEAD;
	     at = next, seen++) {
		struct line *l = line_of(at);
		const struct waiter *w = line_first(l);
		next = at->next;
		if (l->db != db || slot_of_line(l) != slot)
			continue;
		list_remove(&l->recheck);
		/* (The expiry shows neither whether a semaphore has a free place nor which side
		 * of a read-write lock is held.) */
		if (w->state != WAITER_QUEUED || w->place <= 0 ||
		    !layout_of(w->kind)->expiry_shows || l->probing != LINE_UNPROBED) {
			line_probe(l);
			/* The answer may have ended other lines. */
			next = all->rechecks.next;
			continue;
		}
		list_append(&r->lines, &l->recheck);
		l->recheck_at = INFINITY;
		l->recheck_slot = (uint8_t)r->n;
		places[r->n++] = (struct lock_place){ line_key(l), w->place };
	}
}

static void send_recheck(struct waiters *all, double now)
{
	struct recheck *r = xcalloc(1, sizeof(*r));
	int db = line_of(all->rechecks.next)->db;
	struct rewrite_how how = script_jobs_how(all->script_jobs, db);
	struct lock_place places[RECHECK_MAX];
	struct buf out = BUF_INIT;
	enum script_id script;

	list_init(&r->lines);
	gather(all, db, now, r, places);
	if (r->n == 0) {
		free(r);
		return;
	}
	script = rewrite_recheck(&out, places, r->n, &how);
	script_job_run(all->script_jobs, db, script, buf_slice(&out), 0, recheck_on_reply, r);
	buf_release(&out);
}

void recheck_on_timer(struct timer *t, double now)
{
	struct waiters *all = container_of(t, struct waiters, next_recheck);

	while (is_due(all, all->rechecks.next, now))
		send_recheck(all, now);
	if (list_empty(&all->rechecks))
		timer_stop(all->timers, t);
}
