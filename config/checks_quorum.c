/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/checks_quorum.h"

#include <string.h>

#include "config/sections.h"
#include "config/value.h"

/* A lease is renewed each third of it, and by then the last renewal must have ended. */
#define TIMEOUTS_PER_LEASE 3

void checks_quorum_servers(const struct quorum_settings *q, struct faults *f)
{
	const struct strings *s = &q->servers;

	if (s->n && (s->n < 3 || s->n % 2 == 0 || s->n > QUORUM_SERVERS_MAX))
		faults_add(
			f, s->lines[0],
			"'servers' of [quorum %s] names %zu; expected an odd number from 3 to "
			"%d, of which a majority stays when some fail",
			q->section.name, s->n, QUORUM_SERVERS_MAX);
	for (size_t i = 1; i < s->n; i++)
		for (size_t j = 0; j < i; j++)
			if (strcmp(s->v[i], s->v[j]) == 0)
				faults_add(f, s->lines[i],
				           "'servers' of [quorum %s] has '%s' twice; expected "
				           "each server once, for it has one vote",
				           q->section.name, s->v[i]);
}

/* What a server that lost its data has forgotten must be over when it counts again. */
static void checks_quorum_delay(const struct verbs *verbs, const struct quorum_settings *q,
                                struct faults *f)
{
	struct buf b = BUF_INIT;

	value_print_duration(&b, verbs->max_lease_ms);
	if (verbs->max_lease_ms == 0)
		faults_add(
			f, verbs->line,
			"[verbs] has 'quorum' and no 'max_lease'; expected one, such as 30s: "
			"so long a server that was started anew must not be counted");
	else if (q->restart_delay_ms > 0 && q->restart_delay_ms < verbs->max_lease_ms)
		faults_add(
			f, q->section.line,
			"'restart_delay' of [quorum %s] is less than 'max_lease' of [verbs]; "
			"expected %.*s or more, or 0 if each server has each write on disk "
			"before it answers (appendfsync always)",
			q->section.name, FAULTS_BUF(&b));
	buf_release(&b);
}

static void checks_quorum_terms(const struct verbs *verbs, const struct quorum_settings *q,
                                struct faults *f)
{
	struct buf b = BUF_INIT;

	if (verbs->reentrant != REENTRANT_NO)
		faults_add(f, verbs->line,
		           "[verbs] has 'quorum' and counts or refreshes holds; expected "
		           "'reentrant = no' beside it");
	if (verbs->replicas_ack > 0)
		faults_add(f, verbs->line,
		           "[verbs] has both 'quorum' and 'replicas_ack'; expected one of the "
		           "two, for the servers of a quorum are no replicas");
	value_print_duration(&b, TIMEOUTS_PER_LEASE * q->timeout_ms);
	if (verbs->lease_ms < TIMEOUTS_PER_LEASE * q->timeout_ms)
		faults_add(f, verbs->line,
		           "'lease' of [verbs] is less than three times the 'timeout' of "
		           "[quorum %s]; expected %.*s or more, or a shorter 'timeout'",
		           q->section.name, FAULTS_BUF(&b));
	buf_release(&b);
}

void checks_quorum_of_verbs(const struct config *c, struct faults *f)
{
	const struct verbs *verbs = &c->verbs;
	const struct named_section *s;

	if (!verbs->enabled || !verbs->quorum)
		return;
	s = sections_find(c, SECTION_QUORUM, verbs->quorum);
	if (!s) {
		faults_add(f, verbs->line,
		           "'quorum' of [verbs] is '%s', and there is no [quorum %s]; expected "
		           "the NAME of a section",
		           verbs->quorum, verbs->quorum);
		return;
	}
	checks_quorum_terms(verbs, c->quorums[s->index], f);
	checks_quorum_delay(verbs, c->quorums[s->index], f);
}
