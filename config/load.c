/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/file.h"
#include "config/config.h"
#include "config/config_internal.h"
#include "config/match.h"
#include "config/sections.h"
#include "config/value.h"

struct loader {
	struct config *c;
	struct faults faults;
	int before; /* number of line 0 of the present file; see struct sources */
	int last; /* greatest number of a line so far */
	struct buf where; /* the text that load_where() returns */
	char title[READER_NAME_MAX + 1];
	struct checks_section section; /* the section that is read */
	int first_line[SECTION_NONE]; /* line of each section that may appear only once; 0: not
	                               * seen yet */
	bool listen_bad; /* 'listen' had a fault */
	int address_line; /* line of `address` in [upstream]; 0: it has none */
};

static struct checks_place *load_place(const struct loader *l, const struct option *o)
{
	return &l->section.places[o - table_options];
}

/* Returns where `line` is, as a text for a message about the line `seen_from`. The text is
 * valid until the next call. */
static const char *load_where(struct loader *l, int line, int seen_from)
{
	buf_clear(&l->where);
	sources_print_from(&l->c->sources, line, seen_from, &l->where);
	buf_append(&l->where, slice_of("", 1));
	return buf_head(&l->where);
}

/* Returns the number of a line of the present file, counted through all files. */
static int load_line(struct loader *l, int line)
{
	line += l->before;
	if (line > l->last)
		l->last = line;
	return line;
}

/* ---- a password in a file of its own ---- */

#define PASSWORD_FILE_MAX ((size_t)64 * 1024)

char *config_read_password(struct slice text, struct buf *why)
{
	struct slice line = text;

	(void)slice_cut(&text, '\n', &line);
	while (line.n > 0 && line.p[line.n - 1] == '\r')
		line.n--;
	if (line.n == 0)
		buf_puts(why, "has an empty first line; expected a password there");
	else if (memchr(line.p, '\0', line.n))
		buf_puts(why, "has a NUL byte in its first line; expected a password there");
	else
		return xmemdup(line.p, line.n);
	return NULL;
}

/* ---- sections ---- */

/* With a cluster, `address` is the first node in the list. */
static void load_upstream_address(struct loader *l)
{
	l->address_line = checks_place(&l->section, "address")->line;
	if (l->c->cluster.n == 0)
		return;
	free(l->c->address);
	l->c->address = xstrdup(l->c->cluster.v[0]);
}

/* Reads the password from `file`, the value of `option`, such as a credential of systemd or a
 * mounted secret of a container; NULL: none. */
static void load_password(struct loader *l, const char *option, const char *file,
                          char **password)
{
	int line = checks_place(&l->section, option)->line;
	struct buf text = BUF_INIT, why = BUF_INIT;

	/* If both are set, checks_not_both() has reported it: keep the ini file's password. */
	if (!file || *password)
		return;
	if (file_read(file, PASSWORD_FILE_MAX, false, &text, &why) == 0)
		*password = config_read_password(buf_slice(&text), &why);
	if (!*password)
		faults_add(&l->faults, line, "%s of '%s' %.*s", file, option, FAULTS_BUF(&why));
	buf_release(&text);
	buf_release(&why);
}

static void load_tls_lines(const struct loader *l, struct tls_lines *lines)
{
	lines->cert = checks_place(&l->section, "tls_cert_file")->line;
	lines->key = checks_place(&l->section, "tls_key_file")->line;
	lines->ca_cert = checks_place(&l->section, "tls_ca_cert_file")->line;
}

static void load_end_upstream(struct loader *l)
{
	struct config *c = l->c;

	load_upstream_address(l);
	c->upstream_tls.line = checks_place(&l->section, "tls")->line;
	load_tls_lines(l, &c->upstream_tls.files);
	c->password_command_line = checks_place(&l->section, "password_command")->line;
	load_password(l, "password_file", c->upstream_password_file, &c->upstream_password);
	load_password(l, "sentinel_password_file", c->sentinel_password_file,
	              &c->sentinel_password);
}

