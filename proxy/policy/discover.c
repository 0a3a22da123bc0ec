/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/discover.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "commands/args.h"
#include "commands/key_args.h"
#include "config/match.h"
#include "watch/sighting.h"

/* EVAL script numkeys key ... arg ... */
#define SCRIPT_NUMKEYS 2

/* EXISTS and TOUCH: their answer tells whether there is a key. */
static bool counts_keys(const struct command *c)
{
	return !(c->flags & COMMAND_WRITE) && c->facts.cluster == CLUSTER_COUNT;
}

bool discover_concerns(const struct command *c)
{
	if (c->keys == KEYS_NONE || (c->flags & COMMAND_BLOCKING))
		return false;
	return (c->flags & COMMAND_WRITE) || c->facts.value != VALUE_NONE || counts_keys(c) ||
	       command_runs_script(c);
}

bool discover_may_sample(const struct command *c)
{
	if (!command_single_key(c) || command_runs_script(c))
		return false;
	return c->facts.value != VALUE_NONE || counts_keys(c) ||
	       c->facts.act == EFFECT_CHANGE || c->facts.act == EFFECT_SET;
}

/* May one of the options of SET be NX? */
static bool may_say_nx(const struct slice *options, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (options[i].n == 2 && (*options[i].p == 'N' || *options[i].p == 'n'))
			return true;
	return false;
}

bool discover_wants(const struct discoverer *all, const struct command *c,
                    const struct slice *argv, size_t argc)
{
	if (c->facts.expiry == EXPIRY_OPTIONS && argc > 3 && may_say_nx(argv + 3, argc - 3))
		return true;
	return sampling_wants(all->sampling, argv[1]);
}

/* The last argument of SETNX, SETEX and PSETEX; the one behind the key of SET and GETSET. */
static uint64_t value_hash(const struct context *x)
{
	const struct command *c = x->what->command;
	size_t at = c->facts.expiry == EXPIRY_SECONDS || c->facts.expiry == EXPIRY_MS ? 3 : 2;

	if (at >= x->req->argc)
		return 0;
	return discovery_hash(x->env->discoverer->discovery, x->req->argv[at]);
}

static void see_script(struct sighting *s, const struct context *x)
{
	const struct resp_view *req = x->req;
	int64_t numkeys;

	s->kind = SIGHTING_SCRIPT;
	if (req->argc <= SCRIPT_NUMKEYS || !args_integer(req->argv[SCRIPT_NUMKEYS], &numkeys) ||
	    numkeys < 0 || (uint64_t)numkeys >= req->argc)
		return;
	for (size_t i = SCRIPT_NUMKEYS + 1 + (size_t)numkeys;
	     i < req->argc && s->nargs < SIGHTING_ARGS_MAX; i++)
		s->args[s->nargs++] = discovery_hash(x->env->discoverer->discovery,
		                                     req->argv[i]);
}

static void see_effect(struct sighting *s, const struct context *x)
{
	const struct command *c = x->what->command;

	s->kind = SIGHTING_EFFECT;
	s->effect = effect_of(c, x->req, x->env->date);
	if (s->effect.act == EFFECT_ACQUIRE || s->effect.act == EFFECT_SET)
		s->value = value_hash(x);
	s->way = c->facts.rule == RULE_SETNX ? DISCOVERY_SETNX : DISCOVERY_SET_NX;
}

static bool is_covered(const struct context *x, struct slice key)
{
	if (!(match_possible(x->env->config, key) & (MATCH_RULE | MATCH_GUARD)))
		return false;
	return match_rule(x->env->matcher, key) || match_guard(x->env->matcher, key);
}

/* NULL: it names no key after all. */
static struct sighting *see(const struct context *x)
{
	const struct command *c = x->what->command;
	struct discoverer *all = x->env->discoverer;
	struct key_args args;
	struct sighting *s = NULL;

	key_args_init(&args, c, x->req);
	if (args.n > 0)
		s = xcalloc(1, sizeof(*s) + args.n * sizeof(s->keys[0]));
	for (size_t i = 0; i < args.n; i++) {
		struct slice key = x->req->argv[args.v[i]];
		s->keys[s->n++] = (struct sighted_key){ key.n, is_covered(x, key) };
		buf_append(&s->bytes, key);
	}
	key_args_fini(&args);
	if (!s)
		return NULL;
	s->all = all;
	if (command_runs_script(c)) {
		see_script(s, x);
	} else if (c->facts.value != VALUE_NONE) {
		s->kind = SIGHTING_READ;
		s->how = c->facts.value == VALUE_ONE ? DISCOVERY_GET : DISCOVERY_MGET;
	} else if (counts_keys(c)) {
		s->kind = SIGHTING_LOOK;
	} else {
		see_effect(s, x);
	}
	s->watches = session_in_multi(x->session) && x->session->txn.watching;
	s->under_lock = !list_empty(&x->holds->holds);
	s->sent_at = session_in_multi(x->session) ? 0 : all->clock();
	atomic_fetch_add_explicit(&all->commands, 1, memory_order_relaxed);
	discoverer_see_client(all, x->discovered, x->identity(x->arg)->address,
	                      x->session->name);
	s->client = *x->discovered;
	return s;
}

void discover(struct context *x, struct decision *d)
{
	struct sighting *s;

	/* hasp would not see the answer. */
	if (x->session->opaque)
		return;
	s = see(x);
	if (s)
		context_note(x, d, &(struct noted){ .sighting = s });
}
