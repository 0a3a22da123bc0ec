/* SPDX-License-Identifier: BSD-3-Clause
 *
 * probe: asks Redis about a lock and one of its waiters, or about the lock alone:
 *
 *   probe_check(), probe_leave() --> script_job --> poll.lua, dequeue.lua
 *                                                            |
 *       probe.on_answer(queued | granted | gone | unknown) <-'
 *
 * A question may change something: poll.lua hands a free lock to the first waiter in the queue.
 *
 * This file also reads grants. A grant is a message from offer()
 * (scripts/includes/hand_off.lua) that a waiter has the lock. Because other clients of Redis
 * may publish, too, a grant counts only with a proof.
 */
#include "lock/queue/queue_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

/* The greatest time in ms, place or fencing token: Lua's numbers are exact up to here. */
#define NUMBER_MAX (INT64_C(1) << 53)

bool probe_cut_number(struct slice *s, int64_t min, int64_t *n)
{
	struct slice word;

	return slice_cut(s, ' ', &word) && args_integer(word, n) && *n >= min &&
	       *n <= NUMBER_MAX;
}

struct probe *probe_new(struct waiters *all, const char *ticket,
                        void (*on_answer)(const struct probe *, const struct probe_answer *))
{
	struct probe *p = xcalloc(1, sizeof(*p));

	p->all = all;
	p->on_answer = on_answer;
	strcpy(p->ticket, ticket);
	p->sent_at = timers_now(all->timers);
	return p;
}

static struct probe_answer decode_answer(const redisReply *r)
{
	struct probe_answer a = { .outcome = PROBE_UNKNOWN, .held_ms = -1 };

	if (!r || r->type != REDIS_REPLY_ARRAY || r->elements != 3 ||
	    r->element[0]->type != REDIS_REPLY_STRING ||
	    r->element[1]->type != REDIS_REPLY_INTEGER ||
	    r->element[2]->type != REDIS_REPLY_INTEGER || r->element[2]->integer < 0 ||
	    r->element[2]->integer > NUMBER_MAX)
		return a;
	/* (If a client took the lock without hasp, the lease may be longer than NUMBER_MAX.) */
	if (r->element[1]->integer >= 0 && r->element[1]->integer <= NUMBER_MAX)
		a.held_ms = r->element[1]->integer;
	a.fence = r->element[2]->integer;
	if (strcmp(r->element[0]->str, "queued") == 0)
		a.outcome = PROBE_QUEUED;
	else if (strcmp(r->element[0]->str, "granted") == 0)
		a.outcome = PROBE_GRANTED;
	else
		a.outcome = PROBE_GONE;
	return a;
}

static void probe_on_reply(void *arg, const redisReply *reply)
{
	struct probe *p = arg;
	struct probe_answer a = decode_answer(reply);

	p->on_answer(p, &a);
	buf_release(&p->key);
	free(p);
}

/* Sends `call`, which calls the script, and frees it. `until`, `p`: as in probe_check(). */
static void probe_run(struct waiters *all, int db, enum script_id script, struct buf *call,
                      double until, struct probe *p)
{
	script_job_run(all->script_jobs, db, script, buf_slice(call), until,
	               p ? probe_on_reply : NULL, p);
	buf_release(call);
}

void probe_check(struct waiters *all, int db, const struct attempt *t, int64_t lease_ms,
                 double until, struct probe *p)
{
	struct buf call = BUF_INIT;
	struct rewrite_opts opts = script_jobs_opts(all->script_jobs, db);

	probe_run(all, db, rewrite_poll(&call, t, lease_ms, &opts), &call, until, p);
}

void probe_leave(struct waiters *all, int db, const struct attempt *t, bool undo, double until,
                 struct probe *p)
{
	struct buf call = BUF_INIT;
	struct rewrite_opts opts = script_jobs_opts(all->script_jobs, db);

	probe_run(all, db, rewrite_dequeue(&call, t, undo, &opts), &call, until, p);
}

/* --- grants ---------------------------------------------------------------------------- */

bool grant_parse(struct grant *g, struct slice s)
{
	int64_t fence = 0;

	if (slice_starts(s, SLICE_LIT("- ")))
		s = slice_of(s.p + 2, s.n - 2);
	else if (!probe_cut_number(&s, 1, &fence))
		return false;
	if (!probe_cut_number(&s, 0, &g->ms) || s.n != SHA1_HEX)
		return false;
	g->fence = fence;
	memcpy(g->proof, s.p, SHA1_HEX);
	return true;
}

bool grant_is_proved(const struct grant *g, struct proofs *proofs, int db, struct slice key,
                     const char *ticket)
{
	char text[TICKET_MAX + 48], fence[24] = "-";
	size_t n;

	if (g->fence)
		snprintf(fence, sizeof(fence), "%lld", g->fence);
	n = (size_t)snprintf(text, sizeof(text), "%s %s %" PRId64, ticket, fence, g->ms);
	return proofs_cover_grant(proofs, db, key, slice_of(text, n),
	                          slice_of(g->proof, sizeof(g->proof)));
}
