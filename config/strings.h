/* SPDX-License-Identifier: BSD-3-Clause
 *
 * strings: a list of strings, as "a b, c" in the file.
 */
#ifndef HASP_CONFIG_STRINGS_H
#define HASP_CONFIG_STRINGS_H

#include <stddef.h>

#include "base/slice.h"

struct strings {
	char **v;
	size_t *lengths;
	int *lines; /* where each stands in the file; 0: a default */
	size_t n;
};

static inline struct slice strings_at(const struct strings *list, size_t i)
{
	return slice_of(list->v[i], list->lengths[i]);
}

/* Appends the words of `text`, between blanks or commas, which stand in this line. */
void strings_append(struct strings *list, const char *text, int line);

void strings_clear(struct strings *list);

#endif
