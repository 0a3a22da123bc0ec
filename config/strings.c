/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/strings.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

void strings_append(struct strings *list, const char *text, int line)
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

void strings_clear(struct strings *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->v[i]);
	free(list->v);
	free(list->lengths);
	free(list->lines);
	*list = (struct strings){ .n = 0 };
}
