/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/observe.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "commands/key_args.h"
#include "config/match.h"
#include "policy/guard_keys.h"
#include "watch/observation.h"

/* What a configuration has of them; entries are NULL for those that are enforced. */
struct observed_rules {
	struct tracker_rule **rules;
	struct tracker_rule **guards;
};

void observe_fini(struct policy_env *env)
{
	if (!env->observed)
		return;
	free(env->observed->rules);
	free(env->observed->guards);
	free(env->observed);
	env->observed = NULL;
}

void observe_use_config(struct policy_env *env)
{
	const struct config *config = env->config;
	struct observers *all = env->observers;
	struct observed_rules *o = xcalloc(1, sizeof(*o));

	observe_fini(env);
	env->observed = o;
	o->rules = xcalloc(config->nrules + 1, sizeof(struct tracker_rule *));
	o->guards = xcalloc(config->nguards + 1, sizeof(struct tracker_rule *));
	pthread_mutex_lock(&all->lock);
	for (size_t i = 0; i < config->nrules; i++) {
		const struct rule *rule = config->rules[i];
		if (rule->mode != MODE_OBSERVE)
			continue;
		o->rules[i] = tracker_rule(all->tracker, TRACKER_LOCK, rule->section.name);
		tracker_rule_by_value(o->rules[i], rule->owner == OWNER_VALUE);
	}
	for (size_t i = 0; i < config->nguards; i++) {
		const struct guard *g = config->guards[i];
		if (g->mode != MODE_OBSERVE)
			continue;
		o->guards[i] = tracker_rule(all->tracker, TRACKER_GUARD, g->section.name);
	}
	pthread_mutex_unlock(&all->lock);
}

static bool same_name(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static struct observer *observer_of(const struct context *x)
{
	struct observer *o = *x->observer;
	struct observers *all = x->env->observers;
	const char *name = x->session->name;
	struct buf called = BUF_INIT;

	if (o && same_name(o->name, name))
		return o;
	owner_describe(&called, x->identity(x->arg), name);
	buf_append(&called, slice_of("", 1));
	if (!o) {
		o = *x->observer = xcalloc(1, sizeof(*o));
		o->all = all;
		o->client = tracker_client_new(buf_head(&called));
	} else {
		pthread_mutex_lock(&all->lock);
		tracker_client_rename(o->client, buf_head(&called));
		pthread_mutex_unlock(&all->lock);
	}
	free(o->name);
	o->name = name ? xstrdup(name) : NULL;
	buf_release(&called);
	return o;
}

static void add_key(struct observation *o, const struct context *x, struct slice key,
                    enum owner_kind owner, const struct observed_key *how)
{
	/* What a connection stores is its own. */
	struct slice token = context_token(x, owner == OWNER_VALUE ? OWNER_CONNECTION : owner,
	                                   &x->env->token);
	struct observed_key *k = &o->keys[o->n++];

	*k = *how;
	k->ntoken = token.n;
	k->nkey = key.n;
	buf_append(&o->bytes, token);
	buf_append(&o->bytes, key);
}

/* `i`: the number of the key among those of the command. */
static void observe_guarded(struct observation *o, const struct context *x, struct slice key,
                            size_t i, const struct guard *g)
{
	struct observed_key k = { .rule = x->env->observed->guards[g->section.index] };

	switch (guard_key_use(x, g, i, o->nargs, &k.releases)) {
	case GUARD_READ:
		k.act = EFFECT_READ;
		break;
	case GUARD_WRITTEN:
		/* An expiry is no update. */
		if (o->effect.act == EFFECT_EXPIRE || o->effect.act == EFFECT_PERSIST)
			return;
		k.act = EFFECT_WRITE;
		break;
	case GUARD_IGNORED:
		return;
	}
	add_key(o, x, key, OWNER_CONNECTION, &k);
}

static void observe_key(struct observation *o, const struct context *x, struct slice key,
                        size_t i)
{
	const struct observed_rules *observed = x->env->observed;
	const struct rule *rule = match_rule(x->env->matcher, key);
	const struct guard *g = rule ? NULL : match_guard(x->env->matcher, key);

	if (rule && observed->rules[rule->section.index]) {
		struct observed_key k = {
			.rule = observed->rules[rule->section.index],
			.act = o->effect.act,
			.is_lock = true,
			.lease_ms = o->effect.lease_ms,
		};
		if (x->what->command->facts.value != VALUE_NONE)
			k.act = EFFECT_READ;
		if (k.act == EFFECT_READ || (command_writes(x->what->command, o->nargs) &&
		                             !command_only_gets(x->what->command, x->req)))
			add_key(o, x, key, rule->owner, &k);
	} else if (g && observed->guards[g->section.index]) {
		observe_guarded(o, x, key, i, g);
	}
}

/* NULL: no key is observed. */
static struct observation *observe_keys(const struct context *x)
{
	const struct command *c = x->what->command;
	struct key_args args;
	struct observation *o;

	key_args_init(&args, c, x->req);
	o = xcalloc(1, sizeof(*o) + args.n * sizeof(o->keys[0]));
	o->nargs = args.n;
	o->effect = effect_of(c, x->req, x->env->date);
	for (size_t i = 0; i < args.n; i++)
		observe_key(o, x, x->req->argv[args.v[i]], i);
	key_args_fini(&args);
	if (o->n == 0) {
		observation_free(o);
		return NULL;
	}
	o->observer = observer_of(x);
	o->sent_at = session_in_multi(x->session) ? 0 : x->env->observers->clock();
	return o;
}

void observe(struct context *x, struct decision *d)
{
	struct observation *o;

	/* hasp would not see the answer. */
	if (x->session->opaque)
		return;
	o = observe_keys(x);
	if (o)
		context_note(x, d, &(struct noted){ .observation = o });
}