static void load_end_section(struct loader *l)
{
	struct quorum_settings *quorum = l->section.base;

	if (l->section.kind == SECTION_NONE)
		return;
	checks_on_section(&l->section, l->c, &l->faults);
	if (l->section.kind == SECTION_HASP) {
		l->listen_bad |= checks_place(&l->section, "listen")->bad;
		load_tls_lines(l, &l->c->tls_files);
	}
	if (l->section.kind == SECTION_UPSTREAM)
		load_end_upstream(l);
	if (l->section.kind == SECTION_HTTP)
		l->c->http_line = checks_place(&l->section, "listen")->line;
	if (l->section.kind == SECTION_ADMIN)
		load_password(l, "password_file", l->c->admin_password_file,
		              &l->c->admin_password);
	if (l->section.kind == SECTION_QUORUM) {
		quorum->tls.line = checks_place(&l->section, "tls")->line;
		load_tls_lines(l, &quorum->tls.files);
		load_password(l, "password_file", quorum->password_file, &quorum->password);
	}
	l->section.kind = SECTION_NONE;
}

/* Begins a section of a kind that may appear several times. */
static void load_named_section(struct loader *l, enum section kind, const char *name)
{
	const struct named_section *same = sections_find(l->c, kind, name);
	const char *what = value_word_fault(name);
	const char *word = kind == SECTION_LOCK ? "rule" : table_section_word(kind);
	int line = l->section.line;

	if (*name == '\0')
		faults_add(&l->faults, line, "a %s has no name; expected %s", word,
		           table_section_title(kind));
	else if (what)
		faults_add(&l->faults, line, "a %s's name is '%s'; expected %s", word, name,
		           what);
	if (same)
		faults_add(&l->faults, line,
		           "duplicate section [%s], which is also in %s; expected another name",
		           l->title, load_where(l, same->line, line));
	l->section.kind = kind;
	l->section.base = sections_add(l->c, kind, name, line);
	memset(l->section.places, 0, table_noptions * sizeof(*l->section.places));
}

/* Begins a section of a kind that may appear once. */
static void load_only_section(struct loader *l, enum section kind, void *base)
{
	int line = l->section.line, first = l->first_line[kind];

	if (first)
		faults_add(&l->faults, line,
		           "duplicate section %s, which begins in %s; move its options there",
		           table_section_title(kind), load_where(l, first, line));
	else
		l->first_line[kind] = line;
	l->section.kind = kind;
	l->section.base = base;
}

/* Returns the NAME in a title such as "lock NAME", maybe empty; NULL: a different kind. */
static const char *load_section_name(const char *title, enum section kind)
{
	const char *word = table_section_word(kind);
	size_t n = strlen(word);

	if (strncmp(title, word, n) != 0 || !strchr(" \t", title[n]))
		return NULL;
	return title + n + strspn(title + n, " \t");
}

/* Begins the section with this title. Returns false if there is no such section. */
static bool load_begin_section(struct loader *l, const char *title)
{
	for (enum section kind = 0; kind < SECTION_NONE; kind++) {
		const char *name = load_section_name(title, kind);

		if (sections_are_named(kind) && name) {
			load_named_section(l, kind, name);
			return true;
		}
		if (!sections_are_named(kind) && strcmp(title, table_section_word(kind)) == 0) {
			load_only_section(l, kind, sections_base(l->c, kind));
			return true;
		}
	}
	return false;
}

static void load_on_section(void *arg, int line, const char *title)
{
	struct loader *l = arg;
	struct buf hint = BUF_INIT;

	line = load_line(l, line);
	load_end_section(l);
	snprintf(l->title, sizeof(l->title), "%s", title);
	l->section.line = line;
	if (!load_begin_section(l, title)) {
		suggest_section(title, &hint);
		faults_add(&l->faults, line, "unknown section [%s]%.*s", title,
		           FAULTS_BUF(&hint));
		buf_release(&hint);
		l->section.base = NULL;
	}
	if (l->section.kind == SECTION_VERBS) {
		l->c->verbs.enabled = true;
		l->c->verbs.line = line;
	} else if (l->section.kind == SECTION_DISCOVER) {
		l->c->discover = true;
		l->c->discover_line = line;
	}
}

/* ---- options ---- */

/* True if the value of an indented line looks like an option, such as `lease = 30s`. Below a
 * pattern, hasp would read it as three patterns. */
static bool load_looks_like_option(const struct loader *l, const char *value)
{
	size_t name = strcspn(value, " \t=");
	size_t blank = strspn(value + name, " \t");
	char word[READER_NAME_MAX + 1];

	if (value[name + blank] != '=' || name >= sizeof(word))
		return false;
	memcpy(word, value, name);
	word[name] = '\0';
	return blank > 0 || table_find(l->section.kind, word);
}

