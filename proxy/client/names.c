/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/names.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "client/client.h"
#include "client/guarding.h"
#include "client/observe.h"
#include "client/special.h"
#include "lock/guarded.h"

struct names *names_new(void)
{
	return xcalloc(1, sizeof(struct names));
}

void names_free(struct names *names)
{
	free(names);
}

void names_forget(struct names *names)
{
	memset(names, 0, sizeof(*names));
}

static bool find_verb(const struct verbs *v, struct slice name, enum verb *verb)
{
	const char *names[] = {
		[VERB_LOCK] = v->lock,
		[VERB_UNLOCK] = v->unlock,
		[VERB_EXTEND] = v->extend,
		[VERB_INFO] = v->info,
	};

	if (!v->enabled)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (slice_is(name, names[i])) {
			*verb = (enum verb)i;
			return true;
		}
	}
	return false;
}

static bool is_write(const struct client_env *env, const struct command *c)
{
	return env->rules_enforce && c && (c->flags & COMMAND_WRITE) &&
	       !(c->flags & (COMMAND_NOSCRIPT | COMMAND_BLOCKING));
}

static struct resolved look_up(const struct client_env *env, struct slice name)
{
	const struct config *config = env->config;
	struct resolved what = { .special = special_find(name) };

	what.is_verb = find_verb(&config->verbs, name, &what.verb);
	if (!what.special && !what.is_verb &&
	    (config->nrules || config->nguards || config->verbs.enabled ||
	     config->pooling == POOLING_SHARED))
		what.command = commands_get(env->commands, name);
	/* Of those that are no writes, only scripts could; they have counted keys. */
	what.may_release = what.command && what.command->keys != KEYS_NONE &&
	                   ((what.command->flags & COMMAND_WRITE) ||
	                    what.command->keys == KEYS_COUNTED);
	what.is_write = is_write(env, what.command);
	what.is_guarded = guarding_concerns(env, &what, name);
	what.acquires = what.is_guarded && guarding_acquires(env, name);
	what.fitness = what.is_guarded ? guarded_fitness(name) : 0;
	what.is_observed = observe_concerns(env, &what, name);
	/* A request that blocks must be known as such. */
	what.is_plain = !what.special && !what.is_verb &&
	                !(what.command && (what.command->flags & COMMAND_BLOCKING)) &&
	                ((!what.is_write && !what.is_guarded && !what.is_observed) ||
	                 (what.command && command_single_key(what.command)));
	what.is_free = what.is_plain && !what.is_write && !what.is_guarded &&
	               !what.is_observed && !what.may_release;
	what.is_stateless = what.command && (what.command->flags & COMMAND_STATELESS);
	return what;
}

/* Of a few: a call would take longer. */
static inline bool same_bytes(const char *a, const char *b, size_t n)
{
	while (n && a[n - 1] == b[n - 1])
		n--;
	return n == 0;
}

struct resolved names_resolve(const struct client_env *env, struct slice name)
{
	size_t first = name.n ? (unsigned char)name.p[0] : 0;
	size_t last = name.n ? (unsigned char)name.p[name.n - 1] : 0;
	struct kept_name *slot =
		&env->names->kept[(first * 7 + last * 3 + name.n) & (KEPT_NAMES - 1)];

	if (name.n == 0 || name.n > NAME_MAX_KEPT)
		return look_up(env, name);
	if (slot->n != name.n || !same_bytes(slot->name, name.p, name.n)) {
		slot->n = name.n;
		memcpy(slot->name, name.p, name.n);
		slot->what = look_up(env, name);
	}
	return slot->what;
}

void names_remember(struct names *names, const char *p, size_t argc, size_t name_len,
                    const struct resolved *what)
{
	struct beginning *b;

	if (argc > 9 || name_len > BEGINNING_NAME_MAX)
		return;
	b = &names->beginnings[names_place(p)];
	*b = (struct beginning){ .name_len = name_len, .argc = argc, .what = *what };
	memcpy(&b->head, p, sizeof(b->head));
	memset(&b->mask, 0xff, name_len + 2);
	memcpy(&b->name, p + BEGINNING_NAME, name_len + 2);
}
