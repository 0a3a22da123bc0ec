/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/observe.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "client/guardkeys.h"
#include "client/meaning.h"
#include "lock/witness.h"

/* Some 50 MB at the very worst, with keys of 256 bytes. */
static const struct witness_limits limits = {
	.nkeys = 32768, .nmarks = 131072, .ntop = 10, .burst = 10
};

struct observers {
	pthread_mutex_t lock; /* held wherever the witness is used */
	struct witness *witness;
};

/* What a configuration has of them; entries are NULL for those that are enforced. */
struct observed_rules {
	struct witness_rule **rules;
	struct witness_rule **guards;
	bool any;
};

struct observer {
	struct observers *all;
	struct witness_client *client;
	char *name; /* by CLIENT SETNAME, as the witness knows it; NULL: none */
};

/* One key of a request; the bytes of token and key follow each other in observation.bytes. */
struct observed_key {
	struct witness_rule *rule;
	enum meaning_act act;
	bool releases;
	int64_t lease_ms;
	size_t ntoken, nkey;
};

struct observation {
	struct observer *observer;
	struct meaning meaning;
	double sent_at; /* clock_now(); 0: it is queued in a transaction */
	size_t nargs; /* keys that the command names, observed or not */
	struct buf bytes;
	size_t n;
	struct observed_key keys[];
};

/* --- all of them ---------------------------------------------------------------- */

struct observers *observers_new(void)
{
	struct observers *o = xcalloc(1, sizeof(*o));

	pthread_mutex_init(&o->lock, NULL);
	o->witness = witness_new((uint64_t)(uintptr_t)o, &limits);
	return o;
}

