/* SPDX-License-Identifier: BSD-3-Clause
 *
 * command: what is known of Redis' commands: whether they write and which
 * arguments are keys. Starts from a built-in table (Redis 7.0's own) and takes
 * in what the server's COMMAND answers, so that modules' and later commands
 * are known too. Source: https://redis.io/commands/command
 */
#ifndef HASP_COMMANDS_COMMAND_H
#define HASP_COMMANDS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "resp/view.h"

enum {
	COMMAND_WRITE = 1 << 0,
	COMMAND_NOSCRIPT = 1 << 1, /* refused inside scripts */
	COMMAND_BLOCKING = 1 << 2, /* may wait for data */
	COMMAND_STATELESS = 1 << 3, /* whose connection it comes on makes no difference */
	COMMAND_HIDDEN_KEYS = 1 << 4, /* it may have keys where nobody here knows */
	COMMAND_TOLD = 1 << 5, /* the server has it; else only the built-in table */
	COMMAND_READONLY = 1 << 6, /* changes nothing, as the server has told */
};

/* Where keys stand that first/last/step cannot tell. */
enum command_keys {
	KEYS_RANGE, /* first, last, step */
	KEYS_STORE, /* the range, and the argument behind STORE or STOREDIST */
	KEYS_COUNTED, /* argv[first] is numkeys, the keys follow */
	KEYS_DEST_COUNTED, /* a destination at 1, numkeys at 2, keys follow */
	KEYS_NONE, /* cannot be told, or has none; so too after `first` = 0 */
};

struct command {
	char name[24]; /* lower case */
	uint8_t flags;
	uint8_t keys; /* enum command_keys */
	int16_t first; /* argv index; 0: no keys */
	int16_t last; /* argv index; negative: counted from the end */
	int16_t step;
	int16_t arity; /* as COMMAND tells it: -n is n or more, 0: not known */
};

struct commands; /* the table */

struct commands *commands_new(void); /* holds the built-in table */
void commands_free(struct commands *t); /* NULL is allowed */

/* Takes in a command as COMMAND tells it, over what was known; an arity of 0 leaves
 * the known one. A name that is empty, or fills name[] without a NUL, is passed over. */
void commands_put(struct commands *t, const struct command *c);

/* The server has told its commands: what is not in the table now does not exist there. */
void commands_set_learned(struct commands *t);
bool commands_are_learned(const struct commands *t);

/* Case-insensitive. NULL: not known. */
const struct command *commands_get(const struct commands *t, struct slice name);

/* Writes the argv indices of the command's keys, ascending, to `out` (room for `max`).
 * Returns how many there are, which may exceed `max`. */
size_t command_key_args(const struct command *c, const struct resp_view *req, size_t *out,
                        size_t max);

/* Whether Redis would take this many arguments (the name included). Where it would
 * not, the error is its own to word. */
bool command_arity_ok(const struct command *c, size_t argc);

/* True when argv[1] is the only key that the command can have. */
bool command_single_key(const struct command *c);

#endif
