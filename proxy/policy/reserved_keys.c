/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/reserved_keys.h"

#include "commands/args.h"
#include "commands/command.h"

const char reserved_keys_error[] =
	"NOPERM hasp: keys that begin with hasp: are reserved; clients may only read them";

bool reserved_keys_are_protected(const struct policy_env *env)
{
	const struct config *config = env->config;

	return !config->allow_reserved_keys &&
	       (env->rules_enforce || env->guards_enforce || config->verbs.enabled);
}

bool reserved_keys_are_written(const struct command_info *what, const struct resp_view *req)
{
	const struct command *c = what->command;
	struct key_args keys;
	bool written = false;

	/* Redis refuses the command as it is. */
	if (!what->may_release || req->argc < 2 || !command_arity_ok(c, req->argc) ||
	    !reserved_keys_are_named(req->argv + 1, req->argc - 1))
		return false;
	/* Only Redis knows which arguments are keys. */
	if (c->flags & COMMAND_HIDDEN_KEYS)
		return true;
	key_args_init(&keys, c, req);
	if (command_runs_script(c) || command_writes(c, keys.n))
		for (size_t i = 0; i < keys.n; i++)
			written |= command_writes_key(c, i, keys.n) &&
			           match_is_own(req->argv[keys.v[i]]);
	key_args_fini(&keys);
	return written;
}

/* True if all keys of EVAL script numkeys key ... have arrived. */
static bool has_all_keys(const struct resp_view *beginning)
{
	int64_t n;

	if (beginning->argc < 3)
		return false;
	/* Redis refuses such a number. */
	if (!args_integer(beginning->argv[2], &n) || n < 0)
		return true;
	return (uint64_t)n <= beginning->argc - 3;
}

bool reserved_keys_are_untouched(const struct command_info *what,
                                 const struct resp_view *beginning)
{
	const struct command *c = what->command;

	if (!what->may_release)
		return true;
	if (command_single_key(c))
		return beginning->argc > 1 && !match_is_own(beginning->argv[1]);
	return command_runs_script(c) && has_all_keys(beginning) &&
	       !reserved_keys_are_written(what, beginning);
}
