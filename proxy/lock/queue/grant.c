/* SPDX-License-Identifier: BSD-3-Clause
 *
 * grant: the message that a waiter has the lock, as scripts/includes/hand_off.lua publishes it.
 * Because other clients of Redis may publish, too, it counts only with a proof.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lock/queue/queue_internal.h"

bool grant_parse(struct grant *g, struct slice s)
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
