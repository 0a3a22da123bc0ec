/* SPDX-License-Identifier: BSD-3-Clause */
#include "quorum/quorum_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

struct quorum *quorum_new(const struct quorum_opts *opts)
{
	struct quorum *q = xcalloc(1, sizeof(*q));

	HASP_ASSERT(opts->nservers <= QUORUM_PEERS_MAX);
	q->opts = *opts;
	list_init(&q->releases);
	return q;
}

void quorum_free(struct quorum *q)
{
	quorum_releases_free(q);
	free(q);
}

const struct quorum_opts *quorum_terms(const struct quorum *q)
{
	return &q->opts;
}

int64_t quorum_bound_lease(const struct quorum *q, int64_t lease_ms)
{
	int64_t most_ms = q->opts.restart_delay_ms;

	return most_ms && lease_ms > most_ms ? most_ms : lease_ms;
}

bool quorum_is_asked(const struct quorum *q)
{
	double now = timers_now(q->opts.timers);

	for (size_t i = 0; i < q->opts.nservers; i++)
		if (q->peers[i].ninflight && quorum_peer_can_be_asked(q, i, now))
			return true;
	return false;
}

double quorum_on_up(struct quorum *q, size_t server, const char *run_id, int64_t uptime)
{
	struct quorum_peer *p = &q->peers[server];
	double now = timers_now(q->opts.timers);

	p->up = true;
	p->ninflight = 0; /* calls over the earlier connection have failed */
	if (strcmp(p->run_id, run_id) != 0) {
		p->counts_from = quorum_counts_from(now, uptime, q->opts.restart_delay_ms,
		                                    *p->run_id != '\0');
		snprintf(p->run_id, sizeof(p->run_id), "%s", run_id);
	}
	quorum_releases_resend(q, server);
	return p->counts_from > now ? p->counts_from - now : 0;
}

void quorum_on_down(struct quorum *q, size_t server)
{
	q->peers[server].up = false;
}

void quorum_on_answer(struct quorum *q, struct quorum_call *call, const redisReply *reply)
{
	size_t server = call->server;
	struct quorum_peer *p = &q->peers[server];
	double now = timers_now(q->opts.timers);
	bool was_silent = quorum_peer_is_silent(q, server, now);

	if (p->ninflight)
		p->ninflight--;
	p->quiet_since = now;
	call->fn(call, reply);
	if (was_silent && p->up)
		quorum_releases_resend(q, server);
}

/* --- quorum holds ------------------------------------------------------------------------ */

static void on_hold_renewed(void *slot, const struct quorum_result *r)
{
	int result = r->verdict == QUORUM_WON ? 1 : -1;

	if (renewal_voted(slot, r->is_gone ? 0 : result, r->lock.good_until))
		quorum_op_take_at_absent(r->op);
}

static void renew_hold(void *arg, struct slice key, struct slice value, int64_t lease_ms,
                       struct hold **slot)
{
	const struct quorum_ask ask = {
		.request = QUORUM_EXTEND,
		.key = key,
		.value = value,
		.lease_ms = lease_ms,
		.renews = true,
		.done = on_hold_renewed,
		.arg = slot,
	};

	quorum_op_start(quorum_op_new(arg, &ask));
}

static void release_hold(void *arg, struct slice key, struct slice value, int64_t lease_ms)
{
	quorum_release(arg, key, value, UINT32_MAX, lease_ms);
}

void quorum_keep_holds(struct quorum *q, struct holds *h, bool closes)
{
	const struct voters voters = {
		.renew = renew_hold, .release = release_hold, .arg = q, .closes = closes
	};

	holds_set_voters(h, &voters);
}
