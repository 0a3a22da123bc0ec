/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_sums: what the sums of a shape say of the use of its keys.
 */
#include <ctype.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "discover/discovery_internal.h"

struct lock_sums *discovery_lock_sums(struct discovery *d, struct shape *s)
{
	if (!s->lock) {
		s->lock = xcalloc(1, sizeof(*s->lock));
		d->used += discovery_cost(sizeof(*s->lock));
	}
	return s->lock;
}

uint64_t discovery_taken(const struct lock_sums *l)
{
	uint64_t n = 0;

	for (size_t i = 0; i < DISCOVERY_WAYS; i++)
		n += l->taken[i];
	return n;
}

/* So many foreign releases are thefts for each DEL too many. */
#define THEFTS_PER_DELETE 10

/* See discovery_internal.h. */
static bool foreign_is_theft(const struct lock_sums *l)
{
	uint64_t taken = discovery_taken(l);
	uint64_t too_many = l->deletes > taken ? l->deletes - taken : 0;

	return (l->voids > too_many ? l->voids : too_many) * THEFTS_PER_DELETE > l->foreign;
}

uint64_t discovery_stolen(const struct lock_sums *l)
{
	return l->stolen + (foreign_is_theft(l) ? l->foreign : 0);
}

uint64_t discovery_hopped(const struct lock_sums *l)
{
	return foreign_is_theft(l) ? 0 : l->foreign;
}

bool discovery_says_lock(struct slice pattern)
{
	static const char *const words[] = { "lock", "locks", "mutex" };
	size_t end;

	for (size_t at = 0; at < pattern.n; at = end + 1) {
		for (end = at; end < pattern.n && isalnum((unsigned char)pattern.p[end]); end++)
			;
		for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
			if (slice_is(slice_of(pattern.p + at, end - at), words[i]))
				return true;
	}
	return false;
}

bool discovery_was_left(const struct lock_sums *l)
{
	return discovery_taken(l) == l->taken[DISCOVERY_INCR] && l->bare_left > 0 &&
	       l->retries > 0 && l->released + l->checked + l->foreign == 0;
}

/* A count that is begun anew by DEL is no lock; nor is one that only goes on, unless its name
 * says so. */
bool discovery_is_lock(const struct shape *s)
{
	const struct lock_sums *l = s->lock;

	if (l && discovery_was_left(l))
		return discovery_says_lock(s->node.key);
	if (!l || l->released + l->checked + l->foreign == 0)
		return false;
	return l->taken[DISCOVERY_INCR] < discovery_taken(l) ||
	       (l->lease_ms_max > 0 && l->refused_own == 0);
}

/* One write of so many that is made early might be a coincidence. */
#define REFRESH_EARLY_SHARE 10

bool discovery_is_refresh(const struct guard_sums *g)
{
	return g->lasting == 0 && g->dated > 0 &&
	       (g->dated - g->late) * REFRESH_EARLY_SHARE <= g->dated;
}

bool discovery_is_guard(const struct shape *s)
{
	return s->guard && s->guard->written_back > 0 && !discovery_is_lock(s);
}