/* Reports an option that is set for the second time, unless the line continues a list. Returns
 * false if there is no fault. */
static bool load_repeats_wrongly(struct loader *l, const struct option *o, int line,
                                 const char *value, bool continued)
{
	const struct checks_place *at = load_place(l, o);

	if (!continued && at->line) {
		faults_add(
			&l->faults, line,
			"duplicate option '%s' in [%s], which is also in %s; expected it once",
			o->name, l->title, load_where(l, at->line, line));
		return true;
	}
	if (!continued)
		return false;
	if (o->type != OPTION_LIST)
		faults_add(&l->faults, line,
		           "an indented line continues the list above it, but '%s' is not a "
		           "list; begin in the first column",
		           o->name);
	else if (value && load_looks_like_option(l, value))
		faults_add(&l->faults, line,
		           "an indented line continues '%s' above it; for another option begin "
		           "in the first column",
		           o->name);
	else
		return false;
	return true;
}

/* Warns about numbers without a unit, from 1000 on: they mean seconds, and the user may have
 * meant ms. Whole hours surely mean seconds. */
static void load_warn_of_unit(struct loader *l, const struct option *o, int line,
                              const char *value)
{
	struct buf b = BUF_INIT;
	int64_t n;

	if (o->type != OPTION_DURATION || value_int(value, &n) < 0 || n < 1000 || n % 3600 == 0)
		return;
	value_print_duration(&b, n);
	faults_warn(&l->faults, line,
	            "'%s' is '%s', and a number without a unit is in seconds; write %.*s for "
	            "milliseconds, else %ss",
	            o->name, value, FAULTS_BUF(&b), value);
	buf_release(&b);
}

static void load_set(struct loader *l, const struct option *o, int line, const char *value,
                     bool continued)
{
	struct buf why = BUF_INIT;

	if (option_set(o, l->section.base, value, line, continued, &why) < 0) {
		load_place(l, o)->bad = true;
		faults_add(&l->faults, line, "%.*s", FAULTS_BUF(&why));
	} else {
		load_warn_of_unit(l, o, line, value);
	}
	buf_release(&why);
}

/* Options that users may expect in a section that does not have them. */
static const struct {
	enum section section;
	const char *name, *why;
} load_none[] = {
	{ SECTION_GUARD, "owner",
	  "a guard belongs to the connection that read the key; remove the line, and if "
	  "another connection writes it, use LOCK ... AS or a [lock NAME]" },
	{ SECTION_HASP, "user",
	  "hasp runs as the user that starts it; remove the line, and name the user in User= "
	  "of systemd or command_user= of OpenRC, or start hasp by setpriv(1)" },
	{ SECTION_HASP, "pid_file",
	  "hasp stays in the foreground and writes no pid file; remove the line, and let "
	  "systemd, OpenRC or a container follow the process" },
};

static void load_unknown_option(struct loader *l, int line, const char *name)
{
	struct buf hint = BUF_INIT;
	char word[READER_NAME_MAX + 1];
	size_t n = strcspn(name, " \t");

	/* inih ends a name at the first '=' or ':'. Without a '=', this may be a ':' in the
	 * value: show only the first word, because the rest may be a password. */
	snprintf(word, sizeof(word), "%.*s", (int)n, name);
	if (name[n] && table_find(l->section.kind, word)) {
		faults_add(&l->faults, line,
		           "there is no '=' between '%s' and its value; expected '%s = ...'",
		           word, word);
		return;
	}
	for (size_t i = 0; i < sizeof(load_none) / sizeof(*load_none); i++) {
		if (l->section.kind != load_none[i].section ||
		    strcmp(name, load_none[i].name) != 0)
			continue;
		faults_add(&l->faults, line, "'%s' in [%s]: %s", name, l->title,
		           load_none[i].why);
		return;
	}
	suggest_option(l->section.kind, name, &hint);
	faults_add(&l->faults, line, "unknown option '%s' in [%s]%.*s", name, l->title,
	           FAULTS_BUF(&hint));
	buf_release(&hint);
}

