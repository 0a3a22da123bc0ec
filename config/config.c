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
	return c;
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

static void config_print(const struct option *o, const struct config *c, struct buf *out)
{
	option_print(o, sections_base((struct config *)c, o->section), out);
	if (buf_len(out) == 0)
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

int64_t config_quorum_max_lease_ms(const struct config *c)
{
	int64_t most = c->verbs.enabled && c->verbs.quorum ? c->verbs.max_lease_ms : 0;

	for (size_t i = 0; i < c->nrules; i++)
		if (config_asks_quorum(c->rules[i]) && c->rules[i]->max_lease_ms > most)
			most = c->rules[i]->max_lease_ms;
	return most;
}

int64_t config_failover_wait_ms(const struct config *c)
{
	if (c->failover_wait_ms >= 0)
		return c->failover_wait_ms;
	return c->master || c->cluster.n ? FAILOVER_WAIT_MS : 0;
}

int64_t config_links_of_worker(const struct config *c)
{
	return (c->links_max + c->workers - 1) / c->workers;
}

/* Prints, in one line, the settings of the quorum of `c` that no reload can change. Prints
 * nothing if `c` has no quorum. */
static void config_print_quorum(const struct config *c, struct buf *out)
{
	const struct quorum_settings *q = config_quorum(c);

	for (size_t i = 0; q && i < table_noptions; i++) {
		const struct option *o = &table_options[i];

		if (o->section != SECTION_QUORUM || o->reloadable)
			continue;
		buf_printf(out, "%s=", o->name);
		option_print(o, q, out);
		buf_puts(out, " ");
	}
}

/* Reports changes of the quorum, because a worker stays connected to the servers that its first
 * configuration named. Returns 1 if the quorum has changed, else 0. */
static size_t config_quorum_needs_restart(const struct config *running,
                                          const struct config *next, struct buf *out)
{
	struct buf was = BUF_INIT, will = BUF_INIT;
	bool differs;

	config_print_quorum(running, &was);
	config_print_quorum(next, &will);
	differs = !slice_eq(buf_slice(&was), buf_slice(&will));
	if (differs)
		buf_puts(out, "options of [quorum NAME] other than tls\n");
	buf_release(&was);
	buf_release(&will);
	return differs;
}

size_t config_needs_restart(const struct config *running, const struct config *next,
                            struct buf *out)
{
	struct buf was = BUF_INIT, will = BUF_INIT;
	size_t n = config_quorum_needs_restart(running, next, out);

	for (size_t i = 0; i < table_noptions; i++) {
		const struct option *o = &table_options[i];

		/* A reload may change rules and guards; for quorums, see
		 * config_quorum_needs_restart(). */
		if (o->reloadable || sections_are_named(o->section))
			continue;
		/* A reload may add or remove [verbs]; see ownership_changes(). */
		if (o == table_find(SECTION_VERBS, "owner"))
			continue;
		buf_clear(&was);
		buf_clear(&will);
		config_print(o, running, &was);
		config_print(o, next, &will);
		if (slice_eq(buf_slice(&was), buf_slice(&will)))
			continue;
		buf_printf(out, "'%s' in %s: %.*s -> %.*s\n", o->name,
		           table_section_title(o->section), (int)buf_len(&was), buf_head(&was),
		           (int)buf_len(&will), buf_head(&will));
		n++;
	}
	buf_release(&was);
	buf_release(&will);
	return n;
}

/* Calls `fn` for the options of the section called `name`, whose values are in `base`. */
static void each_option(enum section section, const char *name, const void *base,
                        config_option_fn *fn, void *arg)
{
	for (size_t i = 0; i < table_noptions; i++) {
		if (table_options[i].section == section)
			fn(arg, name, &table_options[i], base);
	}
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
