/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/option.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "config/value.h"

/* --- lists of strings --- */

/* Appends the words of `text`, between blanks or commas. `line`: their line in the file. */
static void strings_append(struct strings *list, const char *text, int line)
{
	static const char between[] = " \t\r\n\v\f,";

	for (const char *s = text + strspn(text, between); *s; s += strspn(s, between)) {
		size_t n = strcspn(s, between);

		list->v = xrealloc(list->v, (list->n + 1) * sizeof(*list->v));
		list->lines = xrealloc(list->lines, (list->n + 1) * sizeof(*list->lines));
		list->lengths = xrealloc(list->lengths, (list->n + 1) * sizeof(*list->lengths));
		list->lines[list->n] = line;
		list->lengths[list->n] = n;
		list->v[list->n] = xmemdup(s, n);
		list->n++;
		s += n;
	}
}

static void strings_clear(struct strings *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->v[i]);
	free(list->v);
	free(list->lengths);
	free(list->lines);
	*list = (struct strings){ .n = 0 };
}

/* How the types of numbers look in the file. */
static const struct {
	const char *form; /* NULL: the type is not a number */
	int (*read)(const char *s, int64_t *out);
	void (*print)(struct buf *out, int64_t v);
} option_numbers[] = {
	[OPTION_INT] = { "a whole number", value_int, value_print_int },
	[OPTION_OCTAL] = { "an octal number", value_octal, value_print_octal },
	[OPTION_DURATION] = { "a duration such as 500ms, 30s, 5m or 2h", value_duration,
	                      value_print_duration },
	[OPTION_SIZE] = { "a size such as 64kb, 64mb or 1gb", value_size, value_print_size },
	[OPTION_ENUM] = { NULL, NULL, NULL },
};

static bool option_is_number(const struct option *o)
{
	return option_numbers[o->type].form;
}

/* A field has this value until the option is set: no valid value is negative. */
#define OPTION_UNSET (-1)

static int64_t *option_number(const struct option *o, void *base)
{
	HASP_ASSERT(option_is_number(o));
	return (int64_t *)(void *)((char *)base + o->offset);
}

void option_unset(const struct option *o, void *base)
{
	if (option_is_number(o))
		*option_number(o, base) = OPTION_UNSET;
}

bool option_is_unset(const struct option *o, const void *base)
{
	const void *field = (const char *)base + o->offset;

	return option_is_number(o) && *(const int64_t *)field == OPTION_UNSET;
}

static void option_print_choices(const struct option_choice *choices, struct buf *out)
{
	for (const struct option_choice *c = choices; c->name; c++) {
		if (c > choices)
			buf_puts(out, c[1].name ? ", " : " or ");
		buf_puts(out, c->name);
	}
}

void option_print_expected(const struct option *o, struct buf *out)
{
	if (o->type == OPTION_ENUM) {
		option_print_choices(o->choices, out);
		return;
	}
	if (!option_is_number(o)) {
		buf_puts(out, o->expected);
		return;
	}
	buf_printf(out, "%s, from ", option_numbers[o->type].form);
	option_numbers[o->type].print(out, o->min);
	buf_puts(out, " to ");
	option_numbers[o->type].print(out, o->max);
	if (o->step) {
		buf_puts(out, " in steps of ");
		option_numbers[o->type].print(out, o->step);
	}
}

/* Appends "'workers' is '65': WHAT; expected ..."; `what` may be NULL. */
static int option_wrong(const struct option *o, const char *value, const char *what,
                        struct buf *why)
{
	const char *url = strstr(value, "://");

	/* A URL may contain a password. */
	if (o->secret)
		buf_printf(why, "'%s' is wrong", o->name);
	else if (url)
		buf_printf(why, "'%s' is '%.*s://...'", o->name, (int)(url - value), value);
	else
		buf_printf(why, "'%s' is '%s'", o->name, value);
	if (what)
		buf_printf(why, ": %s", what);
	buf_puts(why, "; expected ");
	option_print_expected(o, why);
	return -1;
}

static int option_set_number(const struct option *o, int64_t *field, const char *value,
                             struct buf *why)
{
	int64_t v;

	if (option_numbers[o->type].read(value, &v) < 0)
		return option_wrong(o, value, NULL, why);
	if (v < o->min)
		return option_wrong(o, value, "too small", why);
	if (v > o->max)
		return option_wrong(o, value, "too large", why);
	if (o->step && v % o->step != 0)
		return option_wrong(o, value, NULL, why);
	*field = v;
	return 0;
}

