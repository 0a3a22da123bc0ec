/* SPDX-License-Identifier: BSD-3-Clause
 *
 * option: one setting of the table (table.c): reads the setting's value into a struct field,
 * and prints it.
 */
#ifndef HASP_CONFIG_OPTION_H
#define HASP_CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "config/types.h"

enum section {
	SECTION_HASP,
	SECTION_UPSTREAM,
	SECTION_LOCK,
	SECTION_GUARD,
	SECTION_QUORUM,
	SECTION_VERBS,
	SECTION_DISCOVER,
	SECTION_HTTP,
	SECTION_ADMIN,
	SECTION_NONE, /* before the first section, or in an unknown one */
};

/* The comments name the type of the option's field. */
enum option_type {
	OPTION_STRING, /* has a field char *; NULL: none */
	OPTION_LIST, /* has a field struct strings */
	OPTION_INT, /* has a field int64_t */
	OPTION_OCTAL, /* has a field int64_t */
	OPTION_DURATION, /* has a field int64_t, in milliseconds */
	OPTION_SIZE, /* has a field int64_t, in bytes */
	OPTION_ENUM, /* has an enum as its field */
};

struct option_choice {
	const char *name; /* NULL ends the list */
	int value;
};

struct option {
	enum section section;
	const char *name;
	enum option_type type;
	size_t offset; /* offset of the field in the section's struct: config, rule, guard,
	                * quorum_settings or verbs */
	const char *def; /* default, as written in the file; NULL: the option has none */
	int64_t min, max; /* numbers: the range, both ends allowed */
	int64_t step; /* numbers: the value must be a multiple of it; 0: any value */
	const struct option_choice *choices; /* ENUM: the allowed words */
	/* Returns the fault of a STRING, or of a word of a LIST; NULL: none. */
	const char *(*check)(const char *value);
	const char *expected; /* STRING, LIST: text that describes valid values */
	bool required;
	bool reloadable; /* a reload can change it; else a change needs a restart */
	bool secret; /* hasp never shows the value */
	const char *help; /* one line, as in hasp.ini */
};

/* In the functions below, `base` is the struct that has the option's field. */

/* Sets the option's field. `append`: adds to a list's words instead of replacing them. `line`:
 * the line of the new words. If the value is wrong, returns -1, leaves the field unchanged, and
 * appends the fault and the cure to `why`; else returns 0. */
int option_set(const struct option *o, void *base, const char *value, int line, bool append,
               struct buf *why) __attribute__((warn_unused_result));

/* Marks a number as not set, until the file sets it. Does nothing for other types. */
void option_unset(const struct option *o, void *base);
bool option_is_unset(const struct option *o, const void *base);
/* Copies the value of `from`, an option of the same type, in another struct. */
void option_copy(const struct option *o, void *base, const struct option *from,
                 const void *from_base);

bool option_is_same(const struct option *o, const void *base, const void *other_base);

/* Frees the field's memory. */
void option_clear(const struct option *o, void *base);

/* Returns the field of a LIST. */
const struct strings *option_list(const struct option *o, const void *base);

/* Appends the field's value as in the file; nothing if there is none. */
void option_print(const struct option *o, const void *base, struct buf *out);

/* Appends "a whole number, from 1 to 64" or the like. */
void option_print_expected(const struct option *o, struct buf *out);

#endif
