/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watched: reports to the tracker (watch/tracker.h) what passing commands do to their keys,
 * after Redis has answered them. hasp watches the keys of rules and guards in mode OBSERVE;
 * with `hasp --discover` or a section [discover], it watches all keys. Nothing changes for the
 * client.
 *
 *   request --passed as it came--> Redis --> reply --> the client
 *       `--> command sample -------------------`--> tracker --> log, reports
 *
 * The tracker sees commands in the order of their answers. On one link, Redis ran the commands
 * in this order; between links, hasp sees only when the answers arrive. hasp reports an answer
 * before the client gets it, except EXEC's, and answers to commands on locks that clients wait
 * for. No command waits for another because it is watched.
 *
 * The tracker does not see commands that block, commands without an answer (CLIENT REPLY),
 * commands that an enforced rule rewrites, nor which keys a script writes. If a command is so
 * long that hasp streams it, the tracker sees the command only if it writes one guarded key.
 */
#include "policy/dispatch.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/sha1.h"
#include "commands/args.h"
#include "config/match.h"
#include "policy/policy_internal.h"
#include "watch/command_sample.h"

/* Index of numkeys in EVAL script numkeys key ... arg ... */
#define SCRIPT_NUMKEYS 2

/* --- which commands ----------------------------------------------------------------------- */

/* True for EXISTS, TOUCH, TTL and PTTL, whose reply shows whether the key exists. */
static bool shows_absence(const struct command *c)
{
	return !(c->flags & COMMAND_WRITE) &&
	       (c->facts.cluster == CLUSTER_COUNT || c->facts.noop == NOOP_ABSENT);
}

bool watched_concerns(const struct command *c)
{
	if (c->keys == KEYS_NONE || (c->flags & COMMAND_BLOCKING))
		return false;
	return (c->flags & COMMAND_WRITE) || c->facts.value != VALUE_NONE || shows_absence(c) ||
	       command_runs_script(c) || command_single_key(c);
}

bool watched_may_sample(const struct command *c)
{
	if (!command_single_key(c) || command_runs_script(c))
		return false;
	return !(c->flags & COMMAND_WRITE) || c->facts.act == EFFECT_CHANGE ||
	       c->facts.act == EFFECT_SET;
}

/* True if one of SET's options could be NX. */
static bool may_say_nx(const struct slice *options, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (options[i].n == 2 && (*options[i].p == 'N' || *options[i].p == 'n'))
			return true;
	return false;
}

bool watched_wants(const struct shared_tracker *all, const struct command *c,
                   const struct slice *argv, size_t argc)
{
	if (c->facts.expiry == EXPIRY_OPTIONS && argc > 3 && may_say_nx(argv + 3, argc - 3))
		return true;
	return sampling_wants(all->sampling, argv[1]);
}

/* --- the effects of commands -------------------------------------------------------------- */

static uint64_t hash(const struct context *x, struct slice s)
{
	return tracker_hash(x->env->tracker->tracker, s);
}

/* Hashes the last argument of SETNX, SETEX and PSETEX, or the argument after the key of SET
 * and GETSET. */
static uint64_t value_hash(const struct context *x)
{
	const struct command *c = x->what->command;
	size_t at = c->facts.expiry == EXPIRY_SECONDS || c->facts.expiry == EXPIRY_MS ? 3 : 2;

	return at < x->req->argc ? hash(x, x->req->argv[at]) : 0;
}

/* Hashes the script; FCALL: the function's name. EVAL and EVALSHA of one script have the same
 * hash. */
static uint64_t script_hash(const struct context *x)
{
	char hex[SHA1_HEX + 1];

	if (strcmp(x->what->command->name, "eval") != 0)
		return hash(x, x->req->argv[1]);
	sha1_hex(hex, &x->req->argv[1], 1);
	return hash(x, slice_str(hex));
}

