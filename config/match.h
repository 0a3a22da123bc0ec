/* SPDX-License-Identifier: BSD-3-Clause
 *
 * match: finds the rule or guard of a key, and the effect of a command on a guard.
 *
 *   key --> match_possible(): its first byte --> all patterns at once: the first that matches
 */
#ifndef HASP_CONFIG_MATCH_H
#define HASP_CONFIG_MATCH_H

#include <stdbool.h>
#include <string.h>

#include "base/slice.h"
#include "config/types.h"

/* Completes c->patterns. Call it once, when all sections are read. */
void match_prepare(struct config *c);

/* hasp's own keys, such as owner records and queues, begin with this prefix. They have neither
 * rule nor guard. */
#define MATCH_OWN_PREFIX "hasp:"
static inline bool match_is_own(struct slice key)
{
	size_t n = sizeof(MATCH_OWN_PREFIX) - 1;

	return key.n >= n && *key.p == *MATCH_OWN_PREFIX &&
	       memcmp(key.p, MATCH_OWN_PREFIX, n) == 0;
}

/* Finds the rules and guards of `c`, which must exist during each search. A search may change
 * the matcher (base/glob_dfa.h), so each worker has its own. */
struct matcher;
struct matcher *match_new(const struct config *c);
void match_free(struct matcher *m); /* NULL is allowed; the configuration may be gone */

/* Returns the first rule with a pattern that matches `key`; NULL: none. */
const struct rule *match_rule(struct matcher *m, struct slice key);

/* Returns the first guard that matches `key`; NULL: none, or the key has a rule. */
const struct guard *match_guard(struct matcher *m, struct slice key);

/* Finds the first section that matches `key`: sets *rule or *guard, and the other one to NULL;
 * both to NULL if no section matches. */
void match_section(struct matcher *m, struct slice key, const struct rule **rule,
                   const struct guard **guard);

/* Like match_rule() and match_guard(), but also NULL if the section only observes. */
const struct rule *match_enforced_rule(struct matcher *m, struct slice key);
const struct guard *match_enforced_guard(struct matcher *m, struct slice key);

/* Flags for the first byte of a key: the key may have a rule, may have a guard, or may be
 * hasp's own. */
enum match_flag { MATCH_RULE = 1 << 0, MATCH_GUARD = 1 << 1, MATCH_MAY_BE_OWN = 1 << 2 };
static inline unsigned match_possible(const struct config *c, struct slice key)
{
	return key.n ? c->may_match[(unsigned char)*key.p] : MATCH_RULE | MATCH_GUARD;
}

/* True if the command `name`, in upper or lower case, acquires the guard. */
bool match_acquires(const struct guard *g, struct slice name);
/* True if the guard is released when the command `name` writes. */
bool match_releases(const struct guard *g, struct slice name);

#endif
