/* SPDX-License-Identifier: BSD-3-Clause
 *
 * classifier: the facts that follow from a command's name alone, before its arguments are read.
 * hasp looks them up once and remembers them until the configuration, or COMMAND's reply,
 * changes: applications send a dozen different commands, and most requests begin like an
 * earlier one.
 *
 *   *2\r\n$3\r\nGET\r\n...  --classifier_recall()--> the facts about GET, and two arguments
 *            `--- classifier_find() <- look up
 */
#ifndef HASP_POLICY_CLASSIFIER_H
#define HASP_POLICY_CLASSIFIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/slice.h"
#include "policy/context.h"

/* A remembered request begins with `*A\r\n$N\r\nNAME\r\n`: A and N have one digit, and NAME has
 * up to six bytes. hasp compares these bytes as two words, the second one only up to the end of
 * NAME's line. */
#define PREFIX_BYTES ((size_t)16)
#define PREFIX_NAME ((size_t)8) /* offset of the name */
#define PREFIX_NAME_MAX ((size_t)6)

struct command_prefix {
	uint64_t head;
	uint64_t name;
	uint64_t mask; /* 1 for each bit of `name` that hasp compares */
	size_t name_len;
	size_t argc; /* number of the request's arguments; 0: the slot is empty */
	struct command_info what;
};

#define PREFIXES_BITS 6
#define PREFIXES (1 << PREFIXES_BITS)

/* classifier_find() remembers names of at most this many bytes. */
#define NAME_MAX_CACHED ((size_t)24)
struct cached_name {
	char name[NAME_MAX_CACHED]; /* as the client sent it */
	size_t n; /* length of `name`; 0: the slot is empty */
	struct command_info what;
};
#define CACHED_NAMES 64 /* a power of two */

/* The commands that one worker remembers. */
struct classifier {
	struct command_prefix prefixes[PREFIXES];
	struct cached_name kept[CACHED_NAMES];
};
/* Forgets all commands. Call it when the configuration, or COMMAND's reply, has changed. */
void classifier_reset(struct classifier *classifier);

/* Returns the facts about `name`, which may have any length, be in any case, and be unknown. */
struct command_info classifier_find(const struct policy_env *env, struct slice name);

/* Remembers `what` for requests that begin like the request at `p`. That request is whole, has
 * `argc` short arguments, and its name has `name_len` bytes. */
void classifier_remember(struct classifier *classifier, const char *p, size_t argc,
                         size_t name_len, const struct command_info *what);

/* Hashes `head`, the first word of a request, and the first two bytes of `name`. Returns the
 * index in `prefixes`: the highest bits, because these depend on all hashed bits. */
static inline size_t classifier_place(uint64_t head, const char *name)
{
	uint16_t first_two;

	memcpy(&first_two, name, sizeof(first_two));
	return (head * 0x9e3779b97f4a7c15 + first_two * 0xc2b2ae3d27d4eb4f) >>
	       (64 - PREFIXES_BITS);
}

/* Returns the remembered prefix with which the `n` bytes at `p` begin; NULL: there is none. A
 * prefix ends with the line that has the command's name. */
static inline const struct command_prefix *classifier_recall(
	const struct classifier *classifier, const char *p, size_t n)
{
	const struct command_prefix *b;
	uint64_t head, name;

	if (n < PREFIX_BYTES)
		return NULL;
	memcpy(&head, p, sizeof(head));
	b = &classifier->prefixes[classifier_place(head, p + PREFIX_NAME)];
	memcpy(&name, p + PREFIX_NAME, sizeof(name));
	return head == b->head && (name & b->mask) == b->name && b->argc ? b : NULL;
}

#endif
