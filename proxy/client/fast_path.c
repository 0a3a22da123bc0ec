/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/fast_path.h"

#include "client/links.h"
#include "config/match.h"
#include "policy/classifier.h"
#include "policy/own_keys.h"
#include "policy/watched.h"

/* The requests that a client's link takes, among those that need no decision. */
enum plain { PLAIN_NONE, PLAIN_STATELESS, PLAIN_ANY };

static enum plain takes_plain(const struct client *c)
{
	bool pooled = c->env->policy.config->pooling == POOLING_SHARED;

	if (!links_is_usable(c) || session_in_multi(&c->session))
		return PLAIN_NONE;
	if (c->pinned)
		return c->shared ? PLAIN_NONE : PLAIN_ANY;
	if (c->shared != pooled || (pooled && (c->session.uncertain || links_must_log_in(c))))
		return PLAIN_NONE;
	return PLAIN_STATELESS;
}

/* True if the request in env->args has only to be passed. */
static inline bool is_plain(const struct client *c, const struct command_info *what)
{
	const struct client_env *env = c->env;
	const struct request_args *args = &env->args;
	struct slice key;
	unsigned possible;

	if (what->is_free)
		return true;
	if (!what->is_plain || args->argc < 2)
		return false;
	key = args->argv[1];
	possible = match_possible(env->policy.config, key);
	if (what->may_release && env->policy.own_keys_protected &&
	    (!what->is_matched || (possible & MATCH_MAY_BE_OWN)) &&
	    own_keys_are_named(args->argv + 1, args->argc - 1))
		return false;
	if (what->may_release && dispatch_heeds_releases(&env->policy) &&
	    dispatch_may_release(&env->policy, &c->session, what,
	                         &(struct resp_view){ args->argc, args->argv }))
		return false;
	if (what->is_discovered &&
	    watched_wants(env->policy.tracker, what->command, args->argv, args->argc))
		return false;
	if (!what->is_matched && !what->reads_value)
		return true;
	return !(possible & (MATCH_RULE | MATCH_GUARD)) ||
	       (!match_rule(env->policy.matcher, key) &&
	        ((!what->is_guarded && !what->is_observed) ||
	         !match_guard(env->policy.matcher, key)));
}

/* A request that is whole and simple; its arguments are in env->args. By value: it stays in
 * registers. */
struct simple {
	size_t n; /* its length; 0: there is none */
	const struct command_info *what;
};

/* Scans a request that does not begin like an earlier one. */
static struct simple scan_plain_unknown(struct client_env *env, const char *p, size_t n)
{
	struct request_args *args = &env->args;
	size_t used = request_scan_simple(p, n, args);

	if (used == 0)
		return (struct simple){ 0, NULL };
	env->found = classifier_find(&env->policy, args->argv[0]);
	classifier_remember(env->policy.classifier, p, args->argc, args->argv[0].n,
	                    &env->found);
	return (struct simple){ used, &env->found };
}

static inline struct simple scan_plain(struct client_env *env, const char *p, size_t n)
{
	struct request_args *args = &env->args;
	const struct command_prefix *b = classifier_recall(env->policy.classifier, p, n);

	if (!b)
		return scan_plain_unknown(env, p, n);
	args->argv[0] = slice_of(p + PREFIX_NAME, b->name_len);
	n = request_scan_rest(p, n, PREFIX_NAME + b->name_len + 2, b->argc, args);
	return (struct simple){ n, &b->what };
}

size_t fast_path_take(struct client *c, struct cursor *k)
{
	enum plain takes = takes_plain(c);
	const char *p = k->p + k->at, *end = k->p + k->n;
	struct simple r = { 0, NULL };
	uint32_t count = 0;

	for (; p < end; p += r.n, count++) {
		r = scan_plain(c->env, p, (size_t)(end - p));
		if (r.n == 0 || takes == PLAIN_NONE)
			break;
		if (takes == PLAIN_STATELESS && !r.what->is_stateless)
			break;
		if (!is_plain(c, r.what))
			break;
	}
	k->at = (size_t)(p - k->p);
	k->found = r.what;
	link_expect_plain(&c->user, count);
	metrics_count(&c->env->counters.commands[COMMAND_PASSED], count);
	return p < end ? r.n : 0;
}
