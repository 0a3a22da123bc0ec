/* SPDX-License-Identifier: BSD-3-Clause
 *
 * options: the table of all settings. It alone says what may stand in the file,
 * what holds when it does not, what a fault's message recommends, and what a
 * reload can change. hasp.ini and hasp.ini(5) are tested against it.
 */
#ifndef HASP_CONFIG_OPTIONS_H
#define HASP_CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum section {
	SECTION_HASP,
	SECTION_UPSTREAM,
	SECTION_LOCK,
	SECTION_GUARD,
	SECTION_VERBS,
	SECTION_NONE, /* before the first, or in an unknown one */
};

/* In comments: what the option's field is. */
enum option_type {
	OPTION_STRING, /* char *, NULL: none */
	OPTION_LIST, /* struct strings */
	OPTION_INT, /* int64_t */
	OPTION_OCTAL, /* int64_t */
	OPTION_DURATION, /* int64_t, milliseconds */
	OPTION_SIZE, /* int64_t, bytes */
	OPTION_ENUM, /* an enum */
};

struct choice {
	const char *name; /* NULL ends the list */
	int value;
};

struct option {
	enum section section;
	const char *name;
	enum option_type type;
	size_t offset; /* of the field in struct config, rule, guard or verbs */
	const char *def; /* as in the file; NULL: none */
	int64_t min, max; /* numbers: the range, both ends allowed */
	int64_t step; /* numbers: must be a multiple; 0: any */
	const struct choice *choices; /* ENUM */
	/* STRING and each word of a LIST: what is wrong with it, NULL: nothing. */
	const char *(*check)(const char *value);
	const char *expected; /* STRING, LIST: what would be right */
	bool required;
	bool reloadable; /* else a change needs a restart */
	bool secret; /* never shown */
	const char *help; /* one line */
};

extern const struct option option_table[];
extern const size_t option_count;

/* "[hasp]", "[upstream]", "[lock NAME]", "[guard NAME]", "[verbs]" */
const char *section_title(enum section section);

/* NULL: there is no such option in that section. */
const struct option *option_find(enum section section, const char *name);

/* Sets the option's field in the struct at `base`; `append` adds to a list's words instead of
 * replacing them, and `line` is where they stand. Returns 0, or -1 with what is wrong and what
 * would be right appended to `why` and the field unchanged. */
int option_set(const struct option *o, void *base, const char *value, int line, bool append,
               struct buf *why) __attribute__((warn_unused_result));

/* Appends what the option's field holds, as in the file; nothing when none. */
void option_print(const struct option *o, const void *base, struct buf *out);

/* Appends "a whole number from 1 to 64" or the like. */
void option_print_expected(const struct option *o, struct buf *out);

/* Gives all of a section's fields their defaults. They must be zeroed, or fit to be
 * freed. */
void options_default(enum section section, void *base);
void options_free(enum section section, void *base);

/* Appends "; did you mean '...'?" or where the option belongs, if either is plain. */
void option_suggest(enum section section, const char *name, struct buf *out);
void section_suggest(const char *title, struct buf *out);

#endif
