/* SPDX-License-Identifier: BSD-3-Clause
 *
 * own_keys: hasp's own keys, `hasp:*`, which say who has a lock, who waits and how far fencing
 * tokens have risen. Clients may read them, and are refused to write them, by themselves or by
 * a script that names them. (What a script does to keys that it does not name, Redis' users and
 * their permissions are for.) Where hasp keeps no locks, the keys of that name are the
 * application's.
 */
#ifndef HASP_POLICY_OWN_KEYS_H
#define HASP_POLICY_OWN_KEYS_H

#include "config/match.h"
#include "policy/context.h"

/* The error that answers such a write. */
extern const char own_keys_error[];

/* Of the configuration in force: are they protected? */
bool own_keys_are_protected(const struct policy_env *env);

/* Might the request, `args` behind its name, write one? True: own_keys_are_written() decides.
 */
static inline bool own_keys_are_named(const struct slice *args, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (match_is_own(args[i]))
			return true;
	return false;
}

/* Does the whole request write one? */
bool own_keys_are_written(const struct command_info *what, const struct resp_view *req);

/* Is it certain that the request, of which only the beginning is there, writes none? */
bool own_keys_are_untouched(const struct command_info *what, const struct resp_view *beginning);

#endif
