/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/glob_set.h"
#include "config/config_internal.h"
#include "config/sections.h"

#define FAILOVER_WAIT_MS 10000

static void config_free(struct config *c)
{
	if (c->renews) {
		config_unref(c->renews);
		free(c->upstream_password);
		free(c);
		return;
	}
	for (enum section kind = 0; kind < SECTION_NONE; kind++)
		if (!sections_are_named(kind))
			table_clear(kind, sections_base(c, kind));
	sections_clear(c);
	glob_set_free(c->patterns);
	sources_clear(&c->sources);
	if (c->encryption)
		c->free_encryption(c->encryption);
	free(c);
}

struct config *config_with_password(struct config *c, char *password)
{
	struct config *copy = xmalloc(sizeof(*copy));

	/* Leave out `refs`, the last field, which other threads write. */
	memcpy(copy, c, offsetof(struct config, refs));
	atomic_init(&copy->refs, 1);
	copy->renews = config_ref(c->renews ? c->renews : c);
	copy->upstream_password = password;
	return copy;
}

const char *config_name(const struct config *c)
{
	return c->sources.n ? sources_path(&c->sources, 0) : "defaults";
}

struct config *config_ref(struct config *c)
{
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

void config_unref(struct config *c)
{
	if (!c)
		return;
	/* The thread that frees must see all earlier accesses of other threads. */
	int before = atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel);
	HASP_ASSERT(before > 0);
	if (before == 1)
		config_free(c);
}

void config_print(const struct option *o, const void *base, struct buf *out)
{
	size_t before = buf_len(out);

	if (base)
		option_print(o, base, out);
	if (buf_len(out) == before)
		buf_puts(out, "none");
}

/* True if the rule's locks belong to a quorum. */
static bool config_asks_quorum(const struct rule *rule)
{
	return rule->mode == MODE_ENFORCE && rule->quorum;
}

const struct quorum_settings *config_quorum(const struct config *c)
{
	const char *name = c->verbs.enabled ? c->verbs.quorum : NULL;
	const struct named_section *s;

	for (size_t i = 0; i < c->nrules && !name; i++)
		if (config_asks_quorum(c->rules[i]))
			name = c->rules[i]->quorum;
	s = name ? sections_find(c, SECTION_QUORUM, name) : NULL;
	return s ? c->quorums[s->index] : NULL;
}

/* Returns the longest lease of a lock of config_quorum(), in ms; 0: there is no quorum. */
static int64_t config_quorum_max_lease_ms(const struct config *c)
{
	int64_t most = c->verbs.enabled && c->verbs.quorum ? c->verbs.max_lease_ms : 0;

	for (size_t i = 0; i < c->nrules; i++)
		if (config_asks_quorum(c->rules[i]) && c->rules[i]->max_lease_ms > most)
			most = c->rules[i]->max_lease_ms;
	return most;
}

/* Sets the options whose defaults depend on other options. */
static void config_set_defaults(struct config *c)
{
	/* Clients wait only where another primary may take over. */
	if (c->failover_wait_ms < 0)
		c->failover_wait_ms = c->master || c->cluster.n ? FAILOVER_WAIT_MS : 0;
	for (size_t i = 0; i < c->nquorums; i++)
		if (c->quorums[i]->restart_delay_ms < 0)
			c->quorums[i]->restart_delay_ms = config_quorum_max_lease_ms(c);
}

struct config *config_load(const char *path, struct buf *faults, struct buf *warnings)
{
	struct config *c = xcalloc(1, sizeof(*c));

	atomic_init(&c->refs, 1);
	for (enum section kind = 0; kind < SECTION_NONE; kind++)
		if (!sections_are_named(kind))
			table_set_defaults(kind, sections_base(c, kind));
	if (path && load_files(c, path, faults, warnings) > 0) {
		config_free(c);
		return NULL;
	}
	sections_inherit(c);
	config_set_defaults(c);
	return c;
}

