/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Compares hasp.ini and hasp.ini(5) with the option table: every option, in its section, with
 * its default.
 */
#include <stdio.h>
#include <stdlib.h>

#include "config/config.h"
#include "config/config_internal.h"
#include "tests/unit/inifile.h"
#include "tests/unit/testing.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

#ifndef SRCDIR
#define SRCDIR "."
#endif

#define HASP_INI SRCDIR "/config/hasp.ini"
#define HASP_INI_5 SRCDIR "/config/man/hasp.ini.5"
#define MINIMAL_INI SRCDIR "/config/examples/minimal.ini"

/* Returns the file as a string, after a newline; the caller frees it. */
static char *read_file(const char *name)
{
	FILE *f = fopen(name, "r");
	char *text = calloc(1, 100000);

	assert_non_null(f);
	text[0] = '\n';
	assert_in_range(fread(text + 1, 1, 100000 - 2, f), 1, 100000 - 3);
	fclose(f);
	return text;
}

/* Returns the part of `text` from the line `begin` to the line that begins with `end`; the
 * caller frees it. */
static char *part(const char *text, const char *begin, const char *end)
{
	const char *from = strstr(text, begin), *to;

	if (!from)
		fail_msg("there is no %s", begin);
	from += strlen(begin);
	to = strstr(from, end);
	return strndup(from - 1, to ? (size_t)(to - from) + 2 : strlen(from) + 1);
}

/* Counts the lines of `text` that equal `line`. */
static int count_lines(const char *text, const char *line)
{
	size_t n = strlen(line);
	int count = 0;

	for (const char *p = text; (p = strstr(p, line)); p++)
		count += p[-1] == '\n' && p[n] == '\n';
	return count;
}

/* Activates the settings that a `;` in the first column disables. */
static void activate_all(char *text)
{
	char *to = text;

	for (const char *p = text; *p; p++) {
		if (*p != ';' || p[-1] != '\n')
			*to++ = *p;
	}
	*to = '\0';
}

static char *section_of_ini(const char *text, enum section section)
{
	char begin[64];

	snprintf(begin, sizeof(begin), "\n%s\n",
	         section == SECTION_LOCK     ? "[lock orders]"
	         : section == SECTION_GUARD  ? "[guard stock]"
	         : section == SECTION_QUORUM ? "[quorum locks]"
	                                     : table_section_title(section));
	return part(text, begin, "\n[");
}

static char *section_of_man(const char *text, enum section section)
{
	char begin[64];

	snprintf(begin, sizeof(begin), "\n.Ss The %s section\n", table_section_title(section));
	return part(text, begin, "\n.S");
}

static void assert_same_settings(const struct config *a, const struct config *b)
{
	for (size_t i = 0; i < table_noptions; i++) {
		const struct option *o = &table_options[i];
		struct buf x = BUF_INIT, y = BUF_INIT;

		if (o->section == SECTION_LOCK || o->section == SECTION_GUARD ||
		    o->section == SECTION_QUORUM)
			continue;
		bool verbs = o->section == SECTION_VERBS;
		option_print(o, verbs ? (const void *)&a->verbs : a, &x);
		option_print(o, verbs ? (const void *)&b->verbs : b, &y);
		if (!slice_eq(buf_slice(&x), buf_slice(&y)))
			fail_msg("%s %s differs", table_section_title(o->section), o->name);
		buf_release(&x);
		buf_release(&y);
	}
}

TEST(hasp_ini_as_shipped_is_what_holds_without_a_file)
{
	struct buf faults = BUF_INIT, warnings = BUF_INIT;
	struct config *c = config_load(HASP_INI, &faults, &warnings);
	struct config *defaults = config_load(NULL, &faults, &warnings);

	assert_int_equal(buf_len(&faults), 0);
	assert_int_equal(buf_len(&warnings), 0);
	assert_non_null(c);
	assert_int_equal(c->nrules, 0);
	assert_int_equal(c->nguards, 0);
	assert_false(c->verbs.enabled);
	assert_same_settings(c, defaults);
	config_unref(c);
	config_unref(defaults);
}

/* A file may name only one of: an address, sentinels, a cluster; and a password or a file. */
static void remove_line(char *text, const char *begin)
{
	char *line = strstr(text, begin), *end;

	assert_non_null(line);
	end = strchr(line + 1, '\n');
	memmove(line, end, strlen(end) + 1);
}

static void turn_tls_on(char *text)
{
	static const char off[] = "\ntls = no\n", on[] = "\ntls = yes\n";
	char *line = strstr(text, off);

	assert_non_null(line);
	memmove(line + sizeof(on) - 1, line + sizeof(off) - 1,
	        strlen(line + sizeof(off) - 1) + 1);
	memcpy(line, on, sizeof(on) - 1);
}

