/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sources: the files that a configuration was read from. Lines are numbered through all of
 * them, in the order in which they were read, so that the number of a line tells its file, too.
 */
#ifndef HASP_CONFIG_SOURCES_H
#define HASP_CONFIG_SOURCES_H

#include <stddef.h>

#include "base/buf.h"

struct source {
	char *path;
	int first; /* number of its line 0, which stands for the file itself */
};

struct sources {
	struct source *v;
	size_t n;
};

/* Adds a file, whose line 0 has number `first`: more than each line before it, and 0 for the
 * file that names the others. */
void sources_add(struct sources *s, const char *path, int first);
void sources_clear(struct sources *s);

/* The file in which the line with this number is. There must be a file. */
const char *sources_path(const struct sources *s, int line);

/* Appends "FILE:LINE" for the same. */
void sources_print(const struct sources *s, int line, struct buf *out);

/* Appends where a line is, for a text about the line `seen_from`: "line LINE", or "FILE:LINE"
 * when that is another file. */
void sources_print_from(const struct sources *s, int line, int seen_from, struct buf *out);

#endif
