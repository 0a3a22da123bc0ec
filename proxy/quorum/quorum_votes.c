/* SPDX-License-Identifier: BSD-3-Clause */
#include "quorum/quorum_votes.h"

#define FENCE_AHEAD_US (INT64_C(3600) * 1000 * 1000)
#define FENCE_MAX ((INT64_C(1) << 53) - 1) /* Lua's numbers are exact up to here */
#define DRIFT_SHARE 0.01
#define DRIFT_SECONDS 0.002

size_t quorum_majority(size_t nservers)
{
	return nservers / 2 + 1;
}

size_t quorum_nanswered(const struct quorum_votes *v, bool is_over)
{
	return is_over ? v->nyes + v->nno : v->nasked - v->nfailed;
}

enum quorum_verdict quorum_verdict(const struct quorum_votes *v, bool is_over, bool is_patient)
{
	size_t majority = quorum_majority(v->nservers);
	size_t ndue = v->nasked - v->nyes - v->nno - v->nfailed;
	bool may_be_refused = v->nyes + v->nno >= majority;

	if (ndue && !is_over && is_patient)
		return QUORUM_OPEN;
	if (v->nyes >= majority)
		return QUORUM_WON;
	if (may_be_refused && (is_over || v->nyes + ndue < majority))
		return QUORUM_REFUSED;
	return !is_over && quorum_nanswered(v, false) >= majority ? QUORUM_OPEN
	                                                          : QUORUM_UNREACHED;
}

static size_t count_above(const int64_t *proposals, size_t nservers, int64_t limit)
{
	size_t n = 0;

	for (size_t i = 0; i < nservers; i++)
		n += proposals[i] > limit;
	return n;
}

static int64_t greatest_up_to(const int64_t *proposals, size_t nservers, int64_t limit)
{
	int64_t greatest = 0;

	for (size_t i = 0; i < nservers; i++)
		if (proposals[i] <= limit && proposals[i] > greatest)
			greatest = proposals[i];
	return greatest;
}

/* Returns the greatest number that a majority of servers proposes or exceeds; 0: there is no
 * majority of proposals. */
static int64_t reached_by_majority(const int64_t *proposals, size_t nservers)
{
	size_t majority = quorum_majority(nservers);
	int64_t reached = greatest_up_to(proposals, nservers, INT64_MAX);

	while (reached && count_above(proposals, nservers, reached - 1) < majority)
		reached = greatest_up_to(proposals, nservers, reached - 1);
	return reached;
}

/* Tokens never fall: a majority of servers stores the last token, so each later majority has a
 * server that stores it, and this server proposes a greater one. */
bool quorum_fence_choose(struct quorum_fence *f, const int64_t *proposals, size_t nservers,
                         int64_t unix_us)
{
	int64_t reached = reached_by_majority(proposals, nservers);

	f->limit = unix_us + FENCE_AHEAD_US;
	if (reached > f->limit)
		f->limit = reached < FENCE_MAX - FENCE_AHEAD_US ? reached + FENCE_AHEAD_US
		                                                : FENCE_MAX;
	f->token = greatest_up_to(proposals, nservers, f->limit);
	return count_above(proposals, nservers, 0) -
	               count_above(proposals, nservers, f->limit) >=
	       quorum_majority(nservers);
}

double quorum_good_until(double began, int64_t lease_ms)
{
	double lease = (double)lease_ms / 1000;

	return began + lease - lease * DRIFT_SHARE - DRIFT_SECONDS;
}

/* Redis rounds its uptime: the process may have run for up to one second less. */
double quorum_counts_from(double now, int64_t uptime, int64_t restart_delay_ms, bool is_another)
{
	double age = uptime > 1 && !is_another ? (double)(uptime - 1) : 0;

	return restart_delay_ms ? now + (double)restart_delay_ms / 1000 - age : 0;
}
