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

bool reserved_keys_are_written(const struct context *x)
{
	const struct command *c = x->what->command;
	size_t n = x->keys.n;
	bool written = false;

	if (!x->what->may_release)
		return false;
	/* Only Redis knows which arguments are keys. */
	if (c->flags & COMMAND_HIDDEN_KEYS)
		return reserved_keys_are_named(x->req->argv + 1, x->req->argc - 1);
	if (command_runs_script(c) || command_writes(c, n))
		for (size_t i = 0; i < n; i++)
			written |= command_writes_key(c, i, n) &&
			           match_is_own(context_key(x, i));
	return written;
}

/* True if all keys of EVAL script numkeys key ... have arrived. */
static bool has_all_keys(const struct resp_view *beginning)
{
	int64_t n;

	if (beginning->argc < 3)
		return false;
	/* Redis refuses the command. */
	if (!args_integer(beginning->argv[2], &n) || n < 0)
		return true;
	return (uint64_t)n <= beginning->argc - 3;
}

bool reserved_keys_are_untouched(const struct context *x)
{
	const struct command *c = x->what->command;

	if (!x->what->may_release)
		return true;
	if (command_single_key(c))
		return x->keys.n && !match_is_own(context_key(x, 0));
	return command_runs_script(c) && has_all_keys(x->req) && !reserved_keys_are_written(x);
}
