/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reader: an ini file as a run of events, each with its line. inih splits the lines (name,
 * value, comments, continuation). The reader stands between inih and the file, because inih
 * alone cuts long lines and names short, does not report empty sections, and joins an indented
 * line to the option above it.
 *
 *   file --> reader_next_line(): checks, headers --> inih --> reader_on_value() --> events
 */
#ifndef HASP_CONFIG_READER_H
#define HASP_CONFIG_READER_H

#include <stdbool.h>

#include "base/slice.h"

/* Longest line in bytes without its end, and longest name of a section or an
 * option: inih's INI_MAX_LINE less "\r\n\0", and its MAX_NAME less "\0". */
#define READER_LINE_MAX 197
#define READER_NAME_MAX 49

struct reader_events {
	/* A [section] begins; `title` is what stands in the brackets, trimmed. */
	void (*on_section)(void *arg, int line, const char *title);
	/* `name = value`. `value` may be empty; it is NULL when the line had a fault, which
	 * on_fault() got. `continued`: an indented line below the option's own. */
	void (*on_option)(void *arg, int line, const char *name, const char *value,
	                  bool continued);
	/* The line is not what an ini file may hold. Line 0: the file itself. */
	void (*on_fault)(void *arg, int line, const char *what);
};

/* Reads the whole file `text`, past all faults. */
void reader_run(struct slice text, const struct reader_events *events, void *arg);

#endif
