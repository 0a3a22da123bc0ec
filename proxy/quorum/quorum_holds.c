/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "base/fatal.h"
#include "quorum/quorum_internal.h"

/* Ignores the server's answer: the next renewal shows whether the server has the lock. */
static void on_voted(struct quorum_call *call, const struct quorum_answer *a)
{
	(void)a;
	free(call);
}

/* Takes the lock also at servers that lack it, as they have restarted or were not reached. A
 * majority has the lock, so no other client can have it. */
static void take_at_absent(struct quorum *q, const struct quorum_result *r)
{
	for (size_t i = 0; i < q->opts.nservers; i++) {
		struct quorum_call *call;

		if (!(r->absent & UINT32_C(1) << i))
			continue;
		call = xcalloc(1, sizeof(*call));
		call->fn = on_voted;
		if (!quorum_peer_call(q, i, SCRIPT_QUORUM_TAKE, r->key, r->lock.value,
		                      &r->lease_ms, 1, call))
			free(call);
	}
}

static void on_hold_renewed(void *renewal, const struct quorum_result *r)
{
	enum vote vote = r->verdict == QUORUM_WON ? VOTE_YES : VOTE_UNKNOWN;

	if (r->is_gone)
		vote = VOTE_NO;
	if (voted_renewal_end(renewal, vote, r->lock.began, r->lock.good_until))
		take_at_absent(r->quorum, r);
}

static void renew_hold(void *arg, struct slice key, struct slice value, int64_t lease_ms,
                       struct voted_renewal *renewal)
{
	const struct quorum_ask ask = {
		.request = QUORUM_EXTEND,
		.key = key,
		.value = value,
		.lease_ms = lease_ms,
		.renews = true,
		.done = on_hold_renewed,
		.arg = renewal,
	};

	quorum_op_start(quorum_op_new(arg, &ask));
}

static void release_hold(void *arg, struct slice key, struct slice value, int64_t lease_ms)
{
	(void)quorum_release_new(arg, key, value, UINT32_MAX, lease_ms, NULL, NULL);
}

void quorum_keep_holds(struct quorum *q, struct holds *h, bool closes)
{
	const struct voters voters = {
		.renew = renew_hold, .release = release_hold, .arg = q, .closes = closes
	};

	holds_set_voters(h, &voters);
}
