/* SPDX-License-Identifier: BSD-3-Clause */
#include "quorum/quorum_votes.h"

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

double quorum_good_until(double began, int64_t lease_ms)
{
	double lease = (double)lease_ms / 1000;

	return began + lease - lease * DRIFT_SHARE - DRIFT_SECONDS;
}

/* It counts its time in whole seconds, so that it may run for one less than it says. */
double quorum_counts_from(double now, int64_t uptime, int64_t restart_delay_ms, bool is_another)
{
	double age = uptime > 1 && !is_another ? (double)(uptime - 1) : 0;

	return restart_delay_ms ? now + (double)restart_delay_ms / 1000 - age : 0;
}