int64_t config_links_of_worker(const struct config *c)
{
	int64_t part = c->links_max / c->workers;

	return part == 0 && c->links_max ? 1 : part;
}

/* Returns the struct that has the option, which is not in [lock NAME] or [guard NAME]; NULL:
 * there is no quorum. */
static const void *config_base(const struct config *c, const struct option *o)
{
	return o->section == SECTION_QUORUM ? (const void *)config_quorum(c)
	                                    : sections_base((struct config *)c, o->section);
}

bool config_print_change(const struct option *o, const void *was, const void *will,
                         struct buf *out)
{
	if (was && will ? option_is_same(o, was, will) : was == will)
		return false;
	buf_printf(out, "'%s' in %s: ", o->name, table_section_title(o->section));
	config_print(o, was, out);
	buf_puts(out, " -> ");
	config_print(o, will, out);
	return true;
}

/* True for an option that keeps its value until a restart. Reloads may change the rules and
 * guards. A worker stays connected to the quorum that its first configuration named. */
static bool config_keeps_option(const struct option *o)
{
	/* A reload may add or remove [verbs]; see ownership_changes(). */
	return !o->reloadable && o->section != SECTION_LOCK && o->section != SECTION_GUARD &&
	       o != table_find(SECTION_VERBS, "owner");
}

void config_needs_restart(const struct config *running, const struct config *next,
                          struct buf *out)
{
	for (size_t i = 0; i < table_noptions; i++) {
		const struct option *o = &table_options[i];

		if (config_keeps_option(o) &&
		    config_print_change(o, config_base(running, o), config_base(next, o), out))
			buf_puts(out, "\n");
	}
}

/* Copies the options that need a restart from one struct of the section to another. */
static void config_keep_section(enum section section, void *next, const void *running)
{
	for (const struct option *o = NULL; (o = table_next(section, o));)
		if (config_keeps_option(o))
			option_copy(o, next, o, running);
}

void config_keep(struct config *next, const struct config *running)
{
	const struct named_section *s, *was;

	for (enum section kind = 0; kind < SECTION_NONE; kind++)
		if (!sections_are_named(kind))
			config_keep_section(kind, sections_base(next, kind),
			                    sections_base((struct config *)running, kind));
	for (size_t i = 0; (s = sections_at(next, SECTION_QUORUM, i)); i++)
		if ((was = sections_find(running, SECTION_QUORUM, s->name)))
			config_keep_section(SECTION_QUORUM, next->quorums[i], was);
}

/* Calls `fn` for the options of the section called `name`, whose values are in `base`. */
static void each_option(enum section section, const char *name, const void *base,
                        config_option_fn *fn, void *arg)
{
	for (const struct option *o = NULL; (o = table_next(section, o));)
		fn(arg, name, o, base);
}

static void each_named_option(const struct config *c, enum section section,
                              config_option_fn *fn, void *arg)
{
	const struct named_section *s;
	struct buf name = BUF_INIT;

	for (size_t i = 0; (s = sections_at(c, section, i)); i++) {
		buf_clear(&name);
		buf_printf(&name, "%s %s%c", table_section_word(section), s->name, '\0');
		each_option(section, buf_head(&name), s, fn, arg);
	}
	buf_release(&name);
}

void config_each_option(const struct config *c, config_option_fn *fn, void *arg)
{
	const bool is_there[] = {
		[SECTION_HASP] = true,
		[SECTION_UPSTREAM] = true,
		[SECTION_VERBS] = c->verbs.enabled,
		[SECTION_DISCOVER] = c->discover,
		[SECTION_HTTP] = c->http_listen != NULL,
		[SECTION_ADMIN] = c->admin_listen.n > 0,
	};

	for (enum section kind = 0; kind < SECTION_NONE; kind++)
		if (sections_are_named(kind))
			each_named_option(c, kind, fn, arg);
		else if (is_there[kind])
			each_option(kind, table_section_word(kind),
			            sections_base((struct config *)c, kind), fn, arg);
}