static int option_set_enum(const struct option *o, void *field, const char *value,
                           struct buf *why)
{
	for (const struct option_choice *c = o->choices; c->name; c++) {
		if (strcmp(c->name, value) == 0) {
			memcpy(field, &c->value, sizeof(c->value));
			return 0;
		}
	}
	return option_wrong(o, value, NULL, why);
}

static int option_set_string(const struct option *o, char **field, const char *value,
                             struct buf *why)
{
	const char *what = o->check ? o->check(value) : NULL;

	if (what)
		return option_wrong(o, value, what, why);
	free(*field);
	*field = xstrdup(value);
	return 0;
}

static int option_set_list(const struct option *o, struct strings *field, const char *value,
                           int line, bool append, struct buf *why)
{
	struct strings words = { .n = 0 };
	const char *what = NULL;

	strings_append(&words, value, line);
	for (size_t i = 0; i < words.n && !what; i++) {
		what = o->check(words.v[i]);
		if (what)
			(void)option_wrong(o, words.v[i], what, why);
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

	/* A list may begin in the next line, so its value may be empty here. checks_presence()
	 * finds lists that are empty. */
	if (*value == '\0' && o->type != OPTION_LIST) {
		buf_printf(why, "'%s' has no value; expected ", o->name);
		option_print_expected(o, why);
		return -1;
	}
	switch (o->type) {
	case OPTION_LIST:
		return option_set_list(o, field, value, line, append, why);
	case OPTION_STRING:
		return option_set_string(o, field, value, why);
	case OPTION_ENUM:
		return option_set_enum(o, field, value, why);
	default:
		return option_set_number(o, field, value, why);
	}
}

static void option_print_enum(const struct option *o, const void *field, struct buf *out)
{
	int v;

	memcpy(&v, field, sizeof(v));
	for (const struct option_choice *c = o->choices; c->name; c++) {
		if (c->value == v)
			buf_puts(out, c->name);
	}
}

static void option_print_list(const struct strings *list, struct buf *out)
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
		option_print_list(field, out);
		break;
	case OPTION_STRING:
		s = *(char *const *)field;
		buf_puts(out, s && o->secret ? "***" : s);
		break;
	case OPTION_ENUM:
		option_print_enum(o, field, out);
		break;
	default:
		option_numbers[o->type].print(out, *(const int64_t *)field);
	}
}

static bool strings_are_same(const struct strings *a, const struct strings *b)
{
	bool same = a->n == b->n;

	for (size_t i = 0; same && i < a->n; i++)
		same = strcmp(a->v[i], b->v[i]) == 0;
	return same;
}

bool option_is_same(const struct option *o, const void *base, const void *other_base)
{
	const void *field = (const char *)base + o->offset;
	const void *other = (const char *)other_base + o->offset;
	const char *s, *t;

	switch (o->type) {
	case OPTION_LIST:
		return strings_are_same(field, other);
	case OPTION_STRING:
		s = *(char *const *)field;
		t = *(char *const *)other;
		return s && t ? strcmp(s, t) == 0 : s == t;
	case OPTION_ENUM:
		return memcmp(field, other, sizeof(int)) == 0;
	default:
		return memcmp(field, other, sizeof(int64_t)) == 0;
	}
}

void option_clear(const struct option *o, void *base)
{
	void *field = (char *)base + o->offset;

	if (o->type == OPTION_LIST) {
		strings_clear(field);
	} else if (o->type == OPTION_STRING) {
		free(*(char **)field);
		*(char **)field = NULL;
	}
}

static void strings_copy(struct strings *list, const struct strings *from)
{
	for (size_t i = 0; i < from->n; i++)
		strings_append(list, from->v[i], from->lines[i]);
}

void option_copy(const struct option *o, void *base, const struct option *from,
                 const void *from_base)
{
	const void *source = (const char *)from_base + from->offset;
	void *field = (char *)base + o->offset;
	const char *s;

	HASP_ASSERT(o->type == from->type);
	option_clear(o, base);
	switch (o->type) {
	case OPTION_LIST:
		strings_copy(field, source);
		break;
	case OPTION_STRING:
		s = *(char *const *)source;
		*(char **)field = s ? xstrdup(s) : NULL;
		break;
	case OPTION_ENUM:
		memcpy(field, source, sizeof(int));
		break;
	default:
		*option_number(o, base) = *(const int64_t *)source;
	}
}

const struct strings *option_list(const struct option *o, const void *base)
{
	HASP_ASSERT(o->type == OPTION_LIST);
	return (const struct strings *)(const void *)((const char *)base + o->offset);
}
