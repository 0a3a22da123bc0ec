/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reserved_keys: hasp's own keys, `hasp:*`, which store owners, waiters and the last fencing
 * token. Clients may read them, but hasp refuses their writes, by a command or by a script that
 * names them. (Against scripts that write keys without naming them, restrict the permissions of
 * Redis' users.) If hasp keeps no locks, keys of that name belong to the application.
 */
#ifndef HASP_POLICY_RESERVED_KEYS_H
#define HASP_POLICY_RESERVED_KEYS_H

#include "config/match.h"
#include "policy/context.h"

/* The error that answers a write of these keys. */
extern const char reserved_keys_error[];

/* True if the configuration in force protects these keys. */
bool reserved_keys_are_protected(const struct policy_env *env);

/* True if the request, with `args` after its name, might write a reserved key:
 * reserved_keys_are_written() decides. */
static inline bool reserved_keys_are_named(const struct slice *args, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (match_is_own(args[i]))
			return true;
	return false;
}

/* True if the command of a whole request writes a reserved key. */
bool reserved_keys_are_written(const struct context *x);

/* True if the command, of which only the beginning has come, writes no reserved key. */
bool reserved_keys_are_untouched(const struct context *x);

#endif
