/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/load.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fatal.h"
#include "config/config.h"
#include "config/guards.h"
#include "config/table.h"
#include "config/pattern.h"
#include "config/reader.h"
#include "config/rules.h"
#include "config/suggest.h"
#include "config/value.h"

/* For `%.*s`. */
#define BUF_ARG(b) (int)buf_len(b), buf_len(b) ? buf_head(b) : ""

/* Where an option stood; one for each in the table. */
struct seen {
	int line; /* 0: nowhere yet */
	bool bad; /* its value had a fault, so that nothing can be said about it */
};

struct loader {
	struct config *c;
	struct buf *faults, *warnings;
	size_t nfaults;
	enum section section;
	char title[READER_NAME_MAX + 1];
	int section_line;
	void *base; /* the struct that the section's options are kept in */
	int first_line[SECTION_NONE]; /* of the sections that may stand once */
	struct seen *seen; /* of the section; a rule's and a guard's begin anew */
	bool listen_bad; /* 'listen' had a fault */
};

static void fault(struct loader *l, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void fault(struct loader *l, int line, const char *fmt, ...)
{
	char text[512]; /* values and names are no longer than a line */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	buf_printf(l->faults, "%s:%d: %s\n", l->c->path, line, text);
	l->nfaults++;
}

static struct seen *seen(const struct loader *l, const struct option *o)
{
	return &l->seen[o - table_options];
}

/* By name, of the section being read. */
static const struct seen *seen_name(const struct loader *l, const char *name)
{
	const struct option *o = table_find(l->section, name);

	HASP_ASSERT(o);
	return seen(l, o);
}

/* A list may begin in the line below its name, so only the section's end tells
 * whether it is empty. */
static void check_presence(struct loader *l)
{
	struct buf expected = BUF_INIT;

	for (size_t i = 0; i < table_noptions; i++) {
		const struct option *o = &table_options[i];
		const struct seen *at = &l->seen[i];
		const struct strings *list;

		if (o->section != l->section || o->type != OPTION_LIST || at->bad)
			continue;
		list = option_list(o, l->base);
		if (list->n > 0 || (at->line == 0 && !o->required))
			continue;
		buf_clear(&expected);
		option_print_expected(o, &expected);
		if (at->line)
			fault(l, at->line, "'%s' has no value; expected %.*s", o->name,
			      BUF_ARG(&expected));
		else
			fault(l, l->section_line, "[%s] has no '%s'; expected %.*s", l->title,
			      o->name, BUF_ARG(&expected));
	}
	buf_release(&expected);
}

static void check_leases(struct loader *l, int64_t lease_ms, int64_t max_lease_ms)
{
	const struct seen *lease = seen_name(l, "lease");
	const struct seen *max_lease = seen_name(l, "max_lease");
	struct buf b = BUF_INIT;

	if (max_lease_ms == 0 || max_lease_ms >= lease_ms || lease->bad || max_lease->bad)
		return;
	value_print_duration(&b, lease_ms);
	fault(l, max_lease->line,
	      "'max_lease' of [%s] is less than its 'lease'; expected %.*s or more, or 0 "
	      "for no limit",
	      l->title, BUF_ARG(&b));
	buf_release(&b);
}

/* Redis ignores the case of command names. */
static void check_verb_names(struct loader *l, const struct verbs *verbs)
{
	static const char *const options[] = { "lock", "unlock", "extend", "info" };
	const char *const names[] = { verbs->lock, verbs->unlock, verbs->extend, verbs->info };

	for (size_t i = 1; i < sizeof(names) / sizeof(names[0]); i++) {
		for (size_t j = 0; j < i; j++) {
			int line = seen_name(l, options[i])->line;

			if (strcasecmp(names[i], names[j]) != 0)
				continue;
			if (line == 0)
				line = seen_name(l, options[j])->line;
			fault(l, line, "'%s' and '%s' are both '%s'; expected a name for each",
			      options[j], options[i], names[i]);
		}
	}
}

static void check_upstream_user(struct loader *l)
{
	const struct seen *user = seen_name(l, "user");

	if (user->line && !user->bad && seen_name(l, "password")->line == 0)
		fault(l, user->line,
		      "'user' of [upstream] has no 'password'; expected one "
		      "beside it, or neither, or a password alone");
}

/* The second one could not be listened at. Of port 0 there may be many. */
static void check_listeners(struct loader *l)
{
	const struct strings *list = &l->c->listen;

	for (size_t i = 1; i < list->n; i++) {
		size_t n = list->lengths[i], j = 0;

		if (n > 2 && strcmp(list->v[i] + n - 2, ":0") == 0)
			continue;
		while (j < i && strcmp(list->v[i], list->v[j]) != 0)
			j++;
		if (j < i)
			fault(l, list->lines[i],
			      "'listen' has '%s' twice; expected each address once",
			      list->v[i]);
	}
}

static void end_section(struct loader *l)
{
	const struct rule *rule = l->base;
	const struct verbs *verbs = l->base;

	if (l->section == SECTION_NONE)
		return;
	check_presence(l);
	switch (l->section) {
	case SECTION_HASP:
		l->listen_bad |= seen_name(l, "listen")->bad;
		check_listeners(l);
		break;
	case SECTION_UPSTREAM:
		check_upstream_user(l);
		break;
	case SECTION_LOCK:
		check_leases(l, rule->lease_ms, rule->max_lease_ms);
		break;
	case SECTION_VERBS:
		check_leases(l, verbs->lease_ms, verbs->max_lease_ms);
		check_verb_names(l, verbs);
		break;
	default:
		break;
	}
	l->section = SECTION_NONE;
}

/* Of a kind of which there may be many. `twin` is the line of one with the same name, 0: there
 * is none. */
static void begin_named(struct loader *l, int line, enum section section, const char *name,
                        int twin)
{
	const char *what = value_word_fault(name);
	const char *kind = section == SECTION_LOCK ? "rule" : "guard";

	if (*name == '\0')
		fault(l, line, "a %s has no name; expected %s", kind,
		      table_section_title(section));
	else if (what)
		fault(l, line, "a %s's name is '%s'; expected %s", kind, name, what);
	if (twin)
		fault(l, line,
		      "duplicate section [%s], which stands in line %d too; "
		      "expected another name",
		      l->title, twin);
	l->section = section;
	memset(l->seen, 0, table_noptions * sizeof(*l->seen));
}

static void begin_rule(struct loader *l, int line, const char *name)
{
	const struct rule *twin = rules_find(l->c, name);

	begin_named(l, line, SECTION_LOCK, name, twin ? twin->line : 0);
	l->base = rules_add(l->c, name, line);
}

static void begin_guard(struct loader *l, int line, const char *name)
{
	const struct guard *twin = guards_find(l->c, name);

	begin_named(l, line, SECTION_GUARD, name, twin ? twin->line : 0);
	l->base = guards_add(l->c, name, line);
}

static void begin_only(struct loader *l, int line, enum section section, void *base)
{
	int first = l->first_line[section];

	if (first)
		fault(l, line,
		      "duplicate section %s, which begins in line %d; expected all "
		      "of it there",
		      table_section_title(section), first);
	else
		l->first_line[section] = line;
	l->section = section;
	l->base = base;
}

/* The NAME of a title such as "lock NAME", maybe empty; NULL: it is of another kind. */
static const char *name_after(const char *title, const char *kind)
{
	size_t n = strlen(kind);

	if (strncmp(title, kind, n) != 0 || !strchr(" \t", title[n]))
		return NULL;
	return title + n + strspn(title + n, " \t");
}

static void on_section(void *arg, int line, const char *title)
{
	struct loader *l = arg;
	const char *rule = name_after(title, "lock"), *guard = name_after(title, "guard");
	struct buf hint = BUF_INIT;

	end_section(l);
	snprintf(l->title, sizeof(l->title), "%s", title);
	l->section_line = line;
	if (strcmp(title, "hasp") == 0) {
		begin_only(l, line, SECTION_HASP, l->c);
	} else if (strcmp(title, "upstream") == 0) {
		begin_only(l, line, SECTION_UPSTREAM, l->c);
	} else if (strcmp(title, "verbs") == 0) {
		begin_only(l, line, SECTION_VERBS, &l->c->verbs);
		l->c->verbs.enabled = true;
		l->c->verbs.line = line;
	} else if (rule) {
		begin_rule(l, line, rule);
	} else if (guard) {
		begin_guard(l, line, guard);
	} else {
		suggest_section(title, &hint);
		fault(l, line, "unknown section [%s]%.*s", title, BUF_ARG(&hint));
		buf_release(&hint);
		l->base = NULL;
	}
}

/* `  lease = 30s` below a pattern: somebody indents options, and would get three
 * patterns. */
static bool looks_like_option(const struct loader *l, const char *value)
{
	size_t name = strcspn(value, " \t=");
	size_t blank = strspn(value + name, " \t");
	char word[READER_NAME_MAX + 1];

	if (value[name + blank] != '=' || name >= sizeof(word))
		return false;
	memcpy(word, value, name);
	word[name] = '\0';
	return blank > 0 || table_find(l->section, word);
}

/* Says what is wrong with another line for the option; false: nothing. */
static bool repeats_wrongly(struct loader *l, const struct option *o, int line,
                            const char *value, bool continued)
{
	const struct seen *at = seen(l, o);

	if (!continued && at->line) {
		fault(l, line,
		      "duplicate option '%s' in [%s], which stands in line %d too; "
		      "expected it once",
		      o->name, l->title, at->line);
		return true;
	}
	if (!continued)
		return false;
	if (o->type != OPTION_LIST)
		fault(l, line,
		      "an indented line goes on with the list above it, and '%s' is "
		      "none; begin in the first column",
		      o->name);
	else if (value && looks_like_option(l, value))
		fault(l, line,
		      "an indented line goes on with '%s' above it; for another "
		      "option begin in the first column",
		      o->name);
	else
		return false;
	return true;
}

static void doubt_patterns(struct loader *l, int line, size_t from, size_t to)
{
	struct buf why = BUF_INIT;

	for (size_t i = from; i < to; i++) {
		buf_clear(&why);
		if (rules_doubt(l->c, i, &why))
			buf_printf(l->warnings, "%s:%d: %.*s\n", l->c->path, line,
			           BUF_ARG(&why));
	}
	buf_release(&why);
}

static void set(struct loader *l, const struct option *o, int line, const char *value,
                bool continued)
{
	const struct rule *rule = l->section == SECTION_LOCK ? l->base : NULL;
	size_t npatterns = rule && continued ? rule->patterns.n : 0;
	struct buf why = BUF_INIT;

	if (option_set(o, l->base, value, line, continued, &why) < 0) {
		seen(l, o)->bad = true;
		fault(l, line, "%.*s", BUF_ARG(&why));
	} else if (rule && o->type == OPTION_LIST) {
		doubt_patterns(l, line, npatterns, rule->patterns.n);
	}
	buf_release(&why);
}

static void on_option(void *arg, int line, const char *name, const char *value, bool continued)
{
	struct loader *l = arg;
	const struct option *o;
	struct buf hint = BUF_INIT;

	if (l->section == SECTION_NONE) {
		if (l->section_line == 0 && !continued)
			fault(l, line,
			      "option '%s' before any section; expected [hasp] above "
			      "it",
			      name);
		return; /* the unknown section is fault enough */
	}
	o = table_find(l->section, name);
	if (!o) {
		if (continued)
			return;
		suggest_option(l->section, name, &hint);
		fault(l, line, "unknown option '%s' in [%s]%.*s", name, l->title,
		      BUF_ARG(&hint));
		buf_release(&hint);
		return;
	}
	if (repeats_wrongly(l, o, line, value, continued))
		return;
	if (!continued)
		seen(l, o)->line = line;
	if (value)
		set(l, o, line, value, continued);
	else
		seen(l, o)->bad = true;
}

static void on_fault(void *arg, int line, const char *what)
{
	fault(arg, line, "%s", what);
}

static void find_concerned(struct config *c)
{
	for (size_t i = 0; i < c->nrules; i++)
		patterns_first_bytes(&c->rules[i]->patterns, CONCERNS_RULE, c->concerns);
	for (size_t i = 0; i < c->nguards; i++)
		patterns_first_bytes(&c->guards[i]->patterns, CONCERNS_GUARD, c->concerns);
}

size_t load_file(struct config *c, struct buf *faults, struct buf *warnings)
{
	static const struct reader_events events = {
		.on_section = on_section,
		.on_option = on_option,
		.on_fault = on_fault,
	};
	struct loader l = {
		.c = c,
		.faults = faults,
		.warnings = warnings,
		.section = SECTION_NONE,
	};
	FILE *f = fopen(c->path, "re");

	if (!f) {
		fault(&l, 0, "cannot be opened: %s; give a readable file", strerror(errno));
		return l.nfaults;
	}
	l.seen = xcalloc(table_noptions, sizeof(*l.seen));
	reader_run(f, &events, &l);
	end_section(&l);
	find_concerned(c);
	l.nfaults += guards_check(c, !l.listen_bad, faults, warnings);
	fclose(f);
	free(l.seen);
	return l.nfaults;
}
