/* SPDX-License-Identifier: BSD-3-Clause */

#include <string.h>

#include "config/config_internal.h"

static size_t suggest_min(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/* Returns the least number of bytes of `a` to insert, delete, replace or swap with their
 * neighbours to get `b` (optimal string alignment). */
static size_t suggest_distance(const char *a, const char *b)
{
	enum { MAX = READER_NAME_MAX + 1 };
	size_t rows[3][MAX + 1] = { { 0 } };
	size_t *before = rows[0], *prev = rows[1], *row = rows[2];
	size_t na = strlen(a), nb = strlen(b);

	if (na > MAX || nb > MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= nb; j++)
		prev[j] = j;
	for (size_t i = 1; i <= na; i++) {
		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			row[j] = suggest_min(prev[j] + 1, row[j - 1] + 1,
			                     prev[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < row[j])
				row[j] = before[j - 2] + 1;
		}
		size_t *oldest = before;
		before = prev;
		prev = row;
		row = oldest;
	}
	return prev[nb];
}

/* Returns the greatest distance of a name that hasp suggests: a third of the letters. */
static size_t suggest_farthest(const char *name)
{
	size_t n = strlen(name) / 3;

	return n ? n : 1;
}

static void suggest_nearest(enum section section, const char *name, struct buf *out)
{
	const char *nearest = NULL;
	size_t least = suggest_farthest(name) + 1;

	for (const struct option *o = NULL; (o = table_next(section, o));) {
		size_t d = suggest_distance(name, o->name);

		if (d < least) {
			least = d;
			nearest = o->name;
		}
	}
	if (nearest)
		buf_printf(out, "; did you mean '%s'?", nearest);
}

void suggest_option(enum section section, const char *name, struct buf *out)
{
	const char *before = "; it belongs in ";
	bool elsewhere = false;

	for (enum section s = 0; s < SECTION_NONE; s++) {
		if (s != section && table_find(s, name)) {
			buf_printf(out, "%s%s", before, table_section_title(s));
			before = " or ";
			elsewhere = true;
		}
	}
	if (!elsewhere)
		suggest_nearest(section, name, out);
}

void suggest_section(const char *title, struct buf *out)
{
	char word[READER_NAME_MAX + 2];
	size_t n = strcspn(title, " \t");
	const char *nearest = NULL;

	if (n >= sizeof(word))
		n = sizeof(word) - 1;
	memcpy(word, title, n);
	word[n] = '\0';
	size_t least = suggest_farthest(word) + 1;
	for (enum section s = 0; s < SECTION_NONE; s++) {
		size_t d = suggest_distance(word, table_section_word(s));

		if (d < least) {
			least = d;
			nearest = table_section_title(s);
		}
	}
	if (nearest)
		buf_printf(out, "; did you mean %s?", nearest);
	else
		buf_puts(out, "; expected [hasp], [upstream], [lock NAME], [guard NAME], "
		              "[quorum NAME], [verbs], [discover], [http] or [admin]");
}