void observers_free(struct observers *o)
{
	witness_free(o->witness);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

bool observers_report(struct observers *o)
{
	struct buf lines = BUF_INIT;
	bool any;

	pthread_mutex_lock(&o->lock);
	witness_report(o->witness, &lines);
	pthread_mutex_unlock(&o->lock);
	any = buf_len(&lines) > 0;
	log_lines(LOG_SEV_INFO, buf_slice(&lines));
	buf_release(&lines);
	return any;
}

void observe_fini(struct client_env *env)
{
	if (!env->observed)
		return;
	free(env->observed->rules);
	free(env->observed->guards);
	free(env->observed);
	env->observed = NULL;
}

void observe_use_config(struct client_env *env)
{
	const struct config *config = env->config;
	struct observers *all = env->observers;
	struct observed_rules *o = xcalloc(1, sizeof(*o));

	observe_fini(env);
	env->observed = o;
	o->rules = xcalloc(config->nrules + 1, sizeof(struct witness_rule *));
	o->guards = xcalloc(config->nguards + 1, sizeof(struct witness_rule *));
	pthread_mutex_lock(&all->lock);
	for (size_t i = 0; i < config->nrules; i++) {
		const struct rule *rule = config->rules[i];
		if (rule->mode != MODE_OBSERVE)
			continue;
		o->rules[i] = witness_rule(all->witness, WITNESS_LOCK, rule->name);
		witness_rule_by_value(o->rules[i], rule->owner == OWNER_VALUE);
		o->any = true;
	}
	for (size_t i = 0; i < config->nguards; i++) {
		const struct guard *g = config->guards[i];
		if (g->mode != MODE_OBSERVE)
			continue;
		o->guards[i] = witness_rule(all->witness, WITNESS_GUARD, g->name);
		o->any = true;
	}
	pthread_mutex_unlock(&all->lock);
}

bool observe_concerns(const struct client_env *env, const struct resolved *what,
                      struct slice name)
{
	const struct config *config = env->config;
	const struct command *c = what->command;
	bool writes;

	if (!env->observed->any || !c || what->special || what->is_verb)
		return false;
	writes = (c->flags & COMMAND_WRITE) &&
	         !(c->flags & (COMMAND_BLOCKING | COMMAND_NOSCRIPT));
	if (writes)
		return true;
	for (size_t i = 0; i < config->nguards; i++)
		if (env->observed->guards[i] && guard_acquires_on(config->guards[i], name))
			return true;
	return false;
}

/* --- a client ------------------------------------------------------------------- */

/* "127.0.0.1:4711 name" */
static void describe(const struct owner_identity *id, const char *name, struct buf *out)
{
	const char *at = strchr(id->connection, ':') + 1;

	buf_append(out, slice_of(at, strcspn(at, "/")));
	if (name)
		buf_printf(out, " %s", name);
	buf_append(out, slice_of("", 1));
}

static bool same_name(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static struct observer *observer_of(const struct context *x)
{
	const struct dispatch_from *from = x->from;
	struct observer *o = *from->observer;
	struct observers *all = from->env->observers;
	const char *name = x->session->name;
	struct buf called = BUF_INIT;

	if (o && same_name(o->name, name))
		return o;
	describe(from->identity(from->arg), name, &called);
	if (!o) {
		o = *from->observer = xcalloc(1, sizeof(*o));
		o->all = all;
		o->client = witness_client_new(buf_head(&called));
	} else {
		pthread_mutex_lock(&all->lock);
		witness_client_call(o->client, buf_head(&called));
		pthread_mutex_unlock(&all->lock);
	}
	free(o->name);
	o->name = name ? xstrdup(name) : NULL;
	buf_release(&called);
	return o;
}

void observer_free(struct observer *o)
{
	if (!o)
		return;
	pthread_mutex_lock(&o->all->lock);
	witness_client_free(o->client);
	pthread_mutex_unlock(&o->all->lock);
	free(o->name);
	free(o);
}

/* --- a request ------------------------------------------------------------------ */

void observation_free(struct observation *o)
{
	if (!o)
		return;
	buf_release(&o->bytes);
	free(o);
}

static void add_key(struct observation *o, const struct context *x, struct slice key,
                    enum owner_kind owner, const struct observed_key *how)
{
	/* What a connection stores is its own. */
	struct slice token = deciding_token(x, owner == OWNER_VALUE ? OWNER_CONNECTION : owner,
	                                    &x->from->env->token);
	struct observed_key *k = &o->keys[o->n++];

	*k = *how;
	k->ntoken = token.n;
	k->nkey = key.n;
	buf_append(&o->bytes, token);
	buf_append(&o->bytes, key);
}

/* Argument `i` of `nargs` keys. */
static void look_at_key(struct observation *o, const struct context *x, struct slice key,
                        size_t i)
{
	const struct client_env *env = x->from->env;
	const struct rule *rule = config_rule_for(env->config, key);
	const struct guard *g = rule ? NULL : config_guard_for(env->config, key);
	struct observed_key k = { 0 };

	if (rule && env->observed->rules[rule->index]) {
		k.rule = env->observed->rules[rule->index];
		k.act = o->meaning.act;
		k.lease_ms = o->meaning.lease_ms;
		if (x->what->command->flags & COMMAND_WRITE)
			add_key(o, x, key, rule->owner, &k);
	} else if (g && env->observed->guards[g->index]) {
		k.rule = env->observed->guards[g->index];
		switch (guard_key_use(x, g, i, o->nargs, &k.releases)) {
		case GUARD_READ:
			k.act = MEANING_READ;
			add_key(o, x, key, g->owner, &k);
			break;
		case GUARD_WRITTEN:
			k.act = MEANING_WRITE;
			/* An expiry is no update. */
			if (o->meaning.act != MEANING_EXPIRE &&
			    o->meaning.act != MEANING_PERSIST)
				add_key(o, x, key, g->owner, &k);
			break;
		case GUARD_IGNORED:
			break;
		}
	}
}

/* NULL: no key is observed. */
static struct observation *look_at(const struct context *x)
{
	const struct command *c = x->what->command;
	size_t few[KEYS_ON_STACK], *args = few;
	size_t n = command_key_args(c, x->req, args, KEYS_ON_STACK);
	struct observation *o;

	if (n > KEYS_ON_STACK) {
		args = xcalloc(n, sizeof(*args));
		n = command_key_args(c, x->req, args, n);
	}
	o = xcalloc(1, sizeof(*o) + n * sizeof(o->keys[0]));
	o->nargs = n;
	o->meaning = meaning_of(x->req, ev_now(x->from->env->loop));
	for (size_t i = 0; i < n; i++)
		look_at_key(o, x, x->req->argv[args[i]], i);
	if (args != few)
		free(args);
	if (o->n == 0) {
		observation_free(o);
		return NULL;
	}
	o->observer = observer_of(x);
	o->sent_at = x->session->in_multi ? 0 : clock_now();
	return o;
}

void observe(struct context *x, struct decision *d)
{
	struct session *s = x->session;
	struct request *r = d->request;
	struct observation *o;

	/* Nobody would hear what it is answered. */
	if (s->opaque)
		return;
	o = look_at(x);
	if (!o)
		return;
	if (!r) {
		r = request_new(REQUEST_OBSERVED);
		session_track(s, r);
		if (!s->in_multi) {
			d->treat = LINK_TELL | LINK_SOON;
			d->request = r;
		}
	} else if (d->treat & LINK_TELL) {
		d->treat |= LINK_SOON;
	}
	r->observation = o;
}

/* --- its reply ------------------------------------------------------------------ */

static enum witness_gone is_gone(const struct observation *o, const struct resp_reply *reply)
{
	if (reply->type != ':')
		return reply->nil ? WITNESS_WAS_GONE : WITNESS_GONE;
	if (reply->integer == 0)
		return WITNESS_WAS_GONE;
	return (size_t)reply->integer == o->nargs ? WITNESS_GONE : WITNESS_MAY_BE_GONE;
}

static void count(const struct witness_act *a, const struct resp_reply *reply)
{
	if (reply->integer == 1)
		witness_took(a, 0, false);
	else
		witness_refused(a);
}

static void expires(const struct witness_act *a, int64_t lease_ms, bool done)
{
	if (!done)
		witness_expires_not(a);
	else if (lease_ms > 0)
		witness_expires(a, lease_ms);
	else
		witness_dropped(a, WITNESS_GONE);
}

static void settle(const struct observation *o, const struct observed_key *k,
                   const struct witness_act *a, const struct resp_reply *reply)
{
	bool done = meaning_is_done(&o->meaning, reply);

	switch (k->act) {
	case MEANING_READ:
		witness_read(a);
		break;
	case MEANING_WRITE:
		if (done)
			witness_wrote(a, k->releases);
		break;
	case MEANING_TAKE:
		done ? witness_took(a, k->lease_ms, false) : witness_refused(a);
		break;
	case MEANING_SET:
		if (done)
			witness_took(a, k->lease_ms, true);
		break;
	case MEANING_COUNT:
		count(a, reply);
		break;
	case MEANING_EXPIRE:
		expires(a, k->lease_ms, done);
		break;
	case MEANING_PERSIST:
		if (done)
			witness_expires(a, 0);
		break;
	case MEANING_DROP:
		witness_dropped(a, is_gone(o, reply));
		break;
	case MEANING_CHANGE:
		if (done)
			witness_changed(a);
		break;
	}
}

void observation_settle(const struct observation *o, int db, const struct resp_reply *reply)
{
	struct observers *all = o->observer->all;
	struct slice rest = buf_slice(&o->bytes);
	struct buf told = BUF_INIT;
	struct witness_act a = {
		.witness = all->witness,
		.client = o->observer->client,
		.db = db,
		.told = &told,
	};

	if (resp_reply_is_error(reply))
		return;
	pthread_mutex_lock(&all->lock);
	/* Behind the lock, so that it does not go back. */
	a.now = clock_now();
	a.sent = o->sent_at > 0 ? o->sent_at : a.now;
	for (size_t i = 0; i < o->n; i++) {
		const struct observed_key *k = &o->keys[i];
		a.rule = k->rule;
		a.token = slice_of(rest.p, k->ntoken);
		a.key = slice_of(rest.p + k->ntoken, k->nkey);
		rest.p += k->ntoken + k->nkey;
		settle(o, k, &a, reply);
	}
	pthread_mutex_unlock(&all->lock);
	log_lines(LOG_SEV_INFO, buf_slice(&told));
	buf_release(&told);
}
