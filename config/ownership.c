/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/ownership.h"

#include "config/config.h"
#include "config/config_internal.h"
#include "config/match.h"

/* --- [lock NAME] -------------------------------------------------------------------------- */

/* Both configurations, and a key that matches a pattern of one of them. */
struct ownership {
	struct matcher *running, *next;
	const char *pattern;
	struct buf key;
};

static bool ownership_rule_changes(const struct ownership *o, struct buf *why)
{
	const struct rule *was = match_enforced_rule(o->running, buf_slice(&o->key));
	const struct rule *will = match_enforced_rule(o->next, buf_slice(&o->key));
	const char *option = "owner";

	if (!was || !will)
		return false;
	if (was->owner == will->owner) {
		option = "quorum";
		if (!was->quorum == !will->quorum)
			return false;
	}
	buf_printf(why, "'%s' of keys like %s: ", option, o->pattern);
	config_print(table_find(SECTION_LOCK, option), was, why);
	buf_printf(why, " in [lock %s] -> ", was->section.name);
	config_print(table_find(SECTION_LOCK, option), will, why);
	buf_printf(why, " in [lock %s]", will->section.name);
	return true;
}

static bool ownership_patterns_change(struct ownership *o, const struct config *c,
                                      struct buf *why)
{
	for (size_t i = 0; i < c->nrules; i++) {
		const struct strings *patterns = &c->rules[i]->section.patterns;

		for (size_t j = 0; j < patterns->n; j++) {
			o->pattern = patterns->v[j];
			buf_clear(&o->key);
			if (pattern_example(o->pattern, &o->key) &&
			    ownership_rule_changes(o, why))
				return true;
		}
	}
	return false;
}

static bool ownership_rules_change(const struct config *running, const struct config *next,
                                   struct buf *why)
{
	struct ownership o = { match_new(running), match_new(next), NULL, BUF_INIT };
	bool changes = ownership_patterns_change(&o, running, why) ||
	               ownership_patterns_change(&o, next, why);

	match_free(o.running);
	match_free(o.next);
	buf_release(&o.key);
	return changes;
}

/* --- [verbs], [quorum NAME] --------------------------------------------------------------- */

/* `reentrant` does not count, because UNLOCK finds the layout of a lock in Redis. */
static bool ownership_verbs_change(const struct verbs *was, const struct verbs *will,
                                   struct buf *why)
{
	return was->enabled && will->enabled &&
	       config_print_change(table_find(SECTION_VERBS, "owner"), was, will, why);
}

static bool ownership_verbs_move(const struct verbs *was, const struct verbs *will,
                                 struct buf *why)
{
	return was->enabled && will->enabled && !was->quorum != !will->quorum &&
	       config_print_change(table_find(SECTION_VERBS, "quorum"), was, will, why);
}

static bool ownership_servers_change(const struct quorum_settings *was,
                                     const struct quorum_settings *will, struct buf *why)
{
	return was && will &&
	       config_print_change(table_find(SECTION_QUORUM, "servers"), was, will, why);
}

bool ownership_changes(const struct config *running, const struct config *next, struct buf *why)
{
	return ownership_rules_change(running, next, why) ||
	       ownership_verbs_change(&running->verbs, &next->verbs, why);
}

bool ownership_moves(const struct config *first, const struct config *running,
                     const struct config *next, struct buf *why)
{
	return ownership_servers_change(config_quorum(first), config_quorum(next), why) ||
	       ownership_verbs_move(&first->verbs, &next->verbs, why) ||
	       ownership_verbs_move(&running->verbs, &next->verbs, why);
}
