/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/guards.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fatal.h"
#include "config/config.h"
#include "config/table.h"
#include "config/pattern.h"

struct guard *guards_add(struct config *c, const char *name, int line)
{
	struct guard *guard = xcalloc(1, sizeof(*guard));

	table_set_defaults(SECTION_GUARD, guard);
	guard->name = xstrdup(name);
	guard->line = line;
	guard->index = c->nguards;
	c->guards = xrealloc(c->guards, (c->nguards + 1) * sizeof(struct guard *));
	c->guards[c->nguards++] = guard;
	return guard;
}

const struct guard *guards_find(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->nguards; i++) {
		if (strcmp(c->guards[i]->name, name) == 0)
			return c->guards[i];
	}
	return NULL;
}

void guards_free(struct config *c)
{
	for (size_t i = 0; i < c->nguards; i++) {
		table_clear(SECTION_GUARD, c->guards[i]);
		free(c->guards[i]->name);
		free(c->guards[i]);
	}
	free(c->guards);
	c->guards = NULL;
	c->nguards = 0;
}

const struct guard *config_guard_for(const struct config *c, struct slice key)
{
	if (!(config_concerns(c, key) & CONCERNS_GUARD) || pattern_is_own(key))
		return NULL;
	for (size_t i = 0; i < c->nguards; i++) {
		if (patterns_match(&c->guards[i]->patterns, key))
			return config_rule_for(c, key) ? NULL : c->guards[i];
	}
	return NULL;
}

static bool has_command(const struct strings *list, struct slice name)
{
	for (size_t i = 0; i < list->n; i++) {
		if (slice_is_alike(name, strings_at(list, i)))
			return true;
	}
	return false;
}

bool guard_acquires_on(const struct guard *g, struct slice name)
{
	return has_command(&g->acquire_on, name);
}

bool guard_releases_on(const struct guard *g, struct slice name)
{
	if (g->release_on.n > 0)
		return has_command(&g->release_on, name);
	return !has_command(&g->acquire_on, name);
}

/* ---- what is checked when the whole file is read ---- */

static const char *earlier_guard(const struct config *c, const struct guard *g,
                                 const char *pattern)
{
	for (size_t i = 0; i < g->index; i++) {
		if (patterns_shadow(&c->guards[i]->patterns, pattern))
			return c->guards[i]->name;
	}
	return NULL;
}

/* Wherever in the file it stands. */
static const struct rule *shadowing_rule(const struct config *c, const char *pattern)
{
	for (size_t i = 0; i < c->nrules; i++) {
		if (patterns_shadow(&c->rules[i]->patterns, pattern))
			return c->rules[i];
	}
	return NULL;
}

static void doubt_patterns(const struct config *c, const struct guard *g, struct buf *warnings)
{
	struct buf why = BUF_INIT;

	for (size_t i = 0; i < g->patterns.n; i++) {
		const char *pattern = g->patterns.v[i];
		const struct rule *rule = shadowing_rule(c, pattern);

		buf_clear(&why);
		if (rule)
			buf_printf(&why,
			           "pattern '%s' of [guard %s] never applies, since [lock %s] "
			           "catches the same keys, and locks are not guarded; remove "
			           "one of the two",
			           pattern, g->name, rule->name);
		else if (!pattern_doubt(pattern, SECTION_GUARD, g->name,
		                        earlier_guard(c, g, pattern), &why))
			continue;
		buf_printf(warnings, "%s:%d: %.*s\n", c->path, g->patterns.lines[i],
		           (int)buf_len(&why), buf_head(&why));
	}
	buf_release(&why);
}

static void doubt_twins(const struct config *c, const struct guard *g, const char *option,
                        const struct strings *list, struct buf *warnings)
{
	for (size_t i = 1; i < list->n; i++) {
		for (size_t j = 0; j < i; j++) {
			if (strcasecmp(list->v[i], list->v[j]) != 0)
				continue;
			buf_printf(warnings,
			           "%s:%d: '%s' stands twice in '%s' of [guard %s]; remove "
			           "one\n",
			           c->path, list->lines[i], list->v[i], option, g->name);
			break;
		}
	}
}

static bool listens_on(const struct config *c, const char *address)
{
	for (size_t i = 0; i < c->listen.n; i++) {
		if (strcmp(c->listen.v[i], address) == 0)
			return true;
	}
	return false;
}

static size_t check_listeners(const struct config *c, const struct guard *g, struct buf *faults)
{
	static const char prefix[] = "listener:";
	size_t n = 0;

	for (size_t i = 0; i < g->except.n; i++) {
		const char *word = g->except.v[i];

		if (strncmp(word, prefix, strlen(prefix)) != 0 ||
		    listens_on(c, word + strlen(prefix)))
			continue;
		buf_printf(faults,
		           "%s:%d: 'except' of [guard %s] has '%s', where hasp does not "
		           "listen; expected an address as in 'listen' of [hasp]",
		           c->path, g->except.lines[i], g->name, word);
		if (c->listen.n)
			buf_printf(faults, ", such as %s%s", prefix, c->listen.v[0]);
		buf_puts(faults, "\n");
		n++;
	}
	return n;
}

size_t guards_check(const struct config *c, bool listen_known, struct buf *faults,
                    struct buf *warnings)
{
	size_t n = 0;

	for (size_t i = 0; i < c->nguards; i++) {
		const struct guard *g = c->guards[i];

		doubt_patterns(c, g, warnings);
		doubt_twins(c, g, "acquire_on", &g->acquire_on, warnings);
		doubt_twins(c, g, "release_on", &g->release_on, warnings);
		if (listen_known)
			n += check_listeners(c, g, faults);
	}
	return n;
}
