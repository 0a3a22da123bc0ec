/* SPDX-License-Identifier: BSD-3-Clause
 *
 * config_internal: how the files of this folder read the ini file.
 *
 *   load.c      drives the others
 *   reader.c    splits the file into events
 *   table.c     lists the options
 *   checks.c    finds options that do not fit each other
 *   suggest.c   finds the option that a misspelt name may have meant
 *
 * Each file adds its faults to one list.
 */
#ifndef HASP_CONFIG_CONFIG_INTERNAL_H
#define HASP_CONFIG_CONFIG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "config/option.h"
#include "config/types.h"

/* --- table.c --- */

/* The table of all options: their defaults, the advice in messages, and whether a reload can
 * change them. Tests compare hasp.ini and hasp.ini(5) with it. */

extern const struct option table_options[];
extern const size_t table_noptions;

const char *table_section_word(enum section section); /* returns, e.g., "lock" */
const char *table_section_title(enum section section); /* returns, e.g., "[lock NAME]" */

/* Returns the section's option after `o`; NULL: there are no more. `o` NULL: returns the first
 * option. */
const struct option *table_next(enum section section, const struct option *o);
/* Returns the option; NULL: the section has no such option. */
const struct option *table_find(enum section section, const char *name);

/* Sets all of a section's fields, in the struct `base`, to their defaults, and frees their old
 * values. */
void table_set_defaults(enum section section, void *base);
/* For each number that is not set, copies the value of the option with the same name from
 * `upstream`, the struct of section [upstream]. */
void table_inherit(enum section section, void *base, const void *upstream);
void table_clear(enum section section, void *base);

/* --- reader.c --- */

/* The reader turns an ini file into events, each with its line. inih splits the lines (name,
 * value, comments, continuation), but the reader checks them first: inih alone cuts long lines
 * and names short, does not report empty sections, and joins an indented line to the option
 * above it.
 *
 *   file --> reader_next_line(): checks, headers --> inih --> reader_on_value() --> events */

/* Longest line in bytes, without its line end, and longest name of a section or an option:
 * inih's INI_MAX_LINE less "\r\n\0", and its MAX_NAME less "\0". */
#define READER_LINE_MAX 197
#define READER_NAME_MAX 49

struct reader_events {
	/* A [section] begins; `title`: the text in the brackets, trimmed. */
	void (*on_section)(void *arg, int line, const char *title);
	/* `name = value`. `value` may be empty; NULL: the line has a fault, which on_fault()
	 * got. `continued`: the line is indented, below the option's own line. */
	void (*on_option)(void *arg, int line, const char *name, const char *value,
	                  bool continued);
	/* Called for a line that is not valid in an ini file; line 0: the file itself. */
	void (*on_fault)(void *arg, int line, const char *what);
};

/* Reads the whole file `text`, also after faults. */
void reader_run(struct slice text, const struct reader_events *events, void *arg);

/* --- suggest.c --- */

/* Appends "; did you mean '...'?" for an unknown option, or names the other section that has an
 * option of that name; nothing if no name is similar. */
void suggest_option(enum section section, const char *name, struct buf *out);

/* Appends "; did you mean [...]?", or the sections that exist. */
void suggest_section(const char *title, struct buf *out);

/* --- pattern.c --- */

/* Properties of a glob, or of a set of globs such as a section's `pattern`. */

/* Sets `flag` for each byte with which a key that matches the set may begin. */
void pattern_set_first_bytes(const struct strings *set, uint8_t flag, uint8_t may_be[256]);

/* True if the set certainly matches every key that `pattern` matches. */
bool pattern_set_covers(const struct strings *set, const char *pattern);

/* True if the pattern's last byte is a ';' without a backslash. */
bool pattern_ends_with_semicolon(const char *pattern);
/* True if the pattern has a '[' without a ']'. */
bool pattern_is_open(const char *pattern);
/* True if the pattern matches one key only, but looks like a prefix of keys: "lock:". */
bool pattern_looks_like_prefix(const char *pattern);
/* True if the pattern has only stars and question marks: keys match by their length alone. */
bool pattern_is_any(const char *pattern);

/* Appends a key that the pattern matches, and that few other patterns match. Returns false if
 * the pattern matches no key. */
bool pattern_example(const char *pattern, struct buf *key) __attribute__((warn_unused_result));

/* True if the pattern begins or ends with a quote, which a glob does not need. */
bool pattern_is_quoted(const char *pattern);

/* True if the pattern begins with '^' or ends with '$', as a regular expression would. */
bool pattern_is_anchored(const char *pattern);

/* --- sources.c --- */

/* The faults of a file, line by line: `FILE:LINE: what is wrong and what would be right`. */

struct faults {
	const struct sources *sources;
	struct buf *lines; /* faults: the file cannot be used */
	struct buf *warnings; /* settings that are legal but probably mistakes */
	size_t n; /* number of faults in `lines` */
};

/* The arguments for a `%.*s` in a text of faults_add(). */
#define FAULTS_BUF(b) (int)buf_len(b), buf_len(b) ? buf_head(b) : ""

/* Appends a fault to f->lines. */
void faults_add(struct faults *f, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Appends a warning to f->warnings. */
void faults_warn(struct faults *f, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The state of an option while its section is read. */
struct checks_place {
	int line; /* line of the option; 0: none */
	bool bad; /* the option's value had a fault, so other checks must not use the value */
};

/* A section as it was read. */
struct checks_section {
	enum section kind;
	const char *title; /* the text in the section's brackets */
	int line;
	void *base; /* the struct that has the section's options */
	struct checks_place *places; /* one for each option of the table, in the table's
	                              * order */
};

/* --- checks.c --- */

/* Returns the place of an option of the section; the option must be in the table. */
struct checks_place *checks_place(const struct checks_section *s, const char *name);

/* Checks that need more than one line: whether the options of a section fit each other, and,
 * when the whole file is read, whether the sections do. */

/* Checks a section at its end. `c`: the configuration, as far as it is read. */
void checks_on_section(const struct checks_section *s, const struct config *c,
                       struct faults *f);

/* Checks the whole file. `listen_known`: false if 'listen' had a fault, so that no address can
 * be compared with it. `address_line`: line of the upstream's address; 0: none. */
void checks_on_file(const struct config *c, bool listen_known, int address_line,
                    struct faults *f);

/* --- checks_quorum.c --- */

/* Checks that [quorum NAME], and the sections that name it, keep locks safe. */

/* Limit of servers in a quorum. */
#define QUORUM_SERVERS_MAX 15

/* Checks a [quorum NAME] section at the section's end. */
void checks_quorum_servers(const struct quorum_settings *q, struct faults *f);
/* Checks `quorum` of [verbs] and of rules, and the options that it affects. Call it when all
 * files are read. */
void checks_quorum_users(const struct config *c, struct faults *f);

/* --- config.c --- */

/* Appends the option's value in the struct `base`; "none" if it has none, or `base` is NULL. */
void config_print(const struct option *o, const void *base, struct buf *out);
/* If the option's value differs, appends "'NAME' in [SECTION]: OLD -> NEW", and returns true.
 * `was` or `will` is NULL if one of the configurations does not have the section. */
bool config_print_change(const struct option *o, const void *was, const void *will,
                         struct buf *out);

/* --- load.c --- */

/* Fills `c`, which has its defaults, from a file and the files that it includes. Returns the
 * number of faults. */
size_t load_files(struct config *c, const char *path, struct buf *faults, struct buf *warnings)
	__attribute__((warn_unused_result));

#endif
