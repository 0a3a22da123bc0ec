/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/glob.h"
#include "config/options.h"

/* Sidecars, queues and counters: a rule that caught them would lock locks. */
static const struct slice own_prefix = { "hasp:", 5 };

struct rule *rules_add(struct config *c, const char *name, int line)
{
	struct rule *rule = xcalloc(1, sizeof(*rule));

	options_default(SECTION_LOCK, rule);
	rule->name = xstrdup(name);
	rule->line = line;
	rule->index = c->nrules;
	c->rules = xrealloc(c->rules, (c->nrules + 1) * sizeof(struct rule *));
	c->rules[c->nrules++] = rule;
	return rule;
}

const struct rule *rules_find(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->nrules; i++) {
		if (strcmp(c->rules[i]->name, name) == 0)
			return c->rules[i];
	}
	return NULL;
}

void rules_free(struct config *c)
{
	for (size_t i = 0; i < c->nrules; i++) {
		options_free(SECTION_LOCK, c->rules[i]);
		free(c->rules[i]->name);
		free(c->rules[i]);
	}
	free(c->rules);
	c->rules = NULL;
	c->nrules = 0;
}

const struct rule *config_rule_for(const struct config *c, struct slice key)
{
	if (slice_starts(key, own_prefix))
		return NULL;
	for (size_t i = 0; i < c->nrules; i++) {
		const struct strings *patterns = &c->rules[i]->patterns;

		for (size_t j = 0; j < patterns->n; j++) {
			if (glob_match(slice_str(patterns->v[j]), key))
				return c->rules[i];
		}
	}
	return NULL;
}

/* Only stars and question marks: keys match by their length alone. */
static bool catches_all(const char *pattern)
{
	return strchr(pattern, '*') && strspn(pattern, "*?") == strlen(pattern);
}

/* No key is left to `later` by `earlier`, as far as can be told at a glance. */
static bool shadows(const char *earlier, const char *later)
{
	struct slice e = slice_str(earlier), l = slice_str(later);

	if (slice_eq(e, l) || strcmp(earlier, "*") == 0)
		return true;
	return glob_is_literal(l) && glob_match(e, l);
}

static const struct rule *shadowing_rule(const struct config *c, const char *pattern)
{
	for (size_t i = 0; i + 1 < c->nrules; i++) {
		const struct strings *earlier = &c->rules[i]->patterns;

		for (size_t j = 0; j < earlier->n; j++) {
			if (shadows(earlier->v[j], pattern))
				return c->rules[i];
		}
	}
	return NULL;
}

bool rules_doubt(const struct config *c, size_t i, struct buf *out)
{
	HASP_ASSERT(c->nrules > 0);
	const struct rule *rule = c->rules[c->nrules - 1];
	const char *pattern = rule->patterns.v[i];
	const struct rule *earlier = shadowing_rule(c, pattern);

	if (earlier) {
		buf_printf(out,
		           "pattern '%s' of [lock %s] never applies, since the earlier "
		           "[lock %s] catches the same keys; remove it or move it up",
		           pattern, rule->name, earlier->name);
	} else if (catches_all(pattern)) {
		buf_printf(out,
		           "pattern '%s' of [lock %s] makes a lock of every key; name "
		           "those that are locks, such as lock:*",
		           pattern, rule->name);
	} else if (slice_starts(slice_str(pattern), own_prefix)) {
		buf_printf(out,
		           "pattern '%s' of [lock %s] never applies, since keys that "
		           "begin with 'hasp:' are hasp's own",
		           pattern, rule->name);
	} else {
		return false;
	}
	return true;
}