static void see_script(struct command_sample *s, const struct context *x)
{
	const struct resp_view *req = x->req;
	int64_t numkeys;

	s->kind = COMMAND_SAMPLE_SCRIPT;
	s->script = script_hash(x);
	if (req->argc <= SCRIPT_NUMKEYS ||
	    !slice_integer(req->argv[SCRIPT_NUMKEYS], &numkeys) || numkeys < 0 ||
	    (uint64_t)numkeys >= req->argc)
		return;
	for (size_t i = SCRIPT_NUMKEYS + 1 + (size_t)numkeys;
	     i < req->argc && s->nscript_args < COMMAND_SAMPLE_ARGS_MAX; i++)
		s->script_args[s->nscript_args++] = hash(x, req->argv[i]);
}

/* Records the fields of a command such as HGET, HSET or HDEL. */
static void see_fields(struct command_sample *s, const struct context *x)
{
	const struct command *c = x->what->command;
	const struct resp_view *req = x->req;
	size_t end = c->arity < 0 ? req->argc : 3;

	if (req->argc < 3 || c->facts.field == FIELD_NONE)
		return;
	if (c->facts.field == FIELD_ELEMENTS) {
		s->kind = COMMAND_SAMPLE_LIST;
		return;
	}
	s->sets_fields = c->facts.field == FIELD_WRITE;
	for (size_t i = 2; i < end && s->nfields < COMMAND_SAMPLE_ARGS_MAX;
	     i += s->sets_fields ? 2 : 1)
		s->fields[s->nfields++] = hash(x, req->argv[i]);
	if (c->facts.field == FIELD_READ) {
		s->kind = COMMAND_SAMPLE_READ;
		s->how = READ_HGET;
	} else if (s->sets_fields && req->argc == 4) {
		s->value = hash(x, req->argv[3]);
	}
}

static void see_command(struct command_sample *s, const struct context *x, bool is_whole)
{
	const struct command *c = x->what->command;

	if (command_runs_script(c)) {
		see_script(s, x);
		return;
	}
	s->effect = effect_of(c, x->req, x->env->date);
	if (c->facts.value != VALUE_NONE) {
		s->kind = COMMAND_SAMPLE_READ;
		s->how = c->facts.value == VALUE_ONE ? READ_GET : READ_MGET;
	} else if (shows_absence(c)) {
		s->kind = COMMAND_SAMPLE_LOOK;
		s->absent = c->facts.noop == NOOP_ABSENT ? -2 : 0;
	} else if (c->facts.field == FIELD_NONE && !(c->flags & COMMAND_WRITE)) {
		s->kind = COMMAND_SAMPLE_OTHER;
	} else {
		s->kind = COMMAND_SAMPLE_EFFECT;
		if (c->facts.rule == RULE_MSETNX)
			s->effect = (struct effect){ .act = EFFECT_ACQUIRE,
				                     .zero_is_nothing = true };
		else if (is_whole && command_single_key(c) &&
		         (s->effect.act == EFFECT_ACQUIRE || s->effect.act == EFFECT_SET))
			s->value = value_hash(x);
		s->way = c->facts.rule == RULE_SETNX || c->facts.rule == RULE_MSETNX
		                 ? WAY_SETNX
		                 : WAY_SET_NX;
		s->swaps = c->facts.rule == RULE_GETSET;
		see_fields(s, x);
	}
}

/* --- owners ------------------------------------------------------------------------------- */

/* Fills in `k` for a lock of `rule`. Returns false if the command does not concern the lock. */
static bool see_locked(struct sighted_key *k, const struct context *x, const struct rule *rule,
                       const struct command_sample *s)
{
	/* With owner = value, a connection owns the value that it stored. */
	enum owner_kind owner = rule->owner == OWNER_VALUE ? OWNER_CONNECTION : rule->owner;

	if (s->kind == COMMAND_SAMPLE_OTHER)
		return false;
	k->use = KEY_LOCK;
	k->owner = hash(x, context_token(x, owner));
	return (s->kind != COMMAND_SAMPLE_EFFECT && s->nfields == 0) ||
	       (command_writes(x->what->command, s->nargs) &&
	        !command_only_gets(x->what->command, x->req));
}