TEST(hasp_ini_with_all_of_it_active_is_valid)
{
	char *text = read_file(HASP_INI);
	struct config *c;

	activate_all(text);
	remove_line(text, "\naddress = ");
	remove_line(text, "\ncluster = ");
	remove_line(text, "\npassword_file = ");
	remove_line(text, "\npassword_command = ");
	remove_line(text, "\npassword_command_interval = ");
	remove_line(text, "\nsentinel_password_file = ");
	remove_line(text, "\npassword_file = ");
	remove_line(text, "\npassword_file = ");
	turn_tls_on(text);
	turn_tls_on(text);
	/* Quorum locks allow only one layout. */
	remove_line(text, "\nquorum = ");
	remove_line(text, "\nquorum = ");
	c = load(text);
	assert_int_equal(c->nrules, 1);
	assert_int_equal(c->nguards, 1);
	assert_true(c->verbs.enabled);
	config_unref(c);
	free(text);
}

TEST(hasp_ini_shows_every_option_once_at_its_default)
{
	char *text = read_file(HASP_INI);

	activate_all(text);
	for (size_t i = 0; i < table_noptions; i++) {
		const struct option *o = &table_options[i];
		char *in_section = section_of_ini(text, o->section);
		char line[256];

		snprintf(line, sizeof(line), "\n%s = ", o->name);
		if (!strstr(in_section, line))
			fail_msg("%s has no %s", table_section_title(o->section), o->name);
		if (o->def) {
			snprintf(line, sizeof(line), "%s = %s", o->name, o->def);
			if (count_lines(in_section, line) != 1)
				fail_msg("%s has no '%s'", table_section_title(o->section),
				         line);
		}
		free(in_section);
	}
	free(text);
}

TEST(hasp_ini_explains_every_option_as_the_table_does)
{
	char *text = read_file(HASP_INI);

	activate_all(text);
	for (size_t i = 0; i < table_noptions; i++) {
		const struct option *o = &table_options[i];
		char *in_section = section_of_ini(text, o->section);
		char lines[256];

		snprintf(lines, sizeof(lines), "\n# %s\n%s = ", o->help, o->name);
		if (!strstr(in_section, lines))
			fail_msg("%s: '%s' is not above %s", table_section_title(o->section),
			         o->help, o->name);
		free(in_section);
	}
	free(text);
}

/* Returns true if the manual's item states the option's default (in words if the table has
 * none). */
static bool has_default(const char *item, const struct option *o)
{
	char line[256];

	if (!o->def && !o->required)
		return strstr(item, "\nDefault: ");
	snprintf(line, sizeof(line), "Default: %s.", o->def ? o->def : "");
	return count_lines(item, o->required ? "Required." : line) == 1;
}

TEST(hasp_ini_5_has_every_option_with_its_default)
{
	char *text = read_file(HASP_INI_5);

	for (size_t i = 0; i < table_noptions; i++) {
		const struct option *o = &table_options[i];
		char *in_section = section_of_man(text, o->section), *item;
		char line[256];

		snprintf(line, sizeof(line), "\n.It Ic %s = ", o->name);
		item = part(in_section, line, "\n.It Ic ");
		if (!has_default(item, o))
			fail_msg("%s %s has no default", table_section_title(o->section),
			         o->name);
		if (count_lines(item, "Needs a restart.") != !o->reloadable)
			fail_msg("%s %s: does it need a restart?",
			         table_section_title(o->section), o->name);
		free(item);
		free(in_section);
	}
	free(text);
}

TEST(hasp_ini_5_has_every_choice_of_an_option)
{
	char *text = read_file(HASP_INI_5);

	for (size_t i = 0; i < table_noptions; i++) {
		const struct option *o = &table_options[i];
		char *in_section = section_of_man(text, o->section);
		char line[256];

		if (o->type == OPTION_ENUM) {
			int n = snprintf(line, sizeof(line), ".It Ic %s = Cm", o->name);

			for (const struct option_choice *c = o->choices; c->name; c++)
				n += snprintf(line + n, sizeof(line) - (size_t)n, "%s %s",
				              c == o->choices ? "" : " |", c->name);
			if (count_lines(in_section, line) != 1)
				fail_msg("%s has no '%s'", table_section_title(o->section),
				         line);
		}
		free(in_section);
	}
	free(text);
}

TEST(hasp_ini_5_has_no_other_option)
{
	char *text = read_file(HASP_INI_5);
	size_t n = 0;

	for (const char *p = text; (p = strstr(p, "\n.It Ic ")); p++)
		n++;
	assert_int_equal(n, table_noptions);
	free(text);
}

TEST(the_minimal_example_is_valid_and_has_one_rule)
{
	struct buf faults = BUF_INIT, warnings = BUF_INIT;
	struct config *c = config_load(MINIMAL_INI, &faults, &warnings);

	assert_int_equal(buf_len(&faults), 0);
	assert_int_equal(buf_len(&warnings), 0);
	assert_non_null(c);
	assert_int_equal(c->nrules, 1);
	config_unref(c);
}
