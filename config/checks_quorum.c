/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_internal.h"

#include <stdio.h>
#include <string.h>

#include "config/sections.h"
#include "config/value.h"

/* hasp renews a lock every third of its lease, so a renewal must end within a third. */
#define TIMEOUTS_PER_LEASE 3

void checks_quorum_servers(const struct quorum_settings *q, struct faults *f)
{
	const struct strings *s = &q->servers;

	if (s->n && (s->n < 3 || s->n % 2 == 0 || s->n > QUORUM_SERVERS_MAX))
		faults_add(f, s->lines[0],
		           "'servers' of [quorum %s] names %zu; expected an odd number from 3 "
		           "to %d, so that a majority remains when some fail",
		           q->section.name, s->n, QUORUM_SERVERS_MAX);
	for (size_t i = 1; i < s->n; i++)
		for (size_t j = 0; j < i; j++)
			if (strcmp(s->v[i], s->v[j]) == 0)
				faults_add(f, s->lines[i],
				           "'servers' of [quorum %s] has '%s' twice; expected "
				           "each server once, since it has one vote",
				           q->section.name, s->v[i]);
}

/* A section whose locks belong to a quorum. */
struct quorum_user {
	char title[128]; /* the section's name in faults */
	int line;
	const char *quorum;
	int64_t lease_ms, max_lease_ms, replicas_ack;
	bool reenters;
};

/* Checks that a server that has lost its data votes again only when the leases of the lost
 * locks are over. */
static void checks_quorum_delay(const struct quorum_user *u, const struct quorum_settings *q,
                                struct faults *f)
{
	struct buf b = BUF_INIT;

	value_print_duration(&b, u->max_lease_ms);
	if (u->max_lease_ms == 0)
		faults_add(f, u->line,
		           "%s has 'quorum' and needs 'max_lease'; add one, such as 30s: for "
		           "this long a restarted server must not vote",
		           u->title);
	else if (q->restart_delay_ms > 0 && q->restart_delay_ms < u->max_lease_ms)
		faults_add(
			f, q->section.line,
			"'restart_delay' of [quorum %s] is less than 'max_lease' of %s; "
			"expected %.*s or more, or 0 if every server has 'appendfsync always'",
			q->section.name, u->title, FAULTS_BUF(&b));
	buf_release(&b);
}

static void checks_quorum_terms(const struct quorum_user *u, const struct quorum_settings *q,
                                struct faults *f)
{
	struct buf b = BUF_INIT;

	if (u->reenters)
		faults_add(f, u->line,
		           "%s has 'quorum', so its locks cannot be reentrant; expected "
		           "'reentrant = no'",
		           u->title);
	if (u->replicas_ack > 0)
		faults_add(f, u->line,
		           "%s has both 'quorum' and 'replicas_ack'; expected one of the two, "
		           "since the servers of a quorum are not replicas of each other",
		           u->title);
	value_print_duration(&b, TIMEOUTS_PER_LEASE * q->timeout_ms);
	if (u->lease_ms < TIMEOUTS_PER_LEASE * q->timeout_ms)
		faults_add(f, u->line,
		           "'lease' of %s is less than three times the 'timeout' of "
		           "[quorum %s]; expected %.*s or more, or a shorter 'timeout'",
		           u->title, q->section.name, FAULTS_BUF(&b));
	buf_release(&b);
}

/* Checks a section with the option 'quorum'. `first`: the quorum that the first of these
 * sections names. */
static void checks_quorum_user(const struct config *c, const struct quorum_user *u,
                               const char *first, struct faults *f)
{
	const struct named_section *s = sections_find(c, SECTION_QUORUM, u->quorum);

	if (!s) {
		faults_add(f, u->line,
		           "'quorum' of %s is '%s', but there is no [quorum %s]; expected the "
		           "NAME of a section",
		           u->title, u->quorum, u->quorum);
		return;
	}
	if (strcmp(u->quorum, first) != 0)
		faults_add(f, u->line,
		           "'quorum' of %s is '%s', but another section's is '%s'; expected "
		           "the same one, since hasp uses only one quorum",
		           u->title, u->quorum, first);
	checks_quorum_terms(u, c->quorums[s->index], f);
	checks_quorum_delay(u, c->quorums[s->index], f);
}

static void checks_quorum_of_rule(const struct config *c, const struct rule *rule,
                                  const char *first, struct faults *f)
{
	struct quorum_user u = {
		.line = rule->section.line,
		.quorum = rule->quorum,
		.lease_ms = rule->lease_ms,
		.max_lease_ms = rule->max_lease_ms,
		.replicas_ack = rule->replicas_ack,
		.reenters = rule->reentrant != REENTRANT_NO,
	};

	snprintf(u.title, sizeof(u.title), "[lock %s]", rule->section.name);
	checks_quorum_user(c, &u, first, f);
}

void checks_quorum_users(const struct config *c, struct faults *f)
{
	const struct verbs *verbs = &c->verbs;
	const struct quorum_user of_verbs = {
		.title = "[verbs]",
		.line = verbs->line,
		.quorum = verbs->quorum,
		.lease_ms = verbs->lease_ms,
		.max_lease_ms = verbs->max_lease_ms,
		.replicas_ack = verbs->replicas_ack,
		.reenters = verbs->reentrant != REENTRANT_NO,
	};
	const char *first = NULL;

	if (verbs->enabled && verbs->quorum) {
		first = verbs->quorum;
		checks_quorum_user(c, &of_verbs, first, f);
	}
	for (size_t i = 0; i < c->nrules; i++) {
		if (!c->rules[i]->quorum)
			continue;
		first = first ? first : c->rules[i]->quorum;
		checks_quorum_of_rule(c, c->rules[i], first, f);
	}
}
