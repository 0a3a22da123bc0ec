/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/classifier.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "commands/learn.h"
#include "config/match.h"
#include "policy/policy_env.h"
#include "policy/policy_internal.h"

void classifier_reset(struct classifier *classifier)
{
	memset(classifier, 0, sizeof(*classifier));
}

static bool find_verb(const struct verbs *v, struct slice name, enum verb *verb)
{
	if (!v->enabled)
		return false;
	for (size_t i = 0; i < VERB_COUNT; i++) {
		if (slice_is(name, v->names[i])) {
			*verb = (enum verb)i;
			return true;
		}
	}
	return false;
}

static bool is_write(const struct policy_env *env, const struct command *c)
{
	return env->rules_enforce && c && (c->flags & COMMAND_WRITE) &&
	       !(c->flags & (COMMAND_NOSCRIPT | COMMAND_BLOCKING));
}

/* True if the command acquires a guard in this mode. */
static bool guard_acquires(const struct config *config, enum rule_mode mode, struct slice name)
{
	for (size_t i = 0; i < config->nguards; i++)
		if (config->guards[i]->mode == mode && match_acquires(config->guards[i], name))
			return true;
	return false;
}

static bool guard_concerns(const struct policy_env *env, const struct command_info *what,
                           struct slice name)
{
	const struct command *c = what->command;

	if (!env->guards_enforce || command_info_is_session(what) || what->is_verb)
		return false;
	if (guard_acquires(env->config, MODE_ENFORCE, name))
		return true;
	/* A command that hasp does not know yet may do anything. */
	if (!c)
		return !commands_are_learned(env->commands);
	/* Like rules, guards do not apply to writes that may block, such as BLPOP. */
	return command_runs_script(c) ||
	       ((c->flags & COMMAND_WRITE) && !(c->flags & COMMAND_BLOCKING));
}

static bool quorum_concerns(const struct policy_env *env, const struct command *c)
{
	return env->rules_quorum && c &&
	       (c->keys != KEYS_NONE || (c->flags & COMMAND_HIDDEN_KEYS));
}

static bool observe_concerns(const struct policy_env *env, const struct command_info *what,
                             struct slice name)
{
	const struct command *c = what->command;

	if (!c || command_info_is_session(what) || what->is_verb || !env->observes)
		return false;
	if ((c->flags & COMMAND_WRITE) && !(c->flags & (COMMAND_BLOCKING | COMMAND_NOSCRIPT)))
		return true;
	/* A reply may show a lock's value, and a script may release a lock. */
	if (c->facts.value != VALUE_NONE || (command_runs_script(c) && c->keys != KEYS_NONE))
		return true;
	return guard_acquires(env->config, MODE_OBSERVE, name);
}

static bool may_release(const struct command *c)
{
	bool has_keys = c->keys != KEYS_NONE || (c->flags & COMMAND_HIDDEN_KEYS);

	return has_keys && ((c->flags & COMMAND_WRITE) || command_runs_script(c));
}

static struct command_info look_up(const struct policy_env *env, struct slice name)
{
	const struct config *config = env->config;
	const struct command *known = commands_find(env->commands, name);
	struct command_info what = { .session = known ? known->facts.session
		                                      : SESSION_DEFAULT };

	what.is_verb = find_verb(&config->verbs, name, &what.verb);
	if (!command_info_is_session(&what) && !what.is_verb &&
	    (config->nrules || config->nguards || config->verbs.enabled ||
	     config->pooling == POOLING_SHARED || config->discover)) {
		what.command = commands_get(env->commands, name);
		what.is_unknown = !what.command && commands_are_learned(env->commands);
	}
	what.may_release = what.command && may_release(what.command);
	what.is_write = is_write(env, what.command);
	what.is_guarded = guard_concerns(env, &what, name);
	what.acquires = what.is_guarded && guard_acquires(config, MODE_ENFORCE, name);
	what.is_observed = observe_concerns(env, &what, name);
	what.is_discovered = config->discover && what.command && watched_concerns(what.command);
	what.is_sampled = what.is_discovered && watched_may_sample(what.command);
	what.may_be_quorums = quorum_concerns(env, what.command);
	what.is_matched = what.is_write || what.is_guarded || what.is_observed ||
	                  what.may_be_quorums;
	what.reads_value = (env->values_matter || env->reads_matter) && what.command &&
	                   what.command->facts.value != VALUE_NONE;
	what.may_be_slow = known && command_may_be_slow(known);
	what.blocks = known && (known->flags & COMMAND_BLOCKING);
	/* Commands that may block are not plain, because the session must know of them. */
	what.is_plain = !command_info_is_session(&what) && !what.is_verb && !what.is_unknown &&
	                what.session != SESSION_OWN_LINK && !what.may_be_slow &&
	                what.is_discovered == what.is_sampled &&
	                ((!what.is_matched && !what.reads_value) ||
	                 (what.command && command_single_key(what.command)));
	what.never_inspect = what.is_plain && !what.is_matched && !what.reads_value &&
	                     !what.may_release && !what.is_discovered;
	what.is_stateless = what.command && (what.command->flags & COMMAND_STATELESS);
	return what;
}

/* Compares a few bytes faster than a call of memcmp(). */
static inline bool same_bytes(const char *a, const char *b, size_t n)
{
	while (n && a[n - 1] == b[n - 1])
		n--;
	return n == 0;
}

struct command_info classifier_find(const struct policy_env *env, struct slice name)
{
	size_t first = name.n ? (unsigned char)name.p[0] : 0;
	size_t last = name.n ? (unsigned char)name.p[name.n - 1] : 0;
	struct cached_name *slot =
		&env->classifier->kept[(first * 7 + last * 3 + name.n) & (CACHED_NAMES - 1)];

	struct command_info what;

	if (slot->n == name.n && name.n && same_bytes(slot->name, name.p, name.n))
		return slot->what;
	what = look_up(env, name);
	/* Do not remember an unknown name: the server may know the command the next time. */
	if (what.is_unknown) {
		unknown_commands_add(env->unknown_commands, name);
	} else if (name.n && name.n <= NAME_MAX_CACHED) {
		slot->n = name.n;
		memcpy(slot->name, name.p, name.n);
		slot->what = what;
	}
	return what;
}

void classifier_remember(struct classifier *classifier, const char *p, size_t argc,
                         size_t name_len, const struct command_info *what)
{
	struct command_prefix *b;
	uint64_t head;

	if (argc > 9 || name_len > PREFIX_NAME_MAX || what->is_unknown)
		return;
	memcpy(&head, p, sizeof(head));
	b = &classifier->prefixes[classifier_place(head, p + PREFIX_NAME)];
	*b = (struct command_prefix){
		.head = head, .name_len = name_len, .argc = argc, .what = *what
	};
	memset(&b->mask, 0xff, name_len + 2);
	memcpy(&b->name, p + PREFIX_NAME, name_len + 2);
}