/* Fills in `k` for the guarded key `i` of the command. Returns false if the command does not
 * concern the guard. */
static bool see_guarded(struct sighted_key *k, const struct context *x, const struct guard *g,
                        size_t i, const struct command_sample *s)
{
	switch (guard_key_use(x, g, i)) {
	case GUARD_READ:
		k->use = KEY_GUARD_READ;
		return true;
	case GUARD_WRITTEN:
		k->use = KEY_GUARD_WRITTEN;
		k->keeps_read = !match_releases(g, x->req->argv[0]);
		/* A command that sets an expiry does not update the value. */
		return s->effect.act != EFFECT_EXPIRE && s->effect.act != EFFECT_PERSIST &&
		       s->kind != COMMAND_SAMPLE_SCRIPT;
	case GUARD_IGNORED:
		break;
	}
	return false;
}

/* Fills in `k` for key `i` of the command. Returns false if the key is not watched. */
static bool see_key(struct sighted_key *k, const struct context *x, size_t i,
                    const struct command_sample *s, bool is_discovered)
{
	const struct policy_env *env = x->env;
	const struct rule *rule = x->keys.v[i].rule;
	const struct guard *g = x->keys.v[i].guard;

	*k = (struct sighted_key){ .n = context_key(x, i).n };
	if (rule)
		k->group = env->observed_rules[rule->section.index];
	else if (g)
		k->group = env->observed_guards[g->section.index];
	if (k->group)
		return rule ? see_locked(k, x, rule, s) : see_guarded(k, x, g, i, s);
	if (rule || g)
		k->group = tracker_covered(env->tracker->tracker);
	return is_discovered;
}

/* Gives the client a label if a log line may name the client. */
static void see_client(struct command_sample *s, const struct context *x, bool is_observed)
{
	const struct token *id = x->identity(x->arg);
	struct buf label = BUF_INIT;

	shared_tracker_see(s->all, x->watched, owner_address(id),
	                   session_text(x->session, TEXT_NAME));
	s->client = *x->watched;
	if (!is_observed || tracker_client_is_labelled(s->client))
		return;
	owner_describe(&label, id, session_text(x->session, TEXT_NAME));
	buf_append(&label, slice_of("", 1));
	shared_tracker_label(s->all, s->client, buf_head(&label));
	buf_release(&label);
}

/* Makes the sample of the command; NULL: no key is watched. */
static struct command_sample *see(const struct context *x, bool is_whole)
{
	struct shared_tracker *all = x->env->tracker;
	bool is_observed = false;
	struct command_sample *s = xcalloc(1, sizeof(*s) + x->keys.n * sizeof(s->keys[0]));

	s->all = all;
	s->nargs = x->keys.n;
	see_command(s, x, is_whole);
	for (size_t i = 0; i < x->keys.n; i++) {
		struct sighted_key *k = &s->keys[s->n];
		if (!see_key(k, x, i, s, x->what->is_discovered && is_whole))
			continue;
		is_observed |= k->use != KEY_ANY;
		buf_append(&s->bytes, context_key(x, i));
		s->n++;
	}
	if (s->n == 0) {
		command_sample_free(s);
		return NULL;
	}
	s->watches = session_in_multi(x->session) && x->session->txn.watching;
	s->npipelined = x->npipelined;
	s->under_lock = !list_empty(&context_holds(x)->holds);
	s->is_queued = session_in_multi(x->session);
	s->sent_at = all->clock();
	if (x->what->is_discovered)
		atomic_fetch_add_explicit(&all->commands, 1, memory_order_relaxed);
	see_client(s, x, is_observed);
	return s;
}

void watched_request(struct context *x, struct decision *d, bool is_whole)
{
	struct command_sample *s;

	/* hasp would not see the reply, and so could not report it to the tracker. */
	if (x->session->opaque)
		return;
	s = see(x, is_whole);
	if (s)
		context_note(x, d, s, NULL);
}
