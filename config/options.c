/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "config/types.h"
#include "config/value.h"

_Static_assert(sizeof(enum owner_kind) == sizeof(int), "enums are kept as int");

const char *section_title(enum section section)
{
	static const char *const titles[] = {
		[SECTION_HASP] = "[hasp]",      [SECTION_UPSTREAM] = "[upstream]",
		[SECTION_LOCK] = "[lock NAME]", [SECTION_GUARD] = "[guard NAME]",
		[SECTION_VERBS] = "[verbs]",
	};

	HASP_ASSERT(section < SECTION_NONE);
	return titles[section];
}

const struct option *option_find(enum section section, const char *name)
{
	for (size_t i = 0; i < option_count; i++) {
		const struct option *o = &option_table[i];

		if (o->section == section && strcmp(o->name, name) == 0)
			return o;
	}
	return NULL;
}

static bool is_number(const struct option *o)
{
	switch (o->type) {
	case OPTION_INT:
	case OPTION_OCTAL:
	case OPTION_DURATION:
	case OPTION_SIZE:
		return true;
	default:
		return false;
	}
}

static int read_number(const struct option *o, const char *value, int64_t *out)
{
	switch (o->type) {
	case OPTION_INT:
		return value_int(value, out);
	case OPTION_OCTAL:
		return value_octal(value, out);
	case OPTION_DURATION:
		return value_duration(value, out);
	case OPTION_SIZE:
		return value_size(value, out);
	default:
		return -1;
	}
}

static void print_number(const struct option *o, int64_t v, struct buf *out)
{
	switch (o->type) {
	case OPTION_OCTAL:
		value_print_octal(out, v);
		break;
	case OPTION_DURATION:
		value_print_duration(out, v);
		break;
	case OPTION_SIZE:
		value_print_size(out, v);
		break;
	default:
		buf_printf(out, "%" PRId64, v);
	}
}

static void print_choices(const struct choice *choices, struct buf *out)
{
	for (const struct choice *c = choices; c->name; c++) {
		if (c > choices)
			buf_puts(out, c[1].name ? ", " : " or ");
		buf_puts(out, c->name);
	}
}

void option_print_expected(const struct option *o, struct buf *out)
{
	static const char *const forms[] = {
		[OPTION_INT] = "a whole number",
		[OPTION_OCTAL] = "an octal number",
		[OPTION_DURATION] = "a duration such as 500ms, 30s, 5m or 2h",
		[OPTION_SIZE] = "a size such as 64kb, 64mb or 1gb",
	};

	if (o->type == OPTION_ENUM) {
		print_choices(o->choices, out);
		return;
	}
	if (!is_number(o)) {
		buf_puts(out, o->expected);
		return;
	}
	buf_printf(out, "%s, from ", forms[o->type]);
	print_number(o, o->min, out);
	buf_puts(out, " to ");
	print_number(o, o->max, out);
	if (o->step) {
		buf_puts(out, " in steps of ");
		print_number(o, o->step, out);
	}
}

/* Appends "'workers' is '65': WHAT; expected ..."; `what` may be NULL. */
static int wrong(const struct option *o, const char *value, const char *what, struct buf *why)
{
	if (o->secret)
		buf_printf(why, "'%s' is wrong", o->name);
	else
		buf_printf(why, "'%s' is '%s'", o->name, value);
	if (what)
		buf_printf(why, ": %s", what);
	buf_puts(why, "; expected ");
	option_print_expected(o, why);
	return -1;
}

static int set_number(const struct option *o, int64_t *field, const char *value,
                      struct buf *why)
{
	int64_t v;

	if (read_number(o, value, &v) < 0)
		return wrong(o, value, NULL, why);
	if (v < o->min)
		return wrong(o, value, "too small", why);
	if (v > o->max)
		return wrong(o, value, "too large", why);
	if (o->step && v % o->step != 0)
		return wrong(o, value, NULL, why);
	*field = v;
	return 0;
}

static int set_enum(const struct option *o, void *field, const char *value, struct buf *why)
{
	for (const struct choice *c = o->choices; c->name; c++) {
		if (strcmp(c->name, value) == 0) {
			memcpy(field, &c->value, sizeof(c->value));
			return 0;
		}
	}
	return wrong(o, value, NULL, why);
}

static int set_string(const struct option *o, char **field, const char *value, struct buf *why)
{
	const char *what = o->check ? o->check(value) : NULL;

	if (what)
		return wrong(o, value, what, why);
	free(*field);
	*field = xstrdup(value);
	return 0;
}

static int set_list(const struct option *o, struct strings *field, const char *value, int line,
                    bool append, struct buf *why)
{
	struct strings words = { .n = 0 };
	const char *what = NULL;

	strings_append(&words, value, line);
	for (size_t i = 0; i < words.n && !what; i++) {
		what = o->check(words.v[i]);
		if (what)
			(void)wrong(o, words.v[i], what, why);
	}
	strings_clear(&words);
	if (what)
		return -1;
	if (!append)
		strings_clear(field);
	strings_append(field, value, line);
	return 0;
}

int option_set(const struct option *o, void *base, const char *value, int line, bool append,
               struct buf *why)
{
	void *field = (char *)base + o->offset;

	/* A list may begin in the line below; the section's end tells. */
	if (*value == '\0' && o->type != OPTION_LIST) {
		buf_printf(why, "'%s' has no value; expected ", o->name);
		option_print_expected(o, why);
		return -1;
	}
	switch (o->type) {
	case OPTION_LIST:
		return set_list(o, field, value, line, append, why);
	case OPTION_STRING:
		return set_string(o, field, value, why);
	case OPTION_ENUM:
		return set_enum(o, field, value, why);
	default:
		return set_number(o, field, value, why);
	}
}

static void print_enum(const struct option *o, const void *field, struct buf *out)
{
	int v;

	memcpy(&v, field, sizeof(v));
	for (const struct choice *c = o->choices; c->name; c++) {
		if (c->value == v)
			buf_puts(out, c->name);
	}
}

static void print_list(const struct strings *list, struct buf *out)
{
	for (size_t i = 0; i < list->n; i++)
		buf_printf(out, i ? " %s" : "%s", list->v[i]);
}

void option_print(const struct option *o, const void *base, struct buf *out)
{
	const void *field = (const char *)base + o->offset;
	const char *s;

	switch (o->type) {
	case OPTION_LIST:
		print_list(field, out);
		break;
	case OPTION_STRING:
		s = *(char *const *)field;
		buf_puts(out, s && o->secret ? "***" : s);
		break;
	case OPTION_ENUM:
		print_enum(o, field, out);
		break;
	default:
		print_number(o, *(const int64_t *)field, out);
	}
}

void options_default(enum section section, void *base)
{
	struct buf why = BUF_INIT;

	options_free(section, base);
	for (size_t i = 0; i < option_count; i++) {
		const struct option *o = &option_table[i];

		if (o->section == section && o->def)
			HASP_ASSERT(option_set(o, base, o->def, 0, false, &why) == 0);
	}
	buf_release(&why);
}

void options_free(enum section section, void *base)
{
	for (size_t i = 0; i < option_count; i++) {
		const struct option *o = &option_table[i];
		void *field = (char *)base + o->offset;

		if (o->section != section)
			continue;
		if (o->type == OPTION_LIST) {
			strings_clear(field);
		} else if (o->type == OPTION_STRING) {
			free(*(char **)field);
			*(char **)field = NULL;
		}
	}
}