static void load_on_option(void *arg, int line, const char *name, const char *value,
                           bool continued)
{
	struct loader *l = arg;
	const struct option *o;

	line = load_line(l, line);
	if (l->section.kind == SECTION_NONE) {
		if (l->section.line == 0 && !continued)
			faults_add(&l->faults, line,
			           "option '%s' before any section; expected [hasp] above "
			           "it",
			           name);
		return; /* hasp has reported the unknown section already */
	}
	o = table_find(l->section.kind, name);
	if (!o) {
		if (!continued)
			load_unknown_option(l, line, name);
		return;
	}
	if (load_repeats_wrongly(l, o, line, value, continued))
		return;
	if (!continued)
		load_place(l, o)->line = line;
	if (value)
		load_set(l, o, line, value, continued);
	else
		load_place(l, o)->bad = true;
}

/* ---- the file ---- */

#define FILE_MAX ((size_t)16 * 1024 * 1024)

static void load_on_fault(void *arg, int line, const char *what)
{
	struct loader *l = arg;

	faults_add(&l->faults, load_line(l, line), "%s", what);
}

/* Reads one file, as if its text followed the files read before. `line`: line of the
 * `include`; 0: the first file. */
static void load_file(struct loader *l, const char *path, int line)
{
	static const struct reader_events events = {
		.on_section = load_on_section,
		.on_option = load_on_option,
		.on_fault = load_on_fault,
	};
	struct buf text = BUF_INIT, why = BUF_INIT;
	int rc = file_read(path, FILE_MAX, line == 0, &text, &why);

	if (line)
		l->before = ++l->last;
	sources_add(&l->c->sources, path, l->before);
	if (rc < 0) {
		faults_add(&l->faults, l->before, "%.*s", FAULTS_BUF(&why));
	} else if (buf_len(&text) == 0) {
		faults_add(
			&l->faults, l->before,
			"is empty, and may be half written; write at least a comment into it");
	} else {
		l->section.line = 0;
		reader_run(buf_slice(&text), &events, l);
		load_end_section(l);
	}
	buf_release(&text);
	buf_release(&why);
}

/* Returns the path, relative to the first file's folder. The caller frees it. */
static char *load_include_path(const struct config *c, const char *path)
{
	const char *from = sources_path(&c->sources, 0), *slash = strrchr(from, '/');
	struct buf b = BUF_INIT;
	char *whole;

	if (*path != '/' && slash)
		buf_append(&b, slice_of(from, (size_t)(slash + 1 - from)));
	buf_puts(&b, path);
	buf_append(&b, slice_of("", 1));
	whole = xstrdup(buf_head(&b));
	buf_release(&b);
	return whole;
}

/* For glob(3): a folder that does not exist is empty, one that cannot be read is a fault. */
static int load_on_folder_error(const char *path, int error)
{
	(void)path;
	return error != ENOENT && error != ENOTDIR;
}

/* Reads the files of an `include`. A glob may match none; a path without a glob must exist. */
static void load_included(struct loader *l, const char *path, int line)
{
	char *whole = load_include_path(l->c, path);
	glob_t found;
	int rc = glob(whole, 0, load_on_folder_error, &found);

	if (rc == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			load_file(l, found.gl_pathv[i], line);
	} else if (rc == GLOB_NOMATCH && !strpbrk(path, "*?[")) {
		load_file(l, whole, line);
	} else if (rc != GLOB_NOMATCH) {
		faults_add(&l->faults, line,
		           "'%s' of 'include' has a folder that hasp cannot read; make it "
		           "readable",
		           path);
	}
	globfree(&found);
	free(whole);
}

size_t load_files(struct config *c, const char *path, struct buf *faults, struct buf *warnings)
{
	struct loader l = {
		.c = c,
		.faults = { .sources = &c->sources, .lines = faults, .warnings = warnings },
		.section = { .kind = SECTION_NONE, .title = l.title },
	};

	l.section.places = xcalloc(table_noptions, sizeof(*l.section.places));
	load_file(&l, path, 0);
	/* The list is complete: a second [hasp], which could include more, is a fault. */
	for (size_t i = 0; i < c->include.n; i++)
		load_included(&l, c->include.v[i], c->include.lines[i]);
	match_prepare(c);
	checks_on_file(c, !l.listen_bad, l.address_line, &l.faults);
	free(l.section.places);
	buf_release(&l.where);
	return l.faults.n;
}
