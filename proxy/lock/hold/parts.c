/* SPDX-License-Identifier: BSD-3-Clause
 *
 * parts: the locks that a try to take several locks has while it waits for one of them: those
 * before it, in the order in which all clients take them. They are not holds, because hasp does
 * not report them: it renews them here until the try has all, and undoes them with the try
 * (pending_lock_undo()).
 *
 *   +QUEUED ... 3 --parts_queued()--> 1, 2: renewed each third of their lease
 *   granted       --parts_granted()-> 1, 2, 3 --the same try once more--> all, or +QUEUED ... 5
 */
#include "lock/hold/hold_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "commands/args.h"

/* Greater than any fencing token: hasp does not know the fencing token of a part. */
#define ANY_FENCE (1LL << 53)

struct parts *parts_new(struct pending_lock *p)
{
	struct parts *parts = xcalloc(1, sizeof(*parts));

	parts->lock = p;
	return parts;
}

void parts_free(struct parts *parts)
{
	if (!parts)
		return;
	timer_stop(parts->lock->holds->timers, &parts->timer);
	free(parts);
}

static void renew(struct timer *t, double now)
{
	const struct parts *parts = container_of(t, struct parts, timer);
	const struct pending_lock *p = parts->lock;
	struct rewrite_how how = script_jobs_how(p->holds->script_jobs, parts->db);
	int64_t lease_ms = rewrite_mlock_part_lease(p->lease_ms);
	struct lock_renewal v[MLOCK_KEYS_MAX];
	struct buf out = BUF_INIT;

	for (size_t i = 0; i < parts->n; i++)
		v[i] = (struct lock_renewal){ .id = { p->kind, p->keys[i], p->token },
			                      .lease_ms = lease_ms,
			                      .fence = ANY_FENCE };
	rewrite_renew(&out, SCRIPT_RENEW_VERB, v, parts->n, &how);
	script_job_run(p->holds->script_jobs, parts->db, SCRIPT_RENEW_VERB, buf_slice(&out),
	               now + (double)lease_ms / 1000, NULL, NULL);
	buf_release(&out);
}

bool parts_has(const struct pending_lock *p)
{
	return p && p->parts && (p->parts->n || p->parts->granted || p->parts->again);
}

bool parts_queued(struct pending_lock *p, int db, struct slice *line)
{
	struct parts *parts = p->parts;
	struct timers *timers = p->holds->timers;
	double third = (double)rewrite_mlock_part_lease(p->lease_ms) / 3000;
	struct slice rest, number;
	const char *blank = memrchr(line->p, ' ', line->n);
	int64_t i;

	if (!blank)
		return false;
	rest = slice_of(blank + 1, (size_t)(line->p + line->n - blank - 1));
	if (!slice_cut(&rest, '\r', &number) || !args_integer(number, &i) || i < 1 ||
	    (uint64_t)i > p->nkeys)
		return false;
	parts->db = db;
	parts->at = parts->n = (size_t)i - 1;
	parts->granted = false;
	if (parts->n == 0)
		timer_stop(timers, &parts->timer);
	else if (!timer_is_running(&parts->timer))
		timer_start(timers, &parts->timer, renew, timers_now(timers) + third, third);
	*line = slice_of(line->p, (size_t)(blank - line->p));
	return true;
}

void parts_granted(struct pending_lock *p)
{
	p->parts->granted = true;
}

void parts_undo(struct pending_lock *p)
{
	p->parts->undoes = true;
	p->stats = NULL;
}

bool parts_are_undone(const struct pending_lock *p)
{
	return p->parts && p->parts->undoes;
}

struct mlock_step parts_step(struct pending_lock *p, bool placed)
{
	struct mlock_step step = { .place_of = 0 };

	p->parts->again = true;
	if (placed && !p->parts->granted)
		step.place_of = p->parts->at + 1;
	return step;
}

void parts_write_undo(const struct pending_lock *p, struct buf *out,
                      const struct rewrite_how *how)
{
	const struct mlock_step step = { .place_of = p->parts->at + 1 };
	const struct lock_try t = { .id = { p->kind, p->keys[p->parts->at], p->token },
		                    .ticket = p->ticket,
		                    .place = how->place };
	double age = timers_now(p->holds->timers) - p->sent_at + p->waited;

	rewrite_mlock_undo(out, p->keys, p->nkeys, &t, &step, (int64_t)(age * 1000), how);
}
